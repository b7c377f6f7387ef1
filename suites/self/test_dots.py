"""What is true of dot products: exact sums rounded once a k-tile, and the budget of exactness."""

from __future__ import annotations

import pytest
import torch

from oracles import dots, operands, score
from oracles.operands import Operands
from suites.self.score_cases import bits, dots_both, edge, make


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize(
    "scales",
    [
        (127, 128),
        (124, 131),
        (118, 137),
        (60, 200),
        (0, 256),
        (0, 30),
        (225, 255),
        (70, 80),
        (50, 53),
        (186, 189),
        (3, 5),
    ],
    ids=str,
)
def test_dots_are_the_exact_sum_rounded_once_a_tile(columns: int, scales: tuple[int, int]) -> None:
    """In the budget, beyond it, over the whole byte range, all underflow, all overflow."""
    dots_both(make(3, heads=16, rows=1, keys=6, columns=columns, scales=scales))
    dots_both(make(4, heads=16, rows=1, keys=6, columns=columns, scales=scales, silence=0.5))


@pytest.mark.parametrize("columns", (128, 256))
def test_three_ways_to_multiply_give_the_same_bits(columns: int) -> None:
    """float32, float64 and expansions, on operands that all three can do."""
    case = make(5, heads=32, keys=40, columns=columns, scales=(124, 129))
    q = operands.side(case.q_codes.flatten(0, 1), case.q_scales.flatten(0, 1))
    k = operands.side(case.k_codes, case.k_scales)
    assert dots.in_budget(q, k)
    plain = dots.dots(q, k) + 0.0
    assert bits(plain) == bits(dots._in_float64(q, k) + 0.0) == bits(dots._by_groups(q, k) + 0.0)
    wide = make(6, heads=32, keys=40, columns=columns, scales=(117, 134))
    q = operands.side(wide.q_codes.flatten(0, 1), wide.q_scales.flatten(0, 1))
    k = operands.side(wide.k_codes, wide.k_scales)
    assert not dots.in_budget(q, k)
    assert bits(dots._in_float64(q, k)) == bits(dots._by_groups(q, k))


def test_budget_is_ten_for_one_tile_and_nine_for_two() -> None:
    """numerics.md: at 10 the worst sum still has 24 bits, at 11 it has not."""
    assert (dots.BUDGET[1], dots.BUDGET[2]) == (10, 9)
    worst = [4608 * (3 * 2**spread + 1) for spread in (10, 11)]
    assert [total <= 2**24 for total in worst] == [True, False]


@pytest.mark.parametrize(("columns", "limit"), [(128, 10), (256, 9)])
def test_the_edge_of_the_budget(columns: int, limit: int) -> None:
    assert (
        not score.dot_budget(edge(limit, columns)).any() and score.dot_budget(edge(limit + 1, columns)).all()
    )
    for spread in (limit, limit + 1):
        dots_both(edge(spread, columns))


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize("spread", (8, 9, 10, 11, 12, 15, 20, 30))
def test_sums_of_more_than_24_bits_are_rounded_once(spread: int, columns: int) -> None:
    """One product of the lowest group is a single unit, so the sum is odd and has to be rounded."""
    case = edge(spread, columns)
    case.q_codes[..., 32], case.k_codes[..., 32] = 1, 1
    dots_both(case)


@pytest.mark.parametrize("tiny", (2, 10))
@pytest.mark.parametrize("power", (1, 12, 13, 20, 28, 29, 30, 36, 60, 100))
def test_a_far_smaller_group_decides_a_tie(power: int, tiny: int) -> None:
    """2^24 + 1 is half way between two float32; 2^-power more or less decides, beyond float64's reach."""
    case = edge(0)
    case.q_codes.zero_()
    case.k_codes.fill_(2)
    case.q_codes[..., 0], case.q_codes[..., 32], case.q_codes[..., 64] = 2, tiny, 2
    case.q_scales[..., 0], case.q_scales[..., 1] = 127 + 24, 127 - power
    assert dots_both(case)[0, 0, 0].item() == 2.0**24 + (2 if tiny == 2 else 0)
    case.q_codes[..., 64] = 4  # 2^24 + 2: no tie
    assert dots_both(case)[0, 0, 0].item() == 2.0**24 + 2


def test_a_silent_group_does_not_count_whatever_its_scale() -> None:
    case = edge(3)
    case.k_codes[:, 32:64] = torch.tensor([0, 8], dtype=torch.uint8).repeat(16)
    case.k_scales[:, 1] = 1
    dots_both(case)
    assert not score.dot_budget(case).any()


def test_scale_255_is_nan_even_under_zero_codes() -> None:
    case = make(9, keys=4, scales=(126, 129))
    case.k_scales[1, 2] = 255
    case.k_codes[1] = 0
    case.q_scales[0, 5, 0] = 255
    products = dots_both(case)
    assert products[:, :, 1].isnan().all() and products[0, 5].isnan().all()
    assert int(products.isnan().sum()) == 2 * 16 + 3
    value = score.exact(case)
    assert value.value[0].isnan().all() and value.value[1].isnan().tolist() == [False, True, False, False]
    assert value.proven.all()


def test_tiles_accumulate_through_c_in_order() -> None:
    """D = 256: the first tile is rounded before the second is added, so the order shows."""
    case = edge(0, 256)
    case.q_codes.zero_()
    case.k_codes.fill_(2)
    case.q_scales[..., 0], case.q_scales[..., 1] = 127 + 24, 127
    case.q_codes[..., 0], case.q_codes[..., 32] = 2, 2  # 2^24 + 1 rounds to 2^24
    case.q_codes[..., 128] = 2  # + 1 is lost again, though 2^24 + 2 is a float32
    assert dots_both(case)[0, 0, 0].item() == 2.0**24
    swapped = (case.q_codes.roll(128, -1), case.q_scales.roll(4, -1))
    case = Operands(*swapped, case.k_codes, case.k_scales, case.weights, case.weight_scale)
    assert dots_both(case)[0, 0, 0].item() == 2.0**24 + 2  # the other way round nothing is lost
