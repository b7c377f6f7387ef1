"""What is true of single-rounding float32 arithmetic, of the vectorised functions and their scalar twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from oracles import fma
from oracles.scalar import fma as scalar

SEED = 23
LARGEST = 3.4028234663852886e38
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-126), LARGEST)


def bits(values: Tensor) -> list[int]:
    values = torch.where(values.isnan(), torch.nan, values.float())
    return values.contiguous().view(torch.int32).tolist()


def random_float32(count: int, seed: int, *, lowest: int = -149, highest: int = 128) -> Tensor:
    """Random significands and exponents over the given range of powers of two, both signs."""
    generator = torch.Generator().manual_seed(seed)
    significand = torch.randint(-(2**24) + 1, 2**24, (count,), generator=generator).double()
    power = torch.randint(lowest, highest - 24, (count,), generator=generator).double()
    return (significand * 2.0**power).float()


def fma_both(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    fast = fma.fma32(a, b, c)
    slow = [scalar.fma(*triple) for triple in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert bits(fast) == bits(torch.tensor(slow, dtype=torch.float64))
    return fast


def sum_both(terms: list[Tensor]) -> Tensor:
    fast = fma.sum32(terms)
    assert bits(fast + 0.0) == bits(fma.sum32_by_expansion(terms) + 0.0)
    slow = [scalar.sum32(column) for column in zip(*(term.tolist() for term in terms), strict=True)]
    assert bits(fast) == bits(torch.tensor(slow, dtype=torch.float64))
    return fast


def test_rounding_twin_agrees_with_numpy_narrowing() -> None:
    """float64 to float32 by numpy is one rounding of an exact value: normal, subnormal, tie, overflow."""
    wide = random_float32(300, SEED).double() * (1 + 2.0**-25)
    halves = torch.tensor([1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 3 * 2.0**-150, 2.0**128 - 2.0**103])
    wide = torch.cat([wide, halves.double(), torch.tensor([2.0**128 - 2.0**103], dtype=torch.float64)])
    with np.errstate(over="ignore", under="ignore"):
        theirs = wide.numpy().astype(np.float32)
    ours = [scalar.round32(Fraction(value)) for value in wide.tolist() if math.isfinite(value)]
    assert ours == theirs[np.isfinite(wide.numpy())].tolist()


def test_two_sum_loses_nothing() -> None:
    a, b = random_float32(200, 1).double() * 1.1, random_float32(200, 2).double() * 1.3
    total, error = fma.two_sum(a, b)
    for terms in zip(a.tolist(), b.tolist(), total.tolist(), error.tolist(), strict=True):
        one, two, high, low = map(Fraction, terms)
        assert one + two == high + low


@pytest.mark.parametrize(("lowest", "highest"), [(-24, 24), (-90, -50), (-149, 128), (40, 128)])
def test_random_operands_round_once(lowest: int, highest: int) -> None:
    """Moderate, subnormal, whole range and overflowing products."""
    a, b = (random_float32(500, seed, lowest=lowest, highest=highest) for seed in (1, 2))
    c = random_float32(500, 3, lowest=max(2 * lowest, -149), highest=min(2 * highest + 24, 128))
    fma_both(a, b, c)


def test_every_combination_of_special_values() -> None:
    """NaN, infinities of both signs, zeros of both signs, extremes: all triples."""
    grid = torch.tensor(SPECIAL)
    fma_both(*(axis.flatten() for axis in torch.meshgrid(grid, grid, grid, indexing="ij")))


def test_plain_double_arithmetic_would_round_twice() -> None:
    """1 + a*b a hair above or below a tie: float64 forgets the hair, and narrowing then ties to even."""
    a = torch.tensor([2.0**-24 * (1 - 2.0**-23), 2.0**-24 * (1 + 2.0**-23), -(2.0**-25) * (1 + 2.0**-23)])
    b = torch.tensor([1 + 2.0**-23, 1 - 2.0**-23, 1 - 2.0**-23])
    above = torch.tensor([1 + 2.0**-23, 1.0 + 2.0**-23, 1.0])
    c = torch.tensor([1 + 2.0**-23, 1 + 2.0**-23, 1.0])
    naive = (a.double() * b.double() + c.double()).float()
    got = fma_both(a, b, c)
    assert naive.tolist() == [1 + 2.0**-22, 1 + 2.0**-22, 1.0]  # the even neighbours
    assert got.tolist() == above.tolist()


def test_subnormal_ties_are_broken_by_what_float64_forgets() -> None:
    """c odd in steps of 2^-149, a*b half a step less 2^-196: stays at c; a float64 sum would tie to even."""
    c = torch.tensor([2.0**-127 + 2.0**-149, -(2.0**-127) - 2.0**-149])
    a = torch.tensor([2.0**-75, -(2.0**-75)]) * (1 + 2.0**-23)
    b = torch.full((2,), 2.0**-75 * (1 - 2.0**-23))
    assert (a.double() * b.double() + c.double()).float().tolist() == (c + c.sign() * 2.0**-149).tolist()
    assert fma_both(a, b, c).tolist() == c.tolist()


def test_products_that_hide_behind_a_tie_are_seen() -> None:
    """c = 2^24 + odd half: product 1 + tiny decides the direction; tiny is 2^-46, below float64's reach."""
    small = 2.0**-23
    a = torch.tensor([1 + small, 1 - small / 2, 1 + small, 1 - small / 2])
    b = torch.tensor([1 + small, 1 - small / 2, -(1 + small), -(1 - small / 2)])
    for power in (24, 40, 54):
        c = torch.full((4,), 2.0**power)
        fma_both(a * 2.0 ** (power - 24), b, c)
        fma_both(a * 2.0 ** (power - 24), b, -c)


@pytest.mark.parametrize("count", (2, 4, 5, 8))
@pytest.mark.parametrize("spread", (5, 60, 250))
def test_sums_of_any_spread_round_once(count: int, spread: int) -> None:
    generator = torch.Generator().manual_seed(SEED + count)
    terms = []
    for _ in range(count):
        number = torch.randint(-4608, 4609, (400,), generator=generator).double()
        power = torch.randint(-spread, spread + 1, (400,), generator=generator).double()
        terms.append(number * 2.0**power)
    sum_both(terms)


def test_sums_that_cancel_or_tie_are_right() -> None:
    """The large terms cancel, or leave a tie that a far smaller term breaks."""
    rows = [
        (2.0**200, 3.0, -(2.0**200), 2.0**-100),
        (2.0**200, 2.0**-100, -(2.0**200), 0.0),
        (1.0, 2.0**-24, 2.0**-200, 0.0),
        (1.0, 2.0**-24, -(2.0**-200), 0.0),
        (1.0, 2.0**-24, 2.0**-54, -(2.0**-250)),
        (-1.0, -(2.0**-24), -(2.0**-200), 0.0),
        (2.0**-149, 2.0**-150, 2.0**-250, 0.0),
        (2.0**-150, -(2.0**-250), 0.0, 0.0),
        (2.0**-150, 2.0**-250, 0.0, 0.0),
        (2.0**128, -(2.0**103), -(2.0**-100), 0.0),
        (2.0**128, -(2.0**103), 2.0**-100, 0.0),
        (2.0**252, 1.0, -1.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (2.0**100, -(2.0**100), 2.0**60, -(2.0**60)),
    ]
    got = sum_both([torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True)])
    assert got[:5].tolist() == [3.0, 2.0**-100, 1 + 2.0**-23, 1.0, 1 + 2.0**-23]
    assert got[6:11].tolist() == [2.0**-148, 0.0, 2.0**-149, 3.4028234663852886e38, math.inf]
