"""Which kernel answers a request of suite rotate: aiter's launches, and the in-tree kernels."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks.rotate.asked import build
from harness.faults.fault import Fault
from harness.faults.stages import rotating as faults
from harness.faults.trial import RED
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths.aiter import hip, rotating
from harness.paths.base import Unsupported
from harness.paths.flydsl import rotating as in_tree
from harness.paths.requests.rotating import RotateKeys, RotateQueries
from suites.self.fault_bench import bench

PLAIN = "rotate-r2-h16-d256-rope0-had1-tofp4-g64-shuf1-fnatural-s1"
TURNED = "rotate-r2-h16-d128-rope64-had0-tofp4-g32-shuf1-fnatural-s2"
EIGHT = "rotate-r2-h16-d128-rope64-had1-tofp8-g128-shuf0-fnatural-s3"
KEYS = "rotate-r5-h16-d128-rope64-had1-page64-g32-shuf1-fnatural-s4"


@pytest.mark.parametrize(
    ("text", "instance", "given"),
    [
        (PLAIN, "hadamard_rotate_activation_fp4quant_kernel<opus::bf16_t, opus::fp4_t, 256, 16>", {"m": 32}),
        (TURNED, "rope_hadamard_rotate_activation_fp4quant_kernel<opus::bf16_t, opus::fp4_t, false, 128, 16>",
         {"rope_dim": 64, "shuffle_scale": True, "group_size": 32}),
        (EIGHT, "rope_hadamard_rotate_activation_fp8quant_kernel<opus::bf16_t, true, 128, 16>",
         {"rope_dim": 64, "group_size": 128}),
        (KEYS, "norm_rope_hadamard_rotate_activation_fp4quant_kvcache_kernel"
         "<opus::bf16_t, opus::fp4_t, true, 128, 16>",
         {"kv_block_size": 64, "epsilon": 1e-6, "head_num": 16}),
    ],
)  # fmt: skip
def test_aiter_is_launched_by_its_own_instances(
    text: str, instance: str, given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written is the request's own buffers; the rest are its tensors and numbers."""
    launched = []
    monkeypatch.setattr(hip, "answered", lambda path, launch, *rest: launched.append((launch, *rest)))
    request = build(parse(text))
    rotating.answers(SimpleNamespace())[type(request)](request)  # type: ignore[arg-type]
    ((launch, written, value, _),) = launched
    assert launch.instance == f"aiter::{instance}" and launch.arguments["input"] is request.x
    assert {name: launch.arguments[name] for name in given} == given
    assert written == value == request.outputs


def test_aiter_has_no_kernel_without_rope_and_transform() -> None:
    request = build(parse(PLAIN))
    assert isinstance(request, RotateQueries)
    bare = replace(request, hadamard=False)
    with pytest.raises(Unsupported, match="no kernel that quantises without RoPE"):
        rotating.queries(SimpleNamespace(), bare)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [PLAIN, TURNED, EIGHT, KEYS])
def test_the_in_tree_kernels_agree(text: str) -> None:
    path = bench().path
    assert runner.run(parse(text), path, Ledger()).status is Status.AGREE


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: str(fault.name))
def test_a_fault_is_red_on_the_in_tree_path(fault: Fault) -> None:
    """Its own case agrees without it, and differs in its bits with it."""
    told = bench().trial(fault)
    assert (told.outcome, told.layer) == (RED, "bits"), told.reason


def test_the_in_tree_kernels_refuse_gaps() -> None:
    """Tensors whose strides are not handed over."""
    request = build(parse(KEYS))
    assert isinstance(request, RotateKeys)
    gapped = torch.zeros(*request.codes.shape, 2, dtype=torch.uint8)[..., 0]
    changed = replace(request, codes=gapped)
    with pytest.raises(ValueError, match="codes has gaps, allowed is contiguous memory"):
        in_tree.keys(changed)
