"""Sums and fused products are rounded once, whatever cancels and however far apart the terms lie."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations

import pytest
import torch
from torch import Tensor

from harness.emulator.rounding import (
    distilled,
    fma,
    narrow,
    narrow_integer,
    sum_rounded_once,
    to_odd,
    two_sum,
)
from suites.self.emulator_builder import bits
from suites.self.rational import rounded

Row = Sequence[float]
ROWS = 1500


def columns(rows: Sequence[Row]) -> list[Tensor]:
    return [torch.tensor([row[i] for row in rows], dtype=torch.float64) for i in range(len(rows[0]))]


def check_sums(rows: Sequence[Row]) -> None:
    """The rounded sum, and that `distilled` knows the sign of what float64 leaves out."""
    terms = columns(rows)
    exact = [sum(map(Fraction, row), Fraction(0)) for row in rows]
    want = torch.tensor([rounded(value) for value in exact])
    got = sum_rounded_once(terms)
    assert got.dtype == torch.float32
    assert bits(got) == bits(want)
    total, rest = distilled(terms)
    for value, near, left in zip(exact, total.tolist(), rest.tolist(), strict=True):
        assert sign(value - Fraction(near)) == sign(Fraction(left))


def sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


# fused multiply-add


def check_fma(triples: Sequence[Row]) -> None:
    a, b, c = (column.float() for column in columns(triples))
    want = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        want.append(rounded(exact) if exact else x * y + z)
    assert bits(fma(a, b, c)) == bits(torch.tensor(want))


def test_fma_at_every_distance_between_product_and_addend() -> None:
    """A product of full 48 bits against addends 2**-149 to 2**120 of both signs: every alignment."""
    x, y = 1 + 2.0**-23, 1 + 2.0**-22 + 2.0**-23
    triples = [(x, y, s * 2.0**e) for e in range(-149, 121) for s in (1, -1)]
    triples += [(x * 2.0**-60, -y * 2.0**-60, s * 3 * 2.0**e) for e in range(-149, 1) for s in (1, -1)]
    check_fma(triples)


def test_fma_on_midpoints_moved_by_one_part_in_2_to_the_100() -> None:
    """Products exactly between two float32 numbers: the addend alone decides the way, or evenness does."""
    triples: list[Row] = []
    for odd in (2**24 + 1, 2**24 + 3, 2**25 - 1):  # 25 significant bits: a midpoint
        factors = (
            next((p, odd // p) for p in range(3, odd) if odd % p == 0) if odd != 2**24 + 1 else (97, 172961)
        )
        assert factors[0] * factors[1] == odd
        for scale in (0, -60, 60):
            for tiny in (0.0, 2.0**-149, -(2.0**-149), 2.0**-100, -(2.0**-100)):
                triples.append((factors[0] * 2.0**scale, float(factors[1]), tiny))
                triples.append((-factors[0] * 2.0**scale, float(factors[1]), tiny))
    check_fma(triples)


def test_fma_with_subnormal_results_and_operands() -> None:
    """Underflow to each of the smallest numbers, to zero, and ties at half of the smallest."""
    triples: list[Row] = []
    for step in range(-12, 13):
        triples.append((2.0**-75, step * 2.0**-76, 0.0))
        triples.append((2.0**-75, step * 2.0**-76, 2.0**-149))
        triples.append((2.0**-149, step / 8, -(2.0**-149)))
        triples.append((2.0**-140, 2.0**-140, step * 2.0**-149))
    check_fma(triples)


def test_fma_cancellation_leaves_the_exact_error_of_the_product() -> None:
    generator = random.Random(11)
    triples = []
    for _ in range(ROWS):
        x, y = (generator.randrange(2**23, 2**24) * 2.0 ** generator.randrange(-30, 30) for _ in range(2))
        triples.append((x, y, -rounded(Fraction(x) * Fraction(y))))
    check_fma(triples)


def test_fma_random() -> None:
    """Significands with long runs of zeros and ones, which is where carries travel."""
    generator = random.Random(12)

    def number() -> float:
        top, low = 1 << generator.randrange(24), 1 << generator.randrange(24)
        significand = max(1, min(2**24 - 1, abs(generator.choice([top + low, top - low, (1 << 24) - top]))))
        return generator.choice([1, -1]) * significand * 2.0 ** generator.randrange(-80, 40)

    check_fma([(number(), number(), number()) for _ in range(2 * ROWS)])


def test_fma_of_specials_is_that_of_the_plain_operations() -> None:
    inf, nan = math.inf, math.nan
    cases = {
        (inf, 1.0, -inf): nan,
        (inf, 0.0, 1.0): nan,
        (1.0, 1.0, nan): nan,
        (2.0**127, 2.0, -inf): -inf,
        (2.0**127, 2.0, 0.0): inf,
        (2.0**127, -2.0, 1.0): -inf,
        (2.0**127, 2.0, -(2.0**127)): 2.0**127,
        (0.0, -1.0, -0.0): -0.0,
        (0.0, -2.0, 0.0): 0.0,
        (1.0, 1.0, -1.0): 0.0,
    }
    a, b, c = (column.float() for column in columns([*cases]))
    assert bits(fma(a, b, c)) == bits(torch.tensor([*cases.values()]))


def test_fma_broadcasts_and_refuses_other_formats() -> None:
    a, b, c = torch.full((3, 1), 3.0), torch.tensor([2.0, 4.0]), torch.tensor(1.0)
    assert fma(a, b, c).tolist() == [[7.0, 13.0]] * 3
    with pytest.raises(TypeError, match="float64"):
        fma(a.double(), b.double(), c.double())


# sums


def spread(generator: random.Random, count: int) -> Row:
    """Terms anywhere in 500 binary orders of magnitude."""
    return [
        generator.choice([1, -1]) * generator.randrange(1, 4609) * 2.0 ** generator.randrange(-256, 244)
        for _ in range(count)
    ]


def near(generator: random.Random, count: int) -> Row:
    """Terms within 120 binary orders of each other, some of them zero."""
    base = generator.randrange(-140, 60)
    return [
        generator.choice([1, -1])
        * generator.randrange(0, 4609)
        * 2.0 ** (base + generator.randrange(-60, 60))
        for _ in range(count)
    ]


def cancelling(generator: random.Random, count: int) -> Row:
    """A number and its opposite, and crumbs around its last bits."""
    base = generator.randrange(-160, 100)
    large = generator.randrange(1, 2**24) * 2.0**base
    crumbs = [
        generator.choice([1, -1]) * generator.randrange(0, 8) * 2.0 ** (base + generator.randrange(-60, 30))
        for _ in range(count - 2)
    ]
    row = [large, -large, *crumbs]
    generator.shuffle(row)
    return row


def cascading(generator: random.Random, count: int) -> Row:
    """Powers of two about 53 binary orders apart: each near half a unit of the one above."""
    base = generator.randrange(-150, 60)
    row = [
        generator.choice([1, -1]) * 2.0 ** (base - 53 * place + generator.randrange(-2, 3))
        for place in range(count)
    ]
    generator.shuffle(row)
    return row


def full(generator: random.Random, count: int) -> Row:
    """Full float64 significands, which overlap in part."""
    base = generator.randrange(-160, 40)
    return [
        generator.choice([1, -1]) * generator.randrange(2**53) * 2.0 ** (base + generator.randrange(-110, 60))
        for _ in range(count)
    ]


@pytest.mark.parametrize("count", (1, 2, 5))
@pytest.mark.parametrize("draw", (spread, near, cancelling, cascading, full))
def test_random_sums(draw: Callable[[random.Random, int], Row], count: int) -> None:
    generator = random.Random(f"{draw.__name__}{count}")
    check_sums([draw(generator, max(2, count) if draw is cancelling else count) for _ in range(ROWS)])


def test_ties_go_to_even_and_a_crumb_breaks_them_in_every_order_of_terms() -> None:
    """2**24 + 1 and 2**24 + 3 are midpoints; a crumb 2**-200 of either sign, far below float64, decides."""
    rows: list[Row] = []
    for crumb in (0.0, 2.0**-200, -(2.0**-200)):
        for odd in (1.0, 3.0):
            for order in permutations((2.0**24, odd, crumb, 2.0**-250, -(2.0**-250))):
                rows += [order, [-value for value in order]]
    check_sums(rows)
    direct = [
        sum_rounded_once(columns([(2.0**24, 1.0, crumb)])).item() for crumb in (0.0, 2.0**-200, -(2.0**-200))
    ]
    assert direct == [2.0**24, 2.0**24 + 2, 2.0**24]


def test_subnormal_sums() -> None:
    """Ties at odd halves of the smallest number, broken by crumbs; sums that underflow to zero."""
    rows: list[Row] = []
    for halves in range(12):
        for crumb in (0.0, 2.0**-255, -(2.0**-255)):
            rows.append((halves * 2.0**-150, crumb, 2.0**-126, -(2.0**-126), 0.0))
            rows.append((-halves * 2.0**-150, 2.0**-126, crumb, 0.0, 0.0))
    check_sums(rows)


def test_overflow_is_decided_by_the_exact_sum() -> None:
    """The largest number plus just under half a unit stays, plus half a unit is infinity."""
    largest, half = (2 - 2.0**-23) * 2.0**127, 2.0**103
    rows = [
        (largest, half, -(2.0**-200)),
        (largest, half, 0.0),
        (-largest, -half, 2.0**-200),
        (2.0**128, -half, -half),
    ]
    got = sum_rounded_once(columns(rows)).tolist()
    assert got == [largest, math.inf, -largest, largest]


def test_sums_of_nothing_are_plus_zero() -> None:
    """Exact cancellation, and zeros of both signs."""
    rows = [(1.5, -1.5, 0.0), (2.0**-200, 2.0**100, -(2.0**100) - 0.0), (0.0, -0.0, 0.0)]
    got = sum_rounded_once(columns(rows))
    assert got.tolist()[::2] == [0.0, 0.0] and not torch.signbit(got[::2]).any()


def test_sums_broadcast_like_the_terms() -> None:
    wide, narrow_ = (
        torch.full((3, 1), 2.0**24, dtype=torch.float64),
        torch.tensor([1.0, 3.0], dtype=torch.float64),
    )
    want = [[2.0**24, 2.0**24 + 4]] * 3
    assert sum_rounded_once([wide, narrow_]).tolist() == want
    assert sum_rounded_once([narrow_, wide]).tolist() == want
    assert sum_rounded_once([narrow_, torch.tensor(0.0, dtype=torch.float64), wide]).tolist() == want


# the parts they are made of


def test_two_sum_loses_nothing() -> None:
    generator = random.Random(5)
    rows = [full(generator, 2) for _ in range(ROWS)]
    total, error = two_sum(*columns(rows))
    for row, s, e in zip(rows, total.tolist(), error.tolist(), strict=True):
        assert Fraction(s) + Fraction(e) == Fraction(row[0]) + Fraction(row[1])
        assert s == row[0] + row[1]


def test_to_odd_moves_only_even_inexact_sums_and_toward_the_error() -> None:
    up = 1 + 2.0**-52
    cases = [
        (1.0, 0.0, 1.0),
        (1.0, 2.0**-60, up),
        (1.0, -(2.0**-60), 1 - 2.0**-53),
        (up, 2.0**-60, up),
        (up, -(2.0**-60), up),
        (-1.0, 2.0**-60, -(1 - 2.0**-53)),
        (-1.0, -(2.0**-60), -up),
        (math.inf, math.nan, math.inf),
    ]
    total, error, want = columns(cases)
    assert bits(to_odd(total, error)) == bits(want)


@pytest.mark.parametrize(("dtype", "name"), [(torch.bfloat16, "bf16"), (torch.float16, "f16")])
def test_narrowing_to_16_bits_rounds_once(dtype: torch.dtype, name: str) -> None:
    """Midpoints of the format moved by as little as float64 holds, where torch itself rounds twice."""
    digits = {"bf16": 8, "f16": 11}[name]
    values = [
        s * (1 + (2 * step + 1) * 2.0**-digits) * (1 + nudge * 2.0**-52) * 2.0**e
        for step in range(0, 2 ** (digits - 1) - 1, 7)
        for nudge in (-1, 0, 1)
        for e in (0, -10, -24, 15)
        for s in (1, -1)
    ]
    want = [rounded(Fraction(value), name) for value in values]
    assert narrow(torch.tensor(values, dtype=torch.float64), dtype).double().tolist() == want


def test_narrowing_integers_rounds_once() -> None:
    """A bfloat16 midpoint plus one in the last place of a 63-bit integer."""
    values = [
        s * (2**power + 2 ** (power - 8) + nudge)
        for power in range(9, 63)
        for nudge in (-1, 0, 1)
        for s in (1, -1)
    ]
    got = narrow_integer(torch.tensor(values), torch.bfloat16).double().tolist()
    assert got == [rounded(Fraction(value), "bf16") for value in values]
