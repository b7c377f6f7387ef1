"""Scalar twin of `oracles.eightbit`, `eightbit_pages` and `eightbit_score`, in rational arithmetic.

One vector, one byte, one cell at a time, from the words of the specification. It shares the names
of formats and rules with the vectorised modules and none of their arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from oracles.eightbit import ScaleRule
from oracles.formats import FloatFormat
from oracles.scalar.fma import multiply, round32
from oracles.scalar.formats import decode, encode

Vector = Sequence[int]


def scale_of(amax: float, fmt: FloatFormat, rule: ScaleRule, *, power_of_two: bool) -> float:
    """The scale of a vector; a power of two is found by search upwards."""
    raised = max(amax, round32(Fraction(rule.floor)))
    top = Fraction(decode(fmt, fmt.top))
    divides = rule.step == "divide"
    scale = round32(Fraction(raised) / top) if divides else multiply(raised, round32(1 / top))
    if not power_of_two:
        return scale
    return next(2.0**power for power in range(-149, 128) if Fraction(2) ** power >= Fraction(scale))


def quantise(
    x: Sequence[float], fmt: FloatFormat, rule: ScaleRule, *, power_of_two: bool
) -> tuple[list[int], float]:
    """Codes and scale of one vector."""
    scale = scale_of(max(abs(value) for value in x), fmt, rule, power_of_two=power_of_two)
    inverse = round32(1 / Fraction(scale))
    # encode tells -0 from +0, which a Fraction cannot: a float32 product keeps the sign of zero.
    return [encode(fmt, multiply(value, inverse) if value else value, ties="even") for value in x], scale


def fold_weight(weight: float, q_scale: float, weights_scale: float) -> float:
    return multiply(multiply(weight, q_scale), round32(Fraction(weights_scale)))


def code_places(order: str) -> Iterator[tuple[int, int]]:
    """(row, column) of each of the first 64 * 128 bytes of a page, in memory order."""
    if order == "flat":
        for row in range(64):
            for column in range(128):
                yield row, column
        return
    for group in range(4):
        for tile in range(8):
            for row in range(16):
                for column in range(16):
                    yield group * 16 + row, tile * 16 + column


def score(
    q: Sequence[Vector], weights: Sequence[float], k: Vector, k_scale: float, fmt: FloatFormat
) -> Fraction:
    """The real value of one cell."""
    dots = (_dot(head, k, fmt) for head in q)
    total = sum(
        (Fraction(w) * max(dot, Fraction(0)) for w, dot in zip(weights, dots, strict=True)), Fraction(0)
    )
    return total * Fraction(k_scale)


def _dot(q: Vector, k: Vector, fmt: FloatFormat) -> Fraction:
    return sum(_products(q, k, fmt), Fraction(0))


def _products(q: Vector, k: Vector, fmt: FloatFormat) -> list[Fraction]:
    return [Fraction(decode(fmt, a)) * Fraction(decode(fmt, b)) for a, b in zip(q, k, strict=True)]


def representable(
    q: Sequence[Vector], weights: Sequence[float], k: Vector, k_scale: float, fmt: FloatFormat
) -> bool:
    """Whether any order of the cell's additions, scale before or after, stays within 24 bits.

    The unit is the largest that divides every term; the vectorised proof may use a smaller one and
    so prove less, never more.
    """
    relus = [max(_dot(head, k, fmt), Fraction(0)) for head in q]
    scale = Fraction(k_scale)
    before = [relu * scale for relu in relus]
    sums = [
        *(_products(head, k, fmt) for head in q),
        *([one] for one in before),
        [relu * Fraction(w) for relu, w in zip(relus, weights, strict=True)],
        [one * Fraction(w) for one, w in zip(before, weights, strict=True)],
    ]
    return all(_fits(terms) for terms in sums)


def _fits(terms: Sequence[Fraction]) -> bool:
    present = [term for term in terms if term]
    if not present:
        return True
    return sum(abs(term) for term in present) / min(_unit(term) for term in present) < 2**24


def _unit(value: Fraction) -> Fraction:
    """Largest power of two that divides ``value`` a whole number of times."""
    numerator = abs(value.numerator)
    return Fraction(numerator & -numerator, value.denominator)
