"""Scalar twin of `oracles.prepare`: one token, one head, one pair at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from oracles.scalar.fma import add, multiply, round32

Vector = Sequence[float]


def bfloat16(value: float) -> float:
    """Nearest bfloat16 of a finite value, ties to even: eight significant bits."""
    if value == 0:
        return value
    step = Fraction(2) ** max(math.frexp(value)[1] - 8, -133)
    return math.copysign(float(round(Fraction(abs(value)) / step) * step), value)


def layer_norm(
    x: Vector, weight: Vector, bias: Vector, *, eps: float = 1e-6, variance: str = "population"
) -> list[float]:
    mean = sum(map(Fraction, x)) / len(x)
    count = len(x) if variance == "population" else len(x) - 1
    spread = sum((Fraction(value) - mean) ** 2 for value in x) / count
    root = math.sqrt(float(spread + Fraction(eps)))
    normal = [float(Fraction(value) - mean) / root for value in x]
    scaled = [Fraction(n * w + b) for n, w, b in zip(normal, weight, bias, strict=True)]
    return [bfloat16(round32(value)) for value in scaled]


def rope(x: Vector, cos: Vector, sin: Vector, *, pairing: str) -> list[float]:
    """One vector; ``cos`` and ``sin`` of its position, one value a pair."""
    half = len(cos)
    turned = list(x)
    for i in range(half):
        a, b = (i, i + half) if pairing == "neox" else (2 * i, 2 * i + 1)
        turned[a] = bfloat16(add(multiply(x[a], cos[i]), -multiply(x[b], sin[i])))
        turned[b] = bfloat16(add(multiply(x[b], cos[i]), multiply(x[a], sin[i])))
    return turned


def hadamard(x: Vector) -> list[float]:
    """Entry (i, j) of the matrix is minus one to the number of bits that i and j share."""
    columns = len(x)
    result = []
    for i in range(columns):
        total = sum(Fraction(value) * (-1) ** (i & j).bit_count() for j, value in enumerate(x))
        result.append(bfloat16(round32(Fraction(float(total) * columns**-0.5))))
    return result


def fold_fp8(weight: float, q_scale: float, weight_scale: float) -> float:
    """(w * q_scale) * weight_scale, each product rounded to float32."""
    scaled = round32(Fraction(weight) * Fraction(q_scale))
    return round32(Fraction(scaled) * Fraction(round32(Fraction(weight_scale))))
