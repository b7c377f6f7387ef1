"""Scalar twin of `oracles.formats`, from the definitions, in exact rational arithmetic.

One code, one value, one group at a time. It shares the names of formats and rules with the
vectorised module and none of its arithmetic, so a slip in either shows as a disagreement.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from oracles.formats import E2M1, FloatFormat, QuantRule


def decode(fmt: FloatFormat, code: int) -> float:
    """Value of one code: fields taken apart, (-1)^s * 2^(e-bias) * 1.m, subnormal when e = 0."""
    if code in fmt.nan:
        return math.nan
    sign = -1.0 if code // fmt.sign else 1.0
    exponent, mantissa = divmod(code % fmt.sign, 2**fmt.mantissa_bits)
    fraction = Fraction(mantissa, 2**fmt.mantissa_bits)
    if exponent == 0:
        return sign * float(fraction * Fraction(2) ** (1 - fmt.bias))
    return sign * float((1 + fraction) * Fraction(2) ** (exponent - fmt.bias))


def encode(fmt: FloatFormat, value: float, *, ties: str) -> int:
    """The code whose value is nearest to ``value``; all codes are tried."""
    if math.isnan(value):
        if not fmt.nan:
            raise ValueError(f"value is NaN, {fmt.name} has none")
        return fmt.nan[0]
    negative = math.copysign(1.0, value) < 0
    code = _nearest(fmt, abs(value), negative, ties)
    if negative and (fmt.negative_zero or code):
        return code + fmt.sign
    return code


def _nearest(fmt: FloatFormat, magnitude: float, negative: bool, ties: str) -> int:
    if magnitude >= decode(fmt, fmt.top):
        return fmt.top
    exact = Fraction(magnitude) / _step(fmt)
    distance = [abs(units * exact.denominator - exact.numerator) for units in _magnitudes(fmt)]
    least = min(distance)
    best = [code for code in range(fmt.top + 1) if distance[code] == least]  # one, or two ends of a tie
    if ties == "even":
        return next(code for code in best if len(best) == 1 or code % 2 == 0)
    larger = {"away": True, "zero": False, "down": negative}[ties]
    return max(best) if larger else min(best)


@lru_cache
def _magnitudes(fmt: FloatFormat) -> tuple[int, ...]:
    """Every magnitude, counted in steps of the smallest one."""
    return tuple(int(Fraction(decode(fmt, code)) / _step(fmt)) for code in range(fmt.top + 1))


def _step(fmt: FloatFormat) -> Fraction:
    return Fraction(2) ** (1 - fmt.bias - fmt.mantissa_bits)


@lru_cache
def _powers() -> tuple[Fraction, ...]:
    """What scale bytes 0 to 254 are worth."""
    return tuple(Fraction(2) ** (byte - 127) for byte in range(255))


def decode_e8m0(byte: int) -> float:
    return math.nan if byte == 255 else math.ldexp(1.0, byte - 127)


def encode_e8m0(exponent: int) -> int:
    if not -127 <= exponent <= 127:
        raise ValueError(f"exponent is {exponent}, allowed are -127 to 127")
    return exponent + 127


def scale_byte(amax: float, rule: QuantRule) -> int:
    """The scale byte by search: try every byte, keep the first that satisfies the rule's inequality."""
    if math.isnan(amax) or math.isinf(amax):
        return 255
    raised = max(amax, rule.amax_floor)
    if rule.scale == "ceil":
        quotient = Fraction(_divided(raised, rule.divisor))
        return next(byte for byte, power in enumerate(_powers()) if power >= quotient)
    threshold = Fraction(7, 4) if rule.scale == "even" else Fraction(2)  # the next exponent starts here
    quotient = Fraction(raised) / threshold / 4
    return next(byte for byte, power in enumerate(_powers()) if quotient < power)


def _divided(amax: float, divisor: str) -> float:
    if divisor == "six":
        return _float32(amax / 6.0)
    return _float32(amax * _float32(1.0 / (6.0 if divisor == "sixth" else 7.0)))


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def quantise(x: Sequence[float], rule: QuantRule, *, group: int = 32) -> tuple[list[int], list[int]]:
    """Codes and scale bytes of one vector."""
    codes: list[int] = []
    scales: list[int] = []
    for first in range(0, len(x), group):
        values = x[first : first + group]
        finite = all(math.isfinite(value) for value in values)
        scales.append(scale_byte(max(abs(value) for value in values) if finite else math.nan, rule))
        codes.extend(_code(value, scales[-1], rule) for value in values)
    return codes, scales


def _code(value: float, byte: int, rule: QuantRule) -> int:
    if byte == 255:
        return 0
    code = encode(E2M1, math.ldexp(value, 127 - byte), ties=rule.ties)
    return 0 if code == 8 and not rule.keep_negative_zero else code
