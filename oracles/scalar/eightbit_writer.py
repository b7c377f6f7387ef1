"""Scalar twin of `oracles.eightbit_writer` and `eightbit_subnormals`: one token, one operation at a time.

Written from the specification in rational arithmetic; what float32 leaves open is an `Arithmetic`, and a page
is filled by going over it in memory order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from oracles.eightbit import KEY, QUERY
from oracles.formats import FloatFormat
from oracles.scalar import eightbit, fma
from oracles.scalar.fma import round32
from oracles.scalar.prepare import bfloat16

Vector = Sequence[float]


@dataclass(frozen=True)
class Arithmetic:
    """``flushed``: subnormals are zeros of their sign; ``fused``: none, first or second of two products."""

    flushed: bool = False
    fused: str = "none"

    def held(self, value: float) -> float:
        small = Fraction(abs(value)) < Fraction(1, 2**126)
        return math.copysign(0.0, value) if self.flushed and small else value

    def multiply(self, a: float, b: float) -> float:
        return self.held(fma.multiply(self.held(a), self.held(b)))

    def add(self, a: float, b: float) -> float:
        return self.held(fma.add(self.held(a), self.held(b)))

    def multiply_add(self, a: float, b: float, c: float) -> float:
        """a * b + c, the product rounded by itself unless something is fused."""
        if self.fused == "none":
            return self.add(self.multiply(a, b), c)
        return self.held(fma.fma(self.held(a), self.held(b), self.held(c)))

    def two_products(self, a: float, b: float, c: float, d: float) -> float:
        """a * b + c * d."""
        if self.fused == "second":
            return self.multiply_add(c, d, self.multiply(a, b))
        return self.multiply_add(a, b, self.multiply(c, d))


Sum = Callable[[list[float], Arithmetic], float]


def chain(terms: list[float], arithmetic: Arithmetic) -> float:
    """First to last."""
    total = terms[0]
    for term in terms[1:]:
        total = arithmetic.add(total, term)
    return total


def halves(terms: list[float], arithmetic: Arithmetic) -> float:
    """The first half against the second, then halves of the sums."""
    while len(terms) > 1:
        middle = len(terms) // 2
        terms = [arithmetic.add(terms[i], terms[i + middle]) for i in range(middle)]
    return terms[0]


def rope(x: Vector, cos: Vector, sin: Vector, *, pairing: str, arithmetic: Arithmetic) -> list[float]:
    """One vector; ``cos`` and ``sin`` of its position, one value a pair."""
    half, turned = len(cos), list(x)
    for i in range(half):
        a, b = (i, i + half) if pairing == "neox" else (2 * i, 2 * i + 1)
        turned[a] = bfloat16(arithmetic.two_products(x[a], cos[i], -x[b], sin[i]))
        turned[b] = bfloat16(arithmetic.two_products(x[b], cos[i], x[a], sin[i]))
    return turned


def layer_norm(
    x: Vector, weight: Vector, bias: Vector, *, eps: float, arithmetic: Arithmetic, total: Sum
) -> list[float]:
    """bfloat16 values of one float32 evaluation, (x - mean) * root * weight + bias from left to right."""
    count = 1.0 / len(x)
    mean = arithmetic.multiply(total(list(x), arithmetic), count)
    centred = [arithmetic.add(value, -mean) for value in x]
    squares = [arithmetic.multiply(value, value) for value in centred]
    variance = arithmetic.multiply(total(squares, arithmetic), count)
    root = round32(Fraction(1 / math.sqrt(arithmetic.add(variance, round32(Fraction(eps))))))
    return [
        bfloat16(arithmetic.multiply_add(arithmetic.multiply(value, root), factor, shift))
        for value, factor, shift in zip(centred, weight, bias, strict=True)
    ]


def query(
    q: Vector, weight: float, weights_scale: float, fmt: FloatFormat, *, power: bool, arithmetic: Arithmetic
) -> tuple[list[int], float]:
    """(codes, folded weight) of one head of which ``q`` is rotated."""
    codes, scale = eightbit.quantise(q, fmt, QUERY, power_of_two=power)
    folded = arithmetic.multiply(weight, scale)
    return codes, arithmetic.multiply(folded, round32(Fraction(weights_scale)))


def key(k: Vector, fmt: FloatFormat, *, power: bool) -> tuple[list[int], float]:
    """(codes, scale) of a key that is normalised and rotated."""
    return eightbit.quantise(k, fmt, KEY, power_of_two=power)


def put(page: bytearray, row: int, codes: Sequence[int], scale: float, order: str) -> None:
    """Write the key of ``row`` into ``page``, the bytes of one page of 64."""
    for byte, (owner, column) in enumerate(eightbit.code_places(order)):
        if owner == row:
            page[byte] = codes[column]
    page[64 * 128 + 4 * row : 64 * 128 + 4 * row + 4] = struct.pack("<f", scale)
