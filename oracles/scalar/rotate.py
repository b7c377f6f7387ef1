"""Scalar twin of `oracles.rotate`: one row, one operation at a time, and the transform by its definition.

What float32 leaves open is an `Arithmetic` and an order of summation; `transform` is the declared order as a
recursion over halves, `defined` the sum over all columns in rational numbers, which has no order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from oracles.scalar.eightbit_writer import Arithmetic, Sum
from oracles.scalar.fma import round32

Vector = Sequence[float]


def defined(x: Vector) -> list[Fraction]:
    """Column i is the sum of all x[j], negative where i and j have an odd number of bits in common."""
    return [
        sum((Fraction(value) * (-1) ** (i & j).bit_count() for j, value in enumerate(x)), Fraction(0))
        for i in range(len(x))
    ]


def transform(x: Vector, arithmetic: Arithmetic) -> list[float]:
    """Both halves by themselves, then column by column left + right and left - right; not scaled."""
    if len(x) == 1:
        return [arithmetic.held(x[0])]
    middle = len(x) // 2
    left, right = (transform(half, arithmetic) for half in (x[:middle], x[middle:]))
    return [
        *(arithmetic.add(a, b) for a, b in zip(left, right, strict=True)),
        *(arithmetic.add(a, -b) for a, b in zip(left, right, strict=True)),
    ]


def hadamard(x: Vector, arithmetic: Arithmetic) -> list[float]:
    """`transform` times fl32(D^-0.5)."""
    root = round32(Fraction(1 / math.sqrt(len(x))))
    return [arithmetic.multiply(value, root) for value in transform(x, arithmetic)]


def rope(x: Vector, cos: Vector, sin: Vector, arithmetic: Arithmetic) -> list[float]:
    """The last columns turned in adjacent pairs, not rounded further."""
    made, first = list(x), len(x) - 2 * len(cos)
    for pair, (c, s) in enumerate(zip(cos, sin, strict=True)):
        even = first + 2 * pair
        a, b = x[even], x[even + 1]
        made[even] = arithmetic.two_products(a, c, -b, s)
        made[even + 1] = arithmetic.two_products(b, c, a, s)
    return made


def rms_norm(x: Vector, weight: Vector, *, eps: float, arithmetic: Arithmetic, total: Sum) -> list[float]:
    """One float32 evaluation of x * root * weight, from left to right."""
    squares = [arithmetic.multiply(value, value) for value in x]
    mean = arithmetic.multiply(total(squares, arithmetic), 1.0 / len(x))
    root = round32(Fraction(1 / math.sqrt(arithmetic.add(mean, round32(Fraction(eps))))))
    return [
        arithmetic.multiply(arithmetic.multiply(value, root), factor)
        for value, factor in zip(x, weight, strict=True)
    ]
