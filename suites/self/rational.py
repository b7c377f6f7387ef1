"""Rounding a rational number to a float format, from the definition: the reference for the emulator."""

from __future__ import annotations

import math
from fractions import Fraction

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
"""Significant bits, smallest and largest exponent of a normal number."""


def rounded(value: Fraction, name: str = "f32") -> float:
    """The nearest number of format ``name``, ties to even; beyond the largest, infinity. Zero is +0."""
    digits, lowest, highest = FORMATS[name]
    if value == 0:
        return 0.0
    sign, size = (-1.0 if value < 0 else 1.0), abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, lowest) - digits + 1)
    whole = round(size / unit) * unit
    return sign * (math.inf if whole >= Fraction(2) ** (highest + 1) else float(whole))
