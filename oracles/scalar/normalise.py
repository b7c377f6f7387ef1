"""Scalar twin of `oracles.normalise`: one float32 LayerNorm, operation by operation, in a given order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from oracles.scalar.fma import add, multiply, round32
from oracles.scalar.prepare import bfloat16

Vector = Sequence[float]
Sum = Callable[[list[float]], float]


def chain(terms: list[float]) -> float:
    """First to last."""
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total


def halves(terms: list[float]) -> float:
    """Neighbours, then neighbours of the sums."""
    while len(terms) > 1:
        terms = [add(one, other) for one, other in zip(terms[0::2], terms[1::2], strict=True)]
    return terms[0]


def layer_norm(
    x: Vector, weight: Vector, bias: Vector, *, eps: float = 1e-6, total: Sum, fused: bool, ulps: int = 0
) -> list[float]:
    """bfloat16 values of a float32 evaluation; ``ulps``: how far the reciprocal root is off."""
    mean = total(list(x)) / len(x)
    centred = [add(value, -mean) for value in x]
    variance = total([multiply(value, value) for value in centred]) / len(x)
    under = add(variance, round32(Fraction(eps)))
    root = round32(Fraction(1 / math.sqrt(under)))
    root += ulps * 2.0 ** (math.frexp(root)[1] - 24)
    made = []
    for value, factor, shift in zip(centred, weight, bias, strict=True):
        scaled = multiply(value, root)
        last = Fraction(scaled) * Fraction(factor) if fused else Fraction(multiply(scaled, factor))
        made.append(bfloat16(round32(last + Fraction(shift))))
    return made
