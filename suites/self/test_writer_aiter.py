"""The production writer is a HIP kernel: what its adapter says off a chip, and how it calls it on one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from harness import runner
from harness.case.cases import parse
from harness.checks.writer import inputs as writer_inputs
from harness.hip import compilers
from harness.hip.compilers import CannotCompile
from harness.judge.ledger import Ledger
from harness.judge.verdict import OUT_OF_SCOPE, Status
from harness.paths.aiter import AiterPath, writing
from harness.paths.base import OutOfScope, Unsupported
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens

CASE = parse("writer-r3-h16-d128-pairinterleaved-all1-p1-fspread-s2")
FP8 = (
    "q q_out weights weights_out k kv_cache slot_mapping norm_weight norm_bias positions cos_cache sin_cache"
)
SETTINGS = "epsilon quant_block_size scale_fmt weights_scale"
SOURCE = """
def swap_blocks(src, dst): ...

def indexer_qk_rope_quant_and_cache({parameters}):
    CALLS.append(dict(locals()))
    q_out.fill_(7)
    kv_cache_scale.fill_(9)

CALLS = []
"""


def parameters(*more: str) -> str:
    return ", ".join((*FP8.split(), *SETTINGS.split(), "preshuffle=False", "is_neox=True", *more))


NEW = parameters("compute_all_q_rope=False", "q_scale_out=None", "kv_cache_scale=None")


@pytest.fixture(autouse=True)
def _no_aiter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts in a process that never imported any aiter; modules are put back."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "aiter"}
    for name in kept:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "aiter"]:
        del sys.modules[name]
    sys.modules.update(kept)


def plant(root: Path, taken: str) -> Path:
    """A tree whose one module has the writer with parameters ``taken``."""
    home = root / "aiter" / "ops"
    home.mkdir(parents=True)
    (home / "cache.py").write_text(SOURCE.format(parameters=taken))
    return root


class OnChip(AiterPath):
    """As if torch saw a gfx950."""

    @property
    def executor(self) -> str:
        return "device gfx950"


def request() -> WriteTokens:
    return writer_inputs.build(CASE)


def test_a_tree_without_the_kernel_is_out_of_scope_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "find", lambda: None)
    path = AiterPath(plant(tmp_path, NEW))
    with pytest.raises(
        OutOfScope, match=r"^csrc/kernels/cache_kernels.cu, a HIP source, is not in this tree$"
    ):
        path.run(request())
    verdict = runner.run(CASE, path, Ledger())
    assert verdict.status is Status.UNSUPPORTED and verdict.facts[OUT_OF_SCOPE] is True


def test_a_machine_without_a_compiler_is_out_of_scope_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise CannotCompile("no compiler")

    monkeypatch.setattr(compilers, "find", none)
    with pytest.raises(OutOfScope, match=r"^no compiler$"):
        AiterPath(plant(tmp_path, NEW)).run(request())


LACKING = {
    parameters(): "has no FP4 mode (no parameter q_scale_out)",
    parameters(
        "compute_all_q_rope=False", "q_scale_out=None"
    ): "has no FP4 mode (no parameter kv_cache_scale)",
    parameters("q_scale_out=None", "kv_cache_scale=None"): "has no parameter compute_all_q_rope",
}


@pytest.mark.parametrize("taken", LACKING, ids=range(len(LACKING)))
def test_an_aiter_without_the_mode_is_named(tmp_path: Path, taken: str) -> None:
    """It would take the call without the scale tensors and write FP8; on a chip that is version skew."""
    plant(tmp_path, taken)
    with pytest.raises(OutOfScope) as off_chip:
        AiterPath(tmp_path).run(request())
    assert str(off_chip.value) == f"indexer_qk_rope_quant_and_cache of this aiter {LACKING[taken]}"
    with pytest.raises(Unsupported) as on_chip:
        OnChip(tmp_path).run(request())
    assert not on_chip.value.expected
    assert str(on_chip.value) == f"indexer_qk_rope_quant_and_cache of this aiter {LACKING[taken]}"


def test_a_tree_without_the_function_or_the_file(tmp_path: Path) -> None:
    plant(tmp_path / "other", NEW)
    (tmp_path / "other/aiter/ops/cache.py").write_text("def swap_blocks(): ...\n")
    assert writing.lacks(tmp_path / "other").endswith("has no function indexer_qk_rope_quant_and_cache")
    assert writing.lacks(tmp_path) == "this aiter has no aiter/ops/cache.py"


def test_on_a_chip_everything_goes_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of aiter's names gets the request's tensor, in FP4 mode; what it writes comes back in place."""
    monkeypatch.setattr(writing, "on_device", torch.Tensor.clone)
    path, asked = OnChip(plant(tmp_path, NEW)), request()
    before = [output.clone() for output in asked.outputs]
    outcome = path.run(asked)
    call = sys.modules["aiter.ops.cache"].CALLS[0]
    assert all(
        torch.equal(call[theirs].view(torch.uint8), getattr(asked, ours).view(torch.uint8))
        for theirs, ours in writing.TENSORS.items()
        if ours not in WRITTEN_TOKENS and ours != "q"
    )
    settings = {
        name: call[name] for name in (*SETTINGS.split(), "preshuffle", "is_neox", "compute_all_q_rope")
    }
    assert settings == {
        "epsilon": 1e-6,
        "quant_block_size": 32,
        "scale_fmt": "ue8m0",
        "weights_scale": 128**-0.5 * 16**-0.5,
        "preshuffle": False,
        "is_neox": False,
        "compute_all_q_rope": True,
    }
    assert bool((asked.q_codes == 7).all()) and bool((asked.k_scales == 9).all())
    assert torch.equal(asked.k_codes, before[3]) and torch.equal(asked.q_scales, before[1])
    assert outcome.value == asked.outputs and outcome.facts["executor"] == "device gfx950"
