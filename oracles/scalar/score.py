"""Scalar twin of `oracles.score`: one row against one key, in exact rational arithmetic.

Values are Fractions until the definition says "rounded"; the trees are written out as loops over
the lane groups. The proof is the definition too: every term a multiple of one unit, magnitudes
below 2^24 of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from oracles.formats import E2M1
from oracles.scalar.fma import add, fma, multiply, round32
from oracles.scalar.formats import decode

Vector = Sequence[int]


HALVES = [int(2 * decode(E2M1, code)) for code in range(16)]
"""Twice the value of each code, an integer."""


def dot(q_codes: Vector, q_scales: Vector, k_codes: Vector, k_scales: Vector) -> float:
    """fl32(exact sum of 128 columns + what the k-tiles before left), tile after tile."""
    if 255 in q_scales or 255 in k_scales:
        return math.nan
    total = 0.0
    for tile in range(len(q_codes) // 128):
        if math.isinf(total):
            continue  # what is added is finite
        groups = range(tile * 4, tile * 4 + 4)
        exact = sum(_group(q_codes, q_scales, k_codes, k_scales, group) for group in groups)
        total = round32(exact + Fraction(total))
    return total


def _group(q_codes: Vector, q_scales: Vector, k_codes: Vector, k_scales: Vector, group: int) -> Fraction:
    """Sum over 32 columns of q * 2^(eq-127) * k * 2^(ek-127)."""
    columns = range(group * 32, group * 32 + 32)
    quarters = sum(HALVES[q_codes[d]] * HALVES[k_codes[d]] for d in columns)
    return Fraction(quarters, 4) * Fraction(2) ** (q_scales[group] - 127 + k_scales[group] - 127)


def spread(
    q_codes: Vector, q_scales: Vector, k_codes: Vector, k_scales: Vector, tiles: int
) -> tuple[int, int]:
    """(least, most) sum of scale exponents over the groups of the first ``tiles`` that have products."""
    powers = [
        q_scales[group] + k_scales[group] - 254
        for group in range(tiles * 4)
        if any(HALVES[code] for code in q_codes[group * 32 : group * 32 + 32])
        and any(HALVES[code] for code in k_codes[group * 32 : group * 32 + 32])
    ]
    return (min(powers), max(powers)) if powers else (0, 0)


def over_budget(q_codes: Vector, q_scales: Vector, k_codes: Vector, k_scales: Vector) -> bool:
    """Some k-tile's worst case needs more than 24 bits, or a subnormal, or more than float32's range."""
    if 255 in q_scales or 255 in k_scales:
        return False
    for tiles in range(1, len(q_codes) // 128 + 1):
        least, most = spread(q_codes, q_scales, k_codes, k_scales, tiles)
        worst = 4608 * ((4 * tiles - 1) * 2 ** (most - least) + 1)  # all groups at the top but one
        if worst > 2**24 or least - 2 < -126 or most > 111:
            return True
    return False


def relu(value: float) -> float:
    return math.nan if math.isnan(value) else max(value, 0.0)


def decode_score(dots: Sequence[float], weights: Sequence[float], weight_scale: float) -> float:
    """acc_g = acc_g + round(relu * w) over heads 16*mi + 4*g + i; pairs of groups; times the scale."""
    total = [0.0] * 4
    for tile in range(len(dots) // 16):
        for i in range(4):
            for group in range(4):
                head = 16 * tile + 4 * group + i
                total[group] = add(total[group], multiply(relu(dots[head]), weights[head]))
    return multiply(add(add(total[0], total[1]), add(total[2], total[3])), weight_scale)


def prefill_score(dots: Sequence[float], weights: Sequence[float], weight_scale: float) -> float:
    """acc_g = fma(relu, round(w * scale), acc_g) in the same order."""
    total = [0.0] * 4
    for tile in range(len(dots) // 16):
        for i in range(4):
            for group in range(4):
                head = 16 * tile + 4 * group + i
                total[group] = fma(relu(dots[head]), multiply(weights[head], weight_scale), total[group])
    return add(add(total[0], total[1]), add(total[2], total[3]))


def one_chain_score(dots: Sequence[float], weights: Sequence[float], weight_scale: float) -> float:
    """A plain loop over the heads, products rounded, scale last."""
    total = 0.0
    for value, weight in zip(dots, weights, strict=True):
        total = add(total, multiply(relu(value), weight))
    return multiply(total, weight_scale)


def exact_score(dots: Sequence[float], weights: Sequence[float], weight_scale: float) -> float:
    """The real value of the sum over heads, rounded once."""
    if any(math.isnan(value) for value in dots):
        return math.nan
    terms = (Fraction(relu(value)) * Fraction(weight) for value, weight in zip(dots, weights, strict=True))
    return round32(sum(terms, Fraction(0)) * Fraction(weight_scale))


def representable(dots: Sequence[float], weights: Sequence[float], weight_scale: float) -> bool:
    """Whether the sum over heads is exact in any order, scale first or last.

    The sum of magnitudes is counted in the largest unit that divides every term. The vectorised
    proof may use a smaller unit and so prove less, never more.
    """
    first = [Fraction(relu(value)) * Fraction(weight) for value, weight in zip(dots, weights, strict=True)]
    for terms in (first, [term * Fraction(weight_scale) for term in first]):
        present = [term for term in terms if term]
        if present and sum(abs(term) for term in present) / min(_unit(term) for term in present) >= 2**24:
            return False
    return True


def _unit(value: Fraction) -> Fraction:
    """Largest power of two that divides ``value`` a whole number of times."""
    numerator = abs(value.numerator)
    return Fraction(numerator & -numerator, value.denominator)
