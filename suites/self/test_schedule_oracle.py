"""What is true of windows and schedules, of both the vectorised functions and their scalar twins."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from oracles import schedule, windows
from oracles.scalar import schedule as scalar
from oracles.scalar import windows as scalar_windows
from oracles.windows import Windows

EDGES = (0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 2047, 2048, 2049)


def ints(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def as_windows(rows: list[tuple[int, int, int]]) -> Windows:
    seq, start, end = torch.tensor(rows, dtype=torch.int32).reshape(-1, 3).T
    return windows.prefill_windows(seq, start, end)


def as_rows(found: Windows) -> list[tuple[int, int, int]]:
    return list(zip(found.seq.tolist(), found.start.tolist(), found.end.tolist(), strict=True))


def decode_both(context: list[int], *, units: int, next_n: int, max_seq_len: int) -> Tensor:
    fast = schedule.decode_schedule(ints(context), units=units, next_n=next_n, max_seq_len=max_seq_len)
    slow = scalar.decode_schedule(context, units=units, next_n=next_n, max_seq_len=max_seq_len)
    assert [tuple(entry) for entry in fast.tolist()] == slow and fast.dtype == torch.int32
    return fast


def prefill_both(rows: list[tuple[int, int, int]], *, units: int, max_seq_len: int) -> Tensor:
    fast = schedule.prefill_schedule(as_windows(rows), units=units, max_seq_len=max_seq_len)
    assert [tuple(e) for e in fast.tolist()] == scalar.prefill_schedule(
        rows, units=units, max_seq_len=max_seq_len
    )
    return fast


# ------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("next_n", range(1, 9))
def test_decode_windows_end_one_key_earlier_for_each_older_row(next_n: int) -> None:
    found = windows.decode_windows(ints(list(EDGES)), next_n)
    assert as_rows(found) == scalar_windows.decode_windows(EDGES, next_n)
    assert found.end[next_n - 1 :: next_n].tolist() == list(EDGES)


def test_varqlen_windows_pad_and_skip_empty_sequences() -> None:
    counts, context = [3, 0, 1, 2, 0], [5, 9, 0, 300, 7]
    bounds = ints([0, *torch.tensor(counts).cumsum(0).tolist()])
    for total in (6, 8):
        found = windows.varqlen_windows(bounds, ints(context), total)
        assert as_rows(found) == scalar_windows.varqlen_windows(counts, context, total)
    assert as_rows(found)[-2:] == [(4, 0, 0), (4, 0, 0)]


def test_varqlen_with_equal_counts_is_decode() -> None:
    context = ints([300, 2, 0, 64])
    ragged = windows.varqlen_windows(ints([0, 3, 6, 9, 12]), context, 12)
    assert as_rows(ragged) == as_rows(windows.decode_windows(context, 3))


def test_visible_is_the_half_open_window() -> None:
    rows = [(0, 0, 0), (0, 2, 5), (1, 3, 3), (1, 0, 7), (0, 6, 2)]
    mask = windows.visible(as_windows(rows), 8)
    assert mask.tolist() == [[scalar_windows.visible(row, column) for column in range(8)] for row in rows]


def test_windows_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="cu_seq_q is not a running sum"):
        windows.varqlen_windows(ints([0, 2, 1]), ints([4, 4]), 4)
    with pytest.raises(ValueError, match="total_q is 1, allowed are 2 and above"):
        windows.varqlen_windows(ints([0, 2]), ints([4]), 1)
    with pytest.raises(ValueError, match="fields of unequal length"):
        Windows(torch.zeros(1), torch.zeros(2), torch.zeros(2))


# ------------------------------------------------------------------------------- building


def test_decode_check_value_of_the_specification() -> None:
    """Run on the real builder: ctx [700, 437, 0, 64], N = 2, P = 16, max 768."""
    busy = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    want = [(row, chunk, 1, 700) for row, chunk in busy]
    want += [(2, 0, 1, 437), (3, 0, 1, 437), (2, 1, 1, 437), (3, 1, 1, 437), (6, 0, 1, 64), (7, 0, 1, 64)]
    want += [(0, 0, 1, 0)] * 4
    got = decode_both([700, 437, 0, 64], units=16, next_n=2, max_seq_len=768)
    assert [tuple(entry) for entry in got.tolist()] == want


def test_unit_formula_is_not_monotonic_but_never_below_one_row() -> None:
    """f(3) = 513 > f(4) = 512 at max_bs 1; f(N) >= f(1) for every N and batch."""
    for max_bs in (1, 2, 100, 171, 512, 513, 1000):
        values = [schedule.decode_units(next_n, max_bs) for next_n in range(1, 9)]
        assert values == [scalar.decode_units(next_n, max_bs) for next_n in range(1, 9)]
        assert min(values) == values[0]
    assert schedule.decode_units(3, 1) == 513 and schedule.decode_units(4, 1) == 512


@pytest.mark.parametrize("seed", range(40))
def test_decode_schedules_cover_their_work(seed: int) -> None:
    """Ragged lengths on the edges, any N, tight and roomy P: both builders agree, coverage is complete."""
    chance = random.Random(seed)
    next_n = chance.randint(1, 8)
    context = [chance.choice((*EDGES, chance.randrange(5000))) for _ in range(chance.randint(1, 9))]
    units = next_n * (len(context) + chance.choice((0, 1, 7, 100)))
    got = decode_both(context, units=units, next_n=next_n, max_seq_len=max(*context, 1))
    assert schedule.decode_coverage(got, ints(context), next_n).ok


@pytest.mark.parametrize("seed", range(40))
def test_prefill_schedules_cover_their_work(seed: int) -> None:
    chance = random.Random(seed)
    rows = []
    for _ in range(chance.randint(1, 12)):
        start, end = sorted((chance.choice(EDGES), chance.choice(EDGES)))
        rows.append((chance.randrange(4), start, end))
    units = len(rows) + chance.choice((0, 1, 7, 100))
    got = prefill_both(rows, units=units, max_seq_len=2049)
    assert schedule.prefill_coverage(got, as_windows(rows)).ok


def test_without_a_feasible_split_each_sequence_gets_one_slot() -> None:
    """max_seq_len smaller than the contexts: the split size is the largest chunk count."""
    got = decode_both([5000, 3000], units=2, next_n=1, max_seq_len=256)
    assert got.tolist() == [[0, 0, 20, 5000], [1, 0, 12, 3000]]


def test_prefill_counts_chunks_from_column_zero() -> None:
    got = prefill_both([(2, 600, 700)], units=4, max_seq_len=768)
    assert got.tolist() == [[0, 2, chunk, 1, 600, 700] for chunk in range(3)] + [[0, 0, 0, 1, 0, 0]]


def test_no_rows_is_an_idle_schedule() -> None:
    assert prefill_both([], units=2, max_seq_len=256).tolist() == [[0, 0, 0, 1, 0, 0]] * 2


@pytest.mark.parametrize(
    ("units", "next_n", "batch", "message"),
    [(9, 2, 1, "multiples of next_n = 2"), (4, 2, 3, "allowed are 6 and above"), (0, 1, 1, "1 and above")],
)
def test_short_decode_schedules_are_refused(units: int, next_n: int, batch: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule.decode_schedule(ints([300] * batch), units=units, next_n=next_n, max_seq_len=512)
    with pytest.raises(ValueError, match="units"):
        scalar.decode_schedule([300] * batch, units=units, next_n=next_n, max_seq_len=512)


def test_short_prefill_schedules_are_refused() -> None:
    """Field report B19: 513 rows of one key in 512 slots."""
    rows = [(0, 0, 1)] * 513
    with pytest.raises(ValueError, match="units is 512, allowed are 513 and above"):
        schedule.prefill_schedule(as_windows(rows), units=512, max_seq_len=256)
    with pytest.raises(ValueError, match="units"):
        scalar.prefill_schedule(rows, units=512, max_seq_len=256)


# ------------------------------------------------------------------------------- coverage


@pytest.mark.parametrize("seed", range(40))
def test_coverage_agrees_with_counting(seed: int) -> None:
    """Random, mostly wrong entries: missing and doubled pairs are the twin's, foreign ones among its."""
    chance = random.Random(seed)
    bounds = [sorted((chance.randrange(1500), chance.randrange(1500))) for _ in range(4)]
    rows = [(0, start, end) for start, end in bounds]
    entries = [(chance.randrange(-1, 5), chance.randrange(6), chance.randrange(4)) for _ in range(12)]
    found = as_windows(rows)
    visible = scalar.visible_pairs(rows)
    want = scalar.coverage(entries, visible, visible)
    got = schedule.coverage(torch.tensor(entries), schedule.visible_chunks(found))
    assert set(got.missing) == want[0]
    assert {pair for pair in got.doubled if pair in visible} == want[1]
    assert set(got.foreign) <= want[2] and bool(got.foreign) == bool(want[2])


CONTEXT = [700, 437, 0, 64]


def planted(change: str) -> tuple[Tensor, schedule.Coverage]:
    """The check value with one thing wrong."""
    entries = schedule.decode_schedule(ints(CONTEXT), units=16, next_n=2, max_seq_len=768)
    if change == "short":
        entries = entries[:10]
    if change == "double":
        entries[13] = entries[3]
    if change == "gap":
        entries[2] = torch.tensor(schedule.DECODE_IDLE)
    if change == "long":
        entries[11, 2] = 2
    if change == "stale":
        entries[6, 3] = 500
    if change == "row":
        entries[11, 0] = 8
    return entries, schedule.decode_coverage(entries, ints(CONTEXT), 2)


@pytest.mark.parametrize(
    ("change", "missing", "doubled", "foreign", "wrong"),
    [
        ("none", (), (), (), ()),
        ("short", ((6, 0), (7, 0)), (), (), ()),
        ("double", (), ((1, 1),), (), ()),
        ("gap", ((0, 1),), (), (), ()),
        ("long", (), (), ((7, 1),), ()),
        ("stale", (), (), (), (6,)),
        ("row", ((7, 0),), (), ((8, 0),), ()),
    ],
)
def test_planted_schedule_faults_are_named(
    change: str, missing: tuple, doubled: tuple, foreign: tuple, wrong: tuple
) -> None:
    """Truncated, doubled, dropped, too long, stale length, row that does not exist."""
    found = planted(change)[1]
    assert (found.missing, found.doubled, found.foreign, found.wrong) == (missing, doubled, foreign, wrong)
    assert found.ok == (change == "none")


def test_prefill_entries_with_another_rows_window_are_wrong() -> None:
    rows = [(0, 0, 300), (1, 40, 500)]
    entries = schedule.prefill_schedule(as_windows(rows), units=8, max_seq_len=512)
    assert schedule.prefill_coverage(entries, as_windows(rows)).ok
    entries[3, 4] = 0
    assert schedule.prefill_coverage(entries, as_windows(rows)).wrong == (3,)
    entries[3, 4], entries[3, 1] = 40, 0
    assert schedule.prefill_coverage(entries, as_windows(rows)).wrong == (3,)
