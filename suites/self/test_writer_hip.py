"""aiter's fused writer in FP4 mode off a chip: which instance runs, over what, and what its answer may be."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.checks.writer import inputs as writer_inputs
from harness.checks.writer.wanted import query_range, wanted
from harness.hip import cache_subjects, reading
from harness.hip.cache_subjects import BLOCK_A_HEAD, WAVE_A_BLOCK
from harness.hip.compilers import CannotCompile
from harness.hip.launching import Launch
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.aiter import AiterPath, hip, writing
from harness.paths.oracle import writing as by_oracle
from harness.paths.requests.eightbit import SUBNORMALS
from harness.paths.requests.writing import WRITTEN_TOKENS, WriteTokens
from oracles.eightbit_subnormals import MODES
from suites.self import hip_tree
from suites.self.writer_faulty import FaultyWriter

HEAD = """
template <typename scalar_t, typename cache_t, vllm::Fp8KVCacheDataType kv_dt,
          int HEAD_DIM, int ROPE_DIM{more}>
__global__ void indexer_qk_rope_quant_and_cache_kernel(
"""
KERNEL = f"""{hip_tree.LIGHT}
namespace opus {{ using bf16_t = __bf16; using fp8_t = unsigned char; }}
namespace vllm {{ enum class Fp8KVCacheDataType {{ kFp8E4M3 }}; }}
namespace aiter {{
{HEAD.format(more=", bool FP4_OUT, bool NARROW")}
    const scalar_t* __restrict__ weights, scalar_t* __restrict__ weights_out, unsigned char* q_out,
    unsigned char* kv_cache, unsigned char* kv_cache_scale, const int num_tokens, const int n_heads,
    const int cache_block_size, const int weights_stride_t, const int weights_out_stride_t,
    const int max_position, const bool compute_all_q_rope)
{{
    constexpr int HEADS = NARROW ? 1 : 4;
    const int token = blockIdx.x, lane = threadIdx.x;
    const int head = blockIdx.y * HEADS + lane;
    if(lane < HEADS && head < n_heads)
        weights_out[token * weights_out_stride_t + head] = weights[token * weights_stride_t + head];
    if(lane != 0 || blockIdx.y != 0 || token != num_tokens - 1)
        return;
    q_out[0] = NARROW;
    q_out[1] = FP4_OUT;
    kv_cache[0] = cache_block_size;
    kv_cache_scale[0] = max_position / 64 + compute_all_q_rope;
}}
}} // namespace aiter
"""
OPS = "def indexer_qk_rope_quant_and_cache(compute_all_q_rope, q_scale_out, kv_cache_scale): ...\n"
CASE = "writer-r3-h32-d128-pairinterleaved-all1-p1-fspread-s2"
QUIET = "writer-r8-h16-d128-pairinterleaved-all1-p2-fquiet-s8"

needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="no compiler (extra hip)"
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "hip-cache"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree"), KERNEL)


def plant(root: Path, kernel: str) -> Path:
    for name, text in ((cache_subjects.SOURCE, kernel), ("csrc/include/own.h", ""), (writing.FILE, OPS)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def request(rows: int = 0) -> WriteTokens:
    """A case's request; with ``rows`` its rows over and over."""
    asked = writer_inputs.build(parse(CASE))
    if not rows:
        return asked
    lead = ("q", "k", "weights", "positions", "slots", "q_codes", "q_scales", "weights_out")
    again = torch.arange(rows) % len(asked.q)
    return replace(asked, **{name: getattr(asked, name)[again] for name in lead})


def launch(asked: WriteTokens, template: tuple[str, ...] = WAVE_A_BLOCK, **changed: Any) -> Launch:
    held = {ours: getattr(asked, ours) for ours in writing.TENSORS.values()}
    given = writing.named(asked, held) | changed
    return cache_subjects.indexer_qk_rope_quant_and_cache(**given, template=template)


# which kernel, and how it is launched


@pytest.mark.parametrize(("rows", "instance", "blocks"), [(256, "true, true>", 32), (257, "true, false>", 8)])
def test_up_to_256_tokens_take_the_narrow_instance(rows: int, instance: str, blocks: int) -> None:
    made = launch(request(rows))
    assert made.instance.endswith(f"128, 64, {instance}")
    assert made.grid == (rows, blocks, 1) and made.block == (64, 1, 1)


def test_the_mode_is_that_of_the_scale_tensors() -> None:
    asked = request()
    four, eight = launch(asked), launch(asked, q_scale_out=None, kv_cache_scale=None)
    assert "64, true, true>" in four.instance and "64, false, true>" in eight.instance
    assert four.arguments["cache_block_size"] == 64 == asked.k_codes.shape[3]
    assert eight.arguments["cache_block_size"] == asked.k_codes.shape[1]
    assert four.arguments["max_position"] == len(asked.cos) and four.arguments["compute_all_q_rope"] is True


def test_the_older_template_has_no_fp4_mode() -> None:
    eight = {"q_scale_out": None, "kv_cache_scale": None, "compute_all_q_rope": False}
    assert launch(request(), BLOCK_A_HEAD, **eight).grid == (4, 32, 1)
    for more in ({}, {**eight, "compute_all_q_rope": True}):
        with pytest.raises(
            CannotCompile, match=r"of this tree has no FP4 mode and skips rows without a slot$"
        ):
            launch(request(), BLOCK_A_HEAD, **more)


@pytest.mark.parametrize(
    ("more", "found"),
    [("", BLOCK_A_HEAD), (",\n bool FP4_OUT, // a > b\n bool NARROW = false", WAVE_A_BLOCK)],
)
def test_the_template_is_read_from_the_source(more: str, found: tuple[str, ...]) -> None:
    assert cache_subjects.writer_template(f"{HEAD.format(more=more)} int a) {{}}") == found


def test_another_template_is_refused_by_its_parameters() -> None:
    with pytest.raises(CannotCompile, match=r"template parameters scalar_t, .*, WAVES, which no launcher"):
        cache_subjects.writer_template(f"{HEAD.format(more=', int WAVES')} int a) {{}}")
    with pytest.raises(CannotCompile, match=r"^this tree has no kernel template other_kernel$"):
        reading.template(HEAD.format(more=""), "other_kernel")


# off a chip


@needs_compiler
@pytest.mark.parametrize(("rows", "narrow"), [(0, 1), (257, 0)])
def test_off_a_chip_the_kernel_of_the_tree_runs(tree: Path, rows: int, narrow: int) -> None:
    asked = request(rows)
    outcome = AiterPath(tree).run(asked)
    assert outcome.value == asked.outputs and outcome.findings == ()
    assert asked.q_codes.flatten()[:2].tolist() == [narrow, 1]
    assert asked.k_codes.flatten()[0] == 64 and asked.k_scales.flatten()[0] == 64 + 1
    assert torch.equal(asked.weights_out.view(torch.int16), asked.weights.contiguous().view(torch.int16))
    assert outcome.facts["source"] == cache_subjects.SOURCE and outcome.facts["executor"] == hip.EXECUTOR
    assert outcome.facts["subject"] == "aiter indexer_qk_rope_quant_and_cache in FP4 mode"


@needs_compiler
def test_what_is_too_large_is_run_one_way(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip, "ways", lambda program: [(None, "nearest")] * 3)
    assert AiterPath(tree).run(request()).facts["ways run"] == 3
    monkeypatch.setattr(hip, "COPIED", 0)
    outcome = AiterPath(tree).run(request())
    assert outcome.facts["ways run"] == 1 and outcome.facts["bytes with several results"] == 0


@needs_compiler
@pytest.mark.parametrize(
    ("more", "what"), [("", "has no FP4 mode"), (", int WAVES", "has template parameters")]
)
def test_a_kernel_without_the_mode_is_unsupported(tmp_path: Path, more: str, what: str) -> None:
    """Though the function in Python takes the scale tensors."""
    plant(tmp_path, f"{HEAD.format(more=more)} int a) {{}}")
    with pytest.raises(base.Unsupported, match=what) as refusal:
        AiterPath(tmp_path).run(request())
    assert not refusal.value.expected


# what is right


class InMode(FaultyWriter):
    """The oracle's answer as it is in ``mode``, and other ways with it."""

    def __init__(self, mode: str, stated: str | None = None, spoil: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.mode, self.stated, self.spoil = mode, stated, spoil

    def write_tokens(self, asked: WriteTokens) -> base.Outcome:
        before = [tensor.clone() for tensor in asked.outputs]
        rows = len(asked.slots)
        lead = ("q", "k", "weights", "positions", "q_codes", "q_scales", "weights_out")
        seen = replace(asked, **{name: getattr(asked, name)[:rows] for name in lead})
        by_oracle.write_tokens(seen)
        old = [old[:rows] if place < 3 else old for place, old in enumerate(before)]
        made = wanted(seen, old, seen.outputs, mode=self.mode).outputs
        for name, own in zip(WRITTEN_TOKENS, seen.outputs, strict=True):
            own.view(made[name].dtype).copy_(made[name])
        ways = [[tensor.clone() for tensor in asked.outputs] for _ in self.spoil]
        for way, byte in zip(ways, self.spoil, strict=True):
            way[0].flatten()[byte] ^= 1
        if ways:
            for own, first in zip(asked.outputs, ways[0], strict=True):
                own.copy_(first)
        facts = {SUBNORMALS: self.stated} if self.stated else {}
        return base.Outcome(asked.outputs, facts=facts, others=tuple(map(tuple, ways[1:])))


def judged(text: str, *args: Any, **more: Any) -> Verdict:
    return runner.run(parse(text), InMode(*args, **more), Ledger())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stated", [None, *MODES])
def test_a_path_is_held_to_the_mode_that_it_states(mode: str, stated: str | None) -> None:
    """Keys and rotated queries of fill quiet are subnormal: flushing shows. Unstated, either mode is right.

    Rows past the slots, which this writer ignores, are left alone, and those without a slot computed.
    """
    verdict = judged(QUIET, mode, stated)
    right = stated in (None, mode)
    assert verdict.status is (Status.AGREE if right else Status.DIFFER)
    if right:
        assert verdict.facts[SUBNORMALS] == mode and verdict.facts["more rows than slots"] == "ignored"


@pytest.mark.parametrize("text", [CASE, "writer-r3-h16-d128-pairneox-all0-p1-fspread-s3"])
def test_a_byte_is_right_where_one_way_has_it_right(text: str) -> None:
    assert judged(text, "kept", spoil=(3, 7)).status is Status.AGREE
    verdict = judged(text, "kept", spoil=(3, 3))
    assert verdict.status is Status.DIFFER and verdict.where["tensor"] == "q_codes"


LEAST = 2.0**-126


@pytest.mark.parametrize(
    ("value", "turned", "untouched"),
    [
        (LEAST, (LEAST, LEAST), (LEAST, LEAST)),
        (LEAST * (1 - 2.0**-7), (0.0, 0.0), (0.0, LEAST * (1 - 2.0**-7))),
        (-LEAST / 2, (-0.0, 0.0), (-LEAST / 2, -0.0)),
    ],
)
def test_either_side_of_the_least_normal_number(
    value: float, turned: tuple[float, float], untouched: tuple[float, float]
) -> None:
    """At position 0: rotated dims are multiplied by 1, the others reach the conversion as they are."""
    asked = request()
    asked = replace(
        asked, q=torch.full_like(asked.q, value), positions=torch.zeros_like(asked.positions), pairing="neox"
    )
    every = torch.ones(len(asked.q), dtype=torch.bool)
    flushed = query_range(asked, every, mode="flushed")
    kept = query_range(asked, every)
    assert bool((kept.low == value).all()) and not bool(kept.open.any())
    for dims, ends in ((slice(0, 64), turned), (slice(64, 128), untouched)):
        found: list[Tensor] = [flushed.low[:, dims], flushed.high[:, dims]]
        for end, right in zip(found, ends, strict=True):
            assert bool((end == right).all()), (dims, end.unique(), right)
