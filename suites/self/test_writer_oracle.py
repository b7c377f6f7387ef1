"""What is true of LayerNorm's ranges: every float32 evaluation lies inside, and they are as tight as said."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from oracles import normalise, prepare
from oracles.formats import PRODUCTION
from oracles.normalise import Range
from oracles.scalar import normalise as scalar

ZERO, ONE = torch.zeros(128), torch.ones(128)
EVALUATIONS = list(itertools.product((scalar.chain, scalar.halves), (False, True), (-2, 0, 2)))


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def inside(values: Tensor, held: Range) -> bool:
    order = normalise.ordered(values)
    low, high = normalise.ordered(held.low), normalise.ordered(held.high)
    return bool(((low <= order) & (order <= high)).all())


def one(value: float) -> Range:
    made = torch.full((1, 128), value).bfloat16()
    return Range(made, made)


KEYS = {
    "gaussian": noise(1, 1, 128),
    "offset": noise(2, 1, 128) + 40,
    "tiny": noise(3, 1, 128) * 1e-3,
    "mixed": noise(4, 1, 128) * torch.exp2(torch.arange(128) % 16 - 8.0),
}


@pytest.mark.parametrize("name", KEYS)
def test_every_order_of_summation_lies_inside(name: str) -> None:
    """Chains and trees, fused or not, with a reciprocal root two ulps off either way."""
    key, weight, bias = KEYS[name].bfloat16(), 1.001 + 0.1 * noise(5, 128), 0.1 * noise(6, 128)
    held = normalise.layer_norm_range(key, weight, bias)
    for total, fused, ulps in EVALUATIONS:
        made = [
            scalar.layer_norm(row, weight.tolist(), bias.tolist(), total=total, fused=fused, ulps=ulps)
            for row in key.float().tolist()
        ]
        assert inside(torch.tensor(made).bfloat16(), held)
    assert inside(prepare.layer_norm(key, weight, bias), held)
    theirs = torch.nn.functional.layer_norm(key.float(), (128,), weight, bias, eps=1e-6)
    assert inside(theirs.bfloat16(), held)


def test_the_ranges_are_narrow() -> None:
    """Of natural keys nearly all elements have one right value, and few others more than two."""
    key, weight, bias = noise(7, 300, 128).bfloat16(), 1 + 0.1 * noise(8, 128), 0.1 * noise(9, 128)
    held = normalise.layer_norm_range(key, weight, bias)
    width = normalise.ordered(held.high) - normalise.ordered(held.low)
    assert int(width.min()) == 0 and 0 < int((width > 0).sum()) < 300 * 128 / 200
    assert int((width > 1).sum()) < 10


def test_orders_of_summation_do_differ_where_a_range_says_so() -> None:
    """Ones that a chain loses beside 2^24 and a tree does not: the bfloat16 values part, as allowed."""
    key = torch.ones(1, 128)
    key[0, 0], key[0, 127] = 2.0**24, -(2.0**24)
    row, size = key[0].tolist(), torch.full((128,), 2.0**22)
    ways = [
        scalar.layer_norm(row, size.tolist(), ZERO.tolist(), total=total, fused=False)
        for total in (scalar.chain, scalar.halves)
    ]
    held = normalise.layer_norm_range(key.bfloat16(), size, ZERO)
    assert ways[0] != ways[1]
    assert all(inside(torch.tensor([way]).bfloat16(), held) for way in ways)
    parted = torch.tensor(ways[0]) != torch.tensor(ways[1])
    assert bool(held.open[0][parted].all())


def test_signs_normalise_to_their_weights() -> None:
    """Mean 0 and variance 1: weight * (1 - 5e-7) is the weight again in bfloat16."""
    weight = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.03125] * 16)
    sign = torch.tensor([1.0, -1.0]).repeat(64)
    held = normalise.layer_norm_range(sign[None].bfloat16(), weight, ZERO)
    assert not held.open.any() and held.low[0].tolist() == (sign * weight).tolist()


def test_a_constant_key_is_its_bias_to_the_bit() -> None:
    """Nothing is rounded, so nothing is open; the sign of a zero is that of the sum."""
    bias = noise(10, 128)
    held = normalise.layer_norm_range(torch.full((1, 128), 7.0).bfloat16(), ONE, bias)
    assert not held.open.any() and torch.equal(held.low[0], bias.bfloat16())
    held = normalise.layer_norm_range(torch.full((1, 128), 3.0).bfloat16(), ONE, ZERO)
    assert held.low.view(torch.int16).unique().tolist() == [0] and not held.open.any()


def test_a_row_that_is_no_number_is_none_throughout() -> None:
    key = noise(11, 3, 128).bfloat16()
    key[0, 5], key[2, 100] = torch.nan, -torch.inf
    held = normalise.layer_norm_range(key, ONE, ZERO)
    assert held.low.isnan().all(1).tolist() == held.high.isnan().all(1).tolist() == [True, False, True]
    assert not held.low[1].isnan().any()


def test_keys_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match=r"x has a magnitude above 2\^62"):
        normalise.layer_norm_range(torch.full((1, 128), 2.0**63).bfloat16(), ONE, ZERO)


def test_order_goes_through_all_bfloat16_numbers() -> None:
    """Each number has its place, -0 just below 0, and comes back from it."""
    bits = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    values = bits.view(torch.bfloat16)
    order = normalise.ordered(values)
    assert len(order.unique()) == 1 << 16
    assert torch.equal(normalise.valued(order).view(torch.int16), bits)
    numbers = values[~values.isnan()].float()
    ranked = numbers[torch.argsort(normalise.ordered(values[~values.isnan()]), stable=True)]
    assert bool((ranked[1:] >= ranked[:-1]).all())
    zeros = normalise.ordered(torch.tensor([-0.0, 0.0]).bfloat16())
    assert zeros.tolist() == [-1, 0]


@pytest.mark.parametrize("pairing", prepare.PAIRINGS)
def test_a_rotated_range_holds_every_combination(pairing: str) -> None:
    low = noise(12, 6, 128).bfloat16()
    high = normalise.valued(normalise.ordered(low) + torch.randint(0, 3, low.shape))
    cos, sin = prepare.rope_tables(64)
    places = torch.tensor([0, 1, 5, 17, 40, 63])
    held = normalise.rope_range(Range(low, high), cos, sin, places, pairing=pairing)
    for seed in range(20):
        pick = torch.randint(0, 2, low.shape, generator=torch.Generator().manual_seed(seed)) == 0
        chosen = torch.where(pick, low, high)
        assert inside(prepare.rope(chosen, cos, sin, places, pairing=pairing), held)
    settled = normalise.rope_range(Range(low, low), cos, sin, places, pairing=pairing)
    assert not settled.open.any()
    assert torch.equal(settled.low, prepare.rope(low, cos, sin, places, pairing=pairing))


def test_scales_and_codes_of_a_range() -> None:
    """Maximum 6 to 6.03125 is scale 127 or 128; 0.5 to 0.75 is then codes 1 to 2 or 0 to 1."""
    values = Range(one(0.0).low, one(0.0).low)
    values.low[0, :3] = torch.tensor([6.0, 0.5, -0.25]).bfloat16()
    values.high[0, :3] = torch.tensor([6.03125, 0.75, 0.25]).bfloat16()
    first, last = normalise.scale_range(values, PRODUCTION)
    assert (first[0].tolist(), last[0].tolist()) == ([127, 1, 1, 1], [128, 1, 1, 1])
    low, high = normalise.code_range(values, first, PRODUCTION)
    assert (low[0, :3].tolist(), high[0, :3].tolist()) == ([7, 1, 8], [7, 2, 0])
    low, high = normalise.code_range(values, last, PRODUCTION)
    assert (low[0, :3].tolist(), high[0, :3].tolist()) == ([5, 0, 8], [5, 1, 0])
    codes = torch.tensor([15, 10, 9, 8, 0, 1, 2, 7], dtype=torch.uint8)
    assert normalise.code_order(codes).tolist() == [-8, -3, -2, -1, 0, 1, 2, 7]


def test_a_nan_takes_no_part_in_a_maximum() -> None:
    values = one(1.5)
    values.low[0, 7] = torch.nan
    assert normalise.scale_range(values, PRODUCTION)[0][0].tolist() == [125] * 4
    values.low[0, 9] = torch.inf
    assert normalise.scale_range(values, PRODUCTION)[0][0].tolist() == [255, 125, 125, 125]
