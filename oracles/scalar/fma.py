"""Scalar twin of `oracles.fma`: exact rational arithmetic, rounded once by searching the float32 grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

LARGEST = Fraction(2**24 - 1) * Fraction(2) ** 104


def round32(exact: Fraction) -> float:
    """Nearest float32 of an exact value, ties to even; an exact zero is +0."""
    magnitude = abs(exact)
    if magnitude == 0:
        return 0.0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:  # 2^exponent <= magnitude < 2^(exponent + 1)
        exponent -= 1
    step = Fraction(2) ** max(exponent - 23, -149)
    rounded = round(magnitude / step) * step  # Fraction rounds half to even
    value = math.inf if rounded > LARGEST else float(rounded)
    return math.copysign(value, exact)


def fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once. Zeros, infinities and NaN follow the sign rules of IEEE 754."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return _not_finite(a, b, c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return _zero(math.copysign(1, a) * math.copysign(1, b), a * b == 0, c)
    return round32(exact)


def _zero(sign: float, product_is_zero: bool, c: float) -> float:
    """Sign of an exact zero: minus only when product and addend are both minus zero."""
    both = product_is_zero and c == 0
    return -0.0 if both and sign < 0 and math.copysign(1, c) < 0 else 0.0


def _not_finite(a: float, b: float, c: float) -> float:
    """Exponents do not matter here, so the Python product of signs and infinities is exact."""
    if any(math.isnan(value) for value in (a, b, c)) or (0 in (a, b) and math.inf in (abs(a), abs(b))):
        return math.nan
    product = math.copysign(1, a) * math.copysign(1, b) * (math.inf if math.inf in (abs(a), abs(b)) else 0)
    return product + (c if math.isinf(c) else 0.0)


def add(a: float, b: float) -> float:
    return fma(a, 1.0, b)


def multiply(a: float, b: float) -> float:
    """a * b rounded once; unlike fma(a, b, 0) it keeps the sign of a zero."""
    if math.isfinite(a) and math.isfinite(b):
        return math.copysign(round32(Fraction(a) * Fraction(b)), math.copysign(1, a) * math.copysign(1, b))
    return a * b


def sum32(terms: Sequence[float]) -> float:
    return round32(sum((Fraction(term) for term in terms), Fraction(0)))
