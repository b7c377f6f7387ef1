"""What is true of the in-tree path: the oracle's bits, no finding, and nothing outside the windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.case import cases
from harness.fill import inputs, pages
from harness.fill.inputs import Inputs
from harness.judge import compare
from harness.paths.base import Outcome
from harness.paths.flydsl import FlydslPath, abi, schedules
from harness.paths.requests.scoring import (
    DecodeSchedule,
    DecodeScores,
    Planes,
    PrefillSchedule,
    PrefillScores,
    VarqlenWindows,
)
from harness.paths.requests.writing import Quantise, WriteKeys
from oracles import formats, layout, schedule, score, windows
from oracles.windows import Windows

EDGES = "0,1,15,16,17,255,256,257"
WINDOWS = "0@0:1,0@37:41,0@5:5,0@255:257,0@100:300,0@290:300,1@16:64,1@64:65,2@0:0"


@cache
def path() -> FlydslPath:
    return FlydslPath()


def build(text: str) -> Inputs:
    """Inputs of a case, with only those bytes of keys and queries declared written that a row may see."""
    made = inputs.build(cases.parse(text))
    planes = made.planes
    slots = pages.slots(made.case.ctx, planes.block_tables)
    seen = torch.zeros(planes.k_codes.shape[0], abi.PAGE_ROWS, dtype=torch.bool)
    seen.view(-1)[slots] = True
    bent = torch.zeros_like(seen)
    row = torch.arange(abi.PAGE_ROWS)
    bent[:, layout.bent_row(row)] = seen
    busy = made.end > made.start
    entries = torch.arange(planes.block_tables.shape[1]) < -(-made.context_lens[:, None] // abi.PAGE_ROWS)
    defined = {
        "k_codes": seen[:, None, None, :, None].expand(planes.k_codes.shape),
        "k_scales": bent[:, None, None, :].expand(planes.k_scales.shape),
        "q_codes": busy[:, None, None].expand(planes.q_codes.shape),
        "q_scales": busy[:, None, None, None, None].expand(planes.q_scales.shape),
        "weights": busy[:, None].expand(planes.weights.shape),
        "block_tables": entries,
    }
    return replace(made, planes=replace(planes, defined=defined))


def wanted(made: Inputs, rows: Windows, tree: str) -> Tensor:
    """The oracle's scores under ``tree``, minus infinity outside the windows."""
    planes: Planes = made.planes
    operands = (planes.q_codes, planes.q_scales, planes.k_codes, planes.k_scales, planes.block_tables)
    weights = (planes.weights, made.filled.weight_scale)
    return score.score_windows(*operands, *weights, rows, made.width, how=tree).value


def same_bits(got: Tensor, want: Tensor) -> bool:
    equal = got.view(torch.int32) == want.view(torch.int32)
    return got.shape == want.shape and bool((equal | (got.isnan() & want.isnan())).all())


def assert_clean(outcome: Outcome, want: Tensor) -> None:
    assert [finding.text() for finding in outcome.findings] == []
    assert same_bits(outcome.value, want)
    assert outcome.facts["executor"] == "emulated" and outcome.facts["launches"] == 1


@pytest.mark.parametrize(
    "geometry",
    [
        "n1-h64-d128",
        "n2-h16-d128",
        "n3-h48-d256",
        "n4-h32-d128",
        "n5-h80-d128",
        "n8-h128-d256",
    ],
)
def test_decode_has_the_bits_of_its_tree_and_reads_only_what_is_visible(geometry: str) -> None:
    lengths = EDGES if "h128" not in geometry else "257,9"
    made = build(f"decode-{geometry}-ctx{lengths}-ttight-u0-l0-fnatural-s1")
    assert_clean(path().run(made.decode()), wanted(made, made.windows, "decode"))


@pytest.mark.parametrize("fill", ["bytes", "wide"])
def test_decode_agrees_on_raw_bytes_and_on_scales_of_the_whole_range(fill: str) -> None:
    made = build(f"decode-n4-h64-d128-ctx300,7-tstrided-u0-l0-f{fill}-s2")
    assert_clean(path().run(made.decode()), wanted(made, made.windows, "decode"))


@pytest.mark.parametrize("geometry", ["h64-d128", "h16-d256", "h128-d128"])
def test_prefill_has_the_bits_of_its_tree_for_windows_that_start_late_or_are_empty(geometry: str) -> None:
    made = build(f"prefill-{geometry}-ctx300,65,0-w{WINDOWS}-c1-ttight-u0-l0-fnatural-s1")
    assert_clean(path().run(made.prefill()), wanted(made, made.windows, "prefill"))


def test_varqlen_rows_see_one_key_less_each_and_padding_sees_none() -> None:
    made = build("varqlen-h32-d128-ctx257,1,0,70-q3,2,0,8-p2-ttight-u0-l0-fnatural-s1")
    assert_clean(path().run(made.varqlen()), wanted(made, made.windows, "prefill"))


@pytest.mark.parametrize("units", [16, 20, 64])
def test_decode_with_a_schedule_writes_the_windows_and_leaves_the_rest_of_the_buffer(units: int) -> None:
    made = build("decode-n4-h32-d128-ctx600,0,257-tstrided-u0-l700-fnatural-s3")
    entries = schedule.decode_schedule(made.context_lens, units=units, next_n=4, max_seq_len=made.width)
    out = made.buffer()
    outcome = path().run(made.decode(schedule=entries, out=out))
    want = wanted(made, made.windows, "decode")
    assert outcome.value is out and outcome.findings == ()
    assert same_bits(torch.where(made.expected, out, 0.0), torch.where(made.expected, want, 0.0))
    assert bool((out.view(torch.int32)[~made.expected] == compare.SENTINEL).all())


def test_a_caller_s_buffer_without_a_schedule_comes_back_filled() -> None:
    made = build("prefill-h16-d128-ctx300-w0@3:50,0@0:300-c1-tshuffled-u0-l0-fnatural-s4")
    outcome = path().run(made.prefill(out=made.buffer()))
    assert_clean(outcome, wanted(made, made.windows, "prefill"))


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_idle_entries_read_and_write_nothing(kind: str) -> None:
    if kind == "decode":
        made = build("decode-n2-h16-d128-ctx0,0-tshuffled-u0-l256-fnatural-s5")
        request: DecodeScores | PrefillScores = made.decode(out=made.buffer(), schedule=idle((0, 0, 1, 0)))
    else:
        made = build("prefill-h16-d128-ctx5-w0@2:2,0@5:5-c1-tshuffled-u0-l256-fnatural-s5")
        request = made.prefill(out=made.buffer(), schedule=idle((0, 0, 0, 1, 0, 0)))
    outcome = path().run(request)
    assert outcome.findings == ()
    assert bool((outcome.value.view(torch.int32) == compare.SENTINEL).all())


def idle(entry: tuple[int, ...]) -> Tensor:
    return torch.tensor(entry, dtype=torch.int32).repeat(8, 1)


def test_a_schedule_that_is_cut_short_is_a_finding() -> None:
    made = build("decode-n1-h16-d128-ctx600-tshuffled-u0-l0-fnatural-s6")
    entries = schedule.decode_schedule(made.context_lens, units=3, next_n=1, max_seq_len=600)
    outcome = path().run(made.decode(schedule=entries[:2].contiguous(), out=made.buffer()))
    assert [(finding.kind, finding.operand, finding.count) for finding in outcome.findings] == [
        ("unwritten", "out", 600 - 512)
    ]


def test_the_decode_schedule_is_the_specification_s_example() -> None:
    context = torch.tensor([700, 437, 0, 64], dtype=torch.int32)
    got = path().run(DecodeSchedule(context, next_n=2, units=16, max_seq_len=768)).value
    slots = [(0, 0, 700), (0, 1, 700), (0, 2, 700), (2, 0, 437), (2, 1, 437), (6, 0, 64)]
    want = [(row + n, chunk, 1, length) for row, chunk, length in slots for n in (0, 1)]
    assert [tuple(entry) for entry in got.tolist()] == want + [(0, 0, 1, 0)] * 4
    assert got.dtype == torch.int32


@pytest.mark.parametrize("seed", range(12))
def test_schedules_are_the_oracle_s(seed: int) -> None:
    noise = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 5000, (1 + seed,), generator=noise).int()
    next_n = 1 + seed % 8
    units = next_n * int(torch.randint(len(lengths), 40, (1,), generator=noise))
    asked = {"units": units, "next_n": next_n, "max_seq_len": 5000}
    assert torch.equal(
        schedules.decode_schedule(lengths, **asked), schedule.decode_schedule(lengths, **asked)
    )
    start = (lengths * torch.rand(len(lengths), generator=noise)).int()
    rows = Windows(torch.arange(len(lengths)).int(), start, lengths)
    got = schedules.prefill_schedule(rows.seq, start, lengths, units=units, max_seq_len=5000)
    assert torch.equal(got, schedule.prefill_schedule(rows, units=units, max_seq_len=5000))


@pytest.mark.parametrize(
    ("units", "message"),
    [(9, "units is 9, allowed are multiples of next_n"), (4, "units is 4, allowed are at least 6")],
)
def test_short_decode_schedules_are_refused(units: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        path().run(DecodeSchedule(torch.tensor([5, 6, 7], dtype=torch.int32), 2, units, 256))


def test_short_prefill_schedules_are_refused() -> None:
    row = torch.zeros(3, dtype=torch.int32)
    with pytest.raises(ValueError, match="units is 2, allowed are at least 3"):
        path().run(PrefillSchedule(row, row, row, 2, 256))


def test_varqlen_windows_are_the_oracle_s() -> None:
    bounds, context = torch.tensor([0, 3, 3, 4, 12]).int(), torch.tensor([2, 9, 700, 64]).int()
    for total in (12, 15):
        got = path().run(VarqlenWindows(bounds, context, total)).value
        want = windows.varqlen_windows(bounds, context, total)
        for mine, right in zip(got, (want.seq, want.start, want.end), strict=True):
            assert mine.dtype == torch.int32 and torch.equal(mine.long(), right.long())


def values(rows: int, dim: int) -> Tensor:
    """Numbers of many magnitudes, with a row each of zeros, negative zeros and the smallest numbers."""
    noise = torch.Generator().manual_seed(7)
    spread = torch.exp2(torch.randint(-126, 120, (rows, dim // 32, 1), generator=noise).float())
    x = (torch.randn(rows, dim // 32, 32, generator=noise) * spread).flatten(1)
    x[0], x[1], x[2] = 0.0, -0.0, 6 * 2.0**-126
    return x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_quantise_has_the_oracle_s_bytes(dtype: torch.dtype) -> None:
    x = values(40, 256).to(dtype)
    outcome = path().run(Quantise(x))
    codes, scales = formats.quantise(x, formats.PRODUCTION)
    assert outcome.findings == ()
    assert torch.equal(outcome.value[0], layout.pack_nibbles(codes)) and torch.equal(outcome.value[1], scales)


def test_a_nan_or_an_infinity_makes_its_group_s_scale_a_nan() -> None:
    x = values(4, 128)
    x[0, 5], x[1, 40], x[2, 127], x[3, 64] = torch.nan, torch.inf, -torch.inf, -torch.nan
    assert torch.equal(path().run(Quantise(x)).value[1], formats.quantise(x, formats.PRODUCTION)[1])
    assert int((path().run(Quantise(x)).value[1] == 255).sum()) == 4


@pytest.mark.parametrize("dim", [128, 256])
def test_write_keys_scatters_rows_bends_scales_and_skips_negative_slots(dim: int) -> None:
    k = values(30, dim).bfloat16()
    slots = torch.randperm(3 * 64, generator=torch.Generator().manual_seed(1))[:30]
    slots[3], slots[11] = -1, -64
    mine, right = (pages.poisoned_pool(3, dim, strided=False) for _ in range(2))
    codes, scales = formats.quantise(k, formats.PRODUCTION)
    layout.write_keys(*right, codes, scales, slots)
    outcome = path().run(WriteKeys(k, slots, *mine))
    assert outcome.findings == ()
    assert outcome.value[0] is mine[0] and torch.equal(mine[0], right[0]) and torch.equal(mine[1], right[1])


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("k_codes", lambda plane: plane.transpose(2, 3), "k_codes is .* strides"),
        ("q_codes", lambda plane: plane[:, :8], "8 heads, allowed are multiples of 16"),
        ("q_codes", lambda plane: plane[..., :48], "head dim is 96, allowed are 128 and 256"),
        ("q_scales", lambda plane: plane[:-1], "q_scales is"),
        ("weights", lambda plane: plane.float(), "weights is torch.float32"),
        ("block_tables", lambda table: table.long(), "block_tables is torch.int64"),
        ("block_tables", lambda table: table.repeat(1, 2)[:, : table.shape[1]], "allowed is packed int32"),
    ],
)
def test_planes_that_are_not_of_the_abi_are_refused(
    field: str, change: Callable[[Tensor], Tensor], message: str
) -> None:
    made = build("decode-n1-h16-d128-ctx5,9-tshuffled-u0-l0-fnatural-s8")
    changed: dict[str, Any] = {field: change(getattr(made.planes, field))}
    planes = replace(made.planes, **changed)
    with pytest.raises(ValueError, match=message):
        path().run(replace(made.decode(), planes=planes))


def test_the_path_names_its_trees_its_executor_and_what_it_runs() -> None:
    made = build("decode-n1-h16-d128-ctx5-tshuffled-u0-l0-fnatural-s9")
    assert path().tree(made.decode()) == "decode" and path().tree(made.prefill()) == "prefill"
    assert path().tree(Quantise(torch.zeros(1, 128))) is None
    assert path().executor == "emulated" and path().provenance()["flydsl"]
