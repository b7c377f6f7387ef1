"""The comparator finds every planted error, at the right layer and place, and nothing else."""

from __future__ import annotations

import struct

import pytest
import torch
from torch import Tensor

from harness.judge import bits, compare, gathered
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.judge.coordinates import Grid, pattern, token_in_sequence

ROWS, WIDTH = 4, 512
STARTS = torch.tensor([0, 17, 0, 300])
ENDS = torch.tensor([512, 300, 0, 301])
SEQ = torch.tensor([0, 0, 1, 1])
TABLES = torch.arange(16).flip(0).reshape(2, 8)


def right() -> Tensor:
    """Scores with the sentinel outside the windows."""
    values = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH).float() * 0.25 - 100
    column = torch.arange(WIDTH)
    outside = (column < STARTS[:, None]) | (column >= ENDS[:, None])
    values.view(torch.int32)[outside] = SENTINEL
    return values


def grid() -> Grid:
    return Grid(SEQ, STARTS, ENDS, token_in_sequence(SEQ), TABLES)


def judged(
    got: object, want: Tensor | None = None, outside: int | None = SENTINEL
) -> compare.Difference | None:
    return compare.scores(got, right() if want is None else want, STARTS, ENDS, outside)


def found(got: object) -> compare.Difference:
    difference = judged(got)
    assert difference is not None
    return difference


def step(value: Tensor, ulps: int) -> Tensor:
    """A float32 scalar moved by ``ulps`` bit patterns."""
    return (value.view(torch.int32) + ulps).view(torch.float32)


def test_equal_results_have_no_difference() -> None:
    """The same values, the same mask: nothing."""
    assert judged(right()) is None


@pytest.mark.parametrize("ulps", [1, -1, 1000])
def test_one_value_that_is_off(ulps: int) -> None:
    """A single cell one unit off is found, with its coordinates, values and distance."""
    got = right()
    got[1, 299] = step(got[1, 299], ulps)
    wrong = found(got)
    assert (wrong.layer, wrong.first, wrong.count, wrong.ulps) == ("bits", (1, 299), 1, abs(ulps))
    assert wrong.total == 512 + 283 + 0 + 1
    bits = struct.unpack("<I", struct.pack("<f", float(got[1, 299])))[0]
    assert wrong.got.startswith(f"0x{bits:08x} ")


def test_the_first_of_several_and_their_number() -> None:
    """Cells are reported in row-major order and all counted."""
    got = right()
    got[0, 5] += 1
    got[3, 300] += 1
    got[0, 4] += 1
    wrong = found(got)
    assert (wrong.first, wrong.count) == ((0, 4), 3)
    assert sum(map(sum, wrong.heat)) == 3 and len(wrong.heat) == ROWS and len(wrong.heat[0]) == 64


def test_a_hole_is_a_mask_error() -> None:
    """A visible cell that was not stored is missing, even when its neighbours are right."""
    got = right()
    got.view(torch.int32)[0, 511] = SENTINEL
    wrong = found(got)
    assert (wrong.layer, wrong.reason, wrong.first) == ("mask", "missing-inside-window", (0, 511))
    assert (wrong.count, wrong.total) == (1, ROWS * WIDTH)
    assert "last visible column" in pattern(wrong, grid())


@pytest.mark.parametrize(("row", "column"), [(1, 300), (1, 16), (2, 0), (3, 301), (3, 299)])
def test_a_store_too_many_is_a_mask_error(row: int, column: int) -> None:
    """A cell just outside its window must be as it was, on either side."""
    got = right()
    got[row, column] = 1.0
    wrong = found(got)
    assert (wrong.layer, wrong.reason, wrong.first) == ("mask", "written-outside-window", (row, column))
    side = "just past the end" if column >= ENDS[row] else "just before the start"
    assert side in pattern(wrong, grid())


def test_another_nan_outside_is_a_store() -> None:
    """The sentinel is compared by its bits: a computed NaN outside a window is a store."""
    got = right()
    got[1, 0] = torch.nan
    assert found(got).reason == "written-outside-window"


def test_a_mask_wrong_both_ways_says_so() -> None:
    """A window moved by one has a hole at one end and a store too many at the other."""
    got = right()
    got.view(torch.int32)[1, 17] = SENTINEL
    got[1, 300] = 1.0
    assert found(got).reason == "mask-differs-both-ways"


def test_the_mask_comes_before_the_values() -> None:
    """A wrong value is not reported while a store outside is."""
    got = right()
    got[0, 0] += 1
    got[3, 0] = 1.0
    assert found(got).layer == "mask"


def test_minus_infinity_as_fill() -> None:
    """A visible minus infinity is a value where the oracle has one too, and a hole where it has not."""
    want = right().nan_to_num(nan=-torch.inf)
    want[0, 3] = -torch.inf
    assert judged(want.clone(), want, MINUS_INFINITY) is None
    got = want.clone()
    got[0, 4] = -torch.inf
    wrong = judged(got, want, MINUS_INFINITY)
    assert wrong is not None and wrong.reason == "missing-inside-window" and wrong.first == (0, 4)


def test_anything_goes_outside_when_nothing_is_promised() -> None:
    """With no fill to compare, cells outside are not looked at."""
    assert judged(torch.where(right().isnan(), torch.tensor(7.0), right()), outside=None) is None


@pytest.mark.parametrize(
    "got", [right()[:3], right()[:, :511], right().double(), right().T, None, [1.0], right().unsqueeze(0)]
)
def test_shape_and_type_come_first(got: object) -> None:
    """Another shape, another type or no tensor at all stops at layer shape."""
    assert found(got).layer == "shape"


def test_all_nans_are_one_and_zeros_are_two() -> None:
    """NaN equals NaN of any payload and sign; -0 and +0 differ by one step."""
    want = right()
    want[0, 0], want[0, 1] = torch.nan, 0.0
    got = want.clone()
    got.view(torch.int32)[0, 0] = -1
    assert judged(got, want) is None
    got[0, 1] = -0.0
    wrong = judged(got, want)
    assert wrong is not None and (wrong.first, wrong.ulps) == ((0, 1), 1)
    got = want.clone()
    got[0, 0] = 1.0
    wrong = judged(got, want)
    assert wrong is not None and wrong.ulps is None


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        (1.0, 1.0, 0),
        (0.0, -0.0, 1),
        (2.0**-149, -(2.0**-149), 3),
        (1.0, 1.0 + 2.0**-23, 1),
        (-1.0, -1.0 - 2.0**-23, 1),
        (float("inf"), 3.4028234663852886e38, 1),
    ],
)
def test_distance_in_steps_of_the_format(one: float, other: float, steps: int) -> None:
    """Steps are counted over zero and up to infinity; the two zeros are neighbours."""
    patterns = [struct.unpack("<I", struct.pack("<f", value))[0] for value in (one, other)]
    assert bits.ulps(*patterns) == bits.ulps(*reversed(patterns)) == steps
    assert bits.ulps(patterns[0], 0x7FC00001) is None


def test_many_blocks_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing row by row finds what comparing at once finds."""
    got = right()
    got[0, 7] += 1
    got[3, 300] += 1
    whole = found(got)
    monkeypatch.setattr(compare, "BLOCK_CELLS", 1)
    pieces = found(got)
    assert (
        torch.equal(whole.cells, pieces.cells) and whole.heat == pieces.heat and whole.count == pieces.count
    )


def test_cells_beyond_the_kept_ones_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large difference keeps few cells and still counts all."""
    monkeypatch.setattr(gathered, "KEPT", 10)
    wrong = found(right() + 1)
    assert len(wrong.cells) == 10 and wrong.count == wrong.total


@pytest.mark.parametrize(("off", "inside"), [(0.0, True), (1.0, True), (1.0 + 2.0**-40, False), (-1.0, True)])
def test_either_side_of_the_bound(off: float, inside: bool) -> None:
    """A result exactly at the bound passes, the least bit beyond does not."""
    exact = right().nan_to_num(0.0).double()
    allowed = torch.full_like(exact, 0.5)
    got = exact.float().clone()
    exact[0, 9] += off * 0.5
    wrong = compare.bounded(got, exact, allowed, STARTS, ENDS)
    assert (wrong is None) == inside
    if wrong is not None:
        assert (wrong.layer, wrong.first) == ("bound", (0, 9))


def test_a_bound_does_not_excuse_nan() -> None:
    """NaN and infinity are within no bound unless the exact value is the same."""
    exact = right().nan_to_num(0.0).double()
    allowed = torch.full_like(exact, 1e30)
    got = exact.float().clone()
    got[0, 1] = torch.nan
    assert compare.bounded(got, exact, allowed, STARTS, ENDS) is not None
    exact[0, 1] = torch.nan
    assert compare.bounded(got, exact, allowed, STARTS, ENDS) is None


def test_integers_exactly() -> None:
    """Integer results are compared in full, type included, with the first difference named."""
    want = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    assert compare.integers(want.clone(), want) is None
    got = want.clone()
    got[2, 1] = -1
    wrong = compare.integers(got, want)
    assert wrong is not None and (wrong.first, wrong.got, wrong.want) == ((2, 1), "-0x1 -1", "0x9 9")
    longer = compare.integers(want.long(), want)
    assert longer is not None and longer.layer == "shape"


def test_coordinates_down_to_the_lane() -> None:
    """A cell is named by sequence, token, page, block, slot, chunk, wave, tile and lane."""
    assert grid().where(3, 300) == {
        "row": 3, "column": 300, "sequence": 1, "token": 1, "window": "300:301", "page": 4, "block": 3,
        "slot": 44, "chunk": 1, "wave": 0, "tile": 2, "lane": 12,
    }  # fmt: skip


def hit(**which: int) -> str:
    """Pattern of the visible cells for which every named property has the given value."""
    from harness.judge.coordinates import PROPERTIES

    cells = grid().visible()
    chosen = torch.ones(len(cells), dtype=torch.bool)
    for name, value in which.items():
        chosen &= PROPERTIES[name](grid(), cells) == value
    got = right()
    got[cells[chosen][:, 0], cells[chosen][:, 1]] += 1
    return pattern(found(got), grid())


@pytest.mark.parametrize(
    "which", [{"slot": 63}, {"lane": 5}, {"tile": 2}, {"wave": 3}, {"chunk": 1}, {"row": 1}, {"block": 12}]
)
def test_a_shared_property_is_named(which: dict[str, int]) -> None:
    """Cells of one slot, lane, tile, wave, chunk, row or block are reported as such."""
    (name, value), *_ = which.items()
    assert f"all in {name} {value}" in hit(**which)


def test_what_is_spared_is_named() -> None:
    """When all but a few slots differ, the slots that do not are the pattern (rows a missing bend spares)."""
    got = right()
    cells = grid().visible()
    spared = torch.isin(cells[:, 1] % 64, torch.tensor([0, 21, 42, 63]))
    got[cells[~spared][:, 0], cells[~spared][:, 1]] += 1
    assert "in every slot but 0, 21, 42, 63" in pattern(found(got), grid())


def test_no_pattern_where_there_is_none() -> None:
    """Every visible cell is said to be every one; a scatter over everything says nothing."""
    assert pattern(found(right() + 1), grid()) == "every visible cell"


def test_tokens_count_within_their_sequence() -> None:
    """The place of a row among the rows of its sequence starts at zero for each."""
    assert token_in_sequence(torch.tensor([0, 0, 0, 2, 2, 5])).tolist() == [0, 1, 2, 0, 1, 0]
    assert token_in_sequence(torch.empty(0, dtype=torch.int64)).tolist() == []
