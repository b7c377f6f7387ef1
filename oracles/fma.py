"""Single-rounding float32 arithmetic in float64: fused multiply-add, and sums of many terms.

Contract: the result is the exact real value rounded once to float32, to nearest even, with
subnormal results and overflow to infinity as IEEE 754 has them. It fails silently by one unit
in the last place: a float64 result narrowed to float32 rounds twice, which is wrong only when
the float64 value happens to lie half way between two float32 values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_BELOW = (1 << 29) - 1
"""The bits of a float64 significand that a normal float32 does not have."""
_HALF = 1 << 28
"""Those bits when the value lies half way between two normal float32 values."""
_SMALLEST_NORMAL = 2.0**-126


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """(s, e) with s = fl64(a + b) and s + e = a + b exactly (Knuth); float64 [...], finite."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def narrow_odd(high: Tensor, low: Tensor) -> Tensor:
    """float32 [...] nearest to high + low, float64 [...], where ``high`` is high + low rounded to float64.

    Rounds to odd first: when ``low`` is not zero and the last bit of ``high`` is 0, moves one step
    toward ``low``. The last bit then says that something is left, and narrowing rounds once.
    """
    bits = high.view(torch.int64)
    move = (low != 0) & (bits & 1 == 0)
    outward = (low > 0) == (high > 0)  # away from zero is one more in the bit pattern, either sign
    return torch.where(move, bits + torch.where(outward, 1, -1), bits).view(torch.float64).float()


def fma32(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c rounded once, float32 [...] of float32 [...] (broadcast); NaN and infinity as IEEE."""
    return fma_wide(a.double(), b.double(), c.double())


def fma_wide(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """`fma32` of operands already held as float64 (each must be a float32 value)."""
    product = a * b  # exact: 24 + 24 bits
    total = product + c
    result = total.float()
    doubtful = _doubtful(total)
    if bool(doubtful.any()):
        place = doubtful.nonzero(as_tuple=True)
        part, addend = product.expand_as(total)[place], c.expand_as(total)[place]
        result[place] = narrow_odd(*two_sum(part, addend))
    return result


def _doubtful(total: Tensor) -> Tensor:
    """Where narrowing a rounded float64 could round twice: half way between float32 values, or subnormal."""
    half = (total.view(torch.int64) & _BELOW) == _HALF
    if bool((total.abs() >= _SMALLEST_NORMAL).all()):
        return half
    return half | ((total.abs() < _SMALLEST_NORMAL) & (total != 0))


def sum32(terms: Sequence[Tensor]) -> Tensor:
    """Sum of float64 [...] ``terms`` rounded once to float32 [...]; terms finite and of any spread.

    The float64 sum is off by no more than n^2 2^-53 times the largest term. Where both ends of
    twice that interval narrow to one float32, so does the sum; elsewhere an expansion decides.
    """
    total, largest = terms[0], terms[0].abs()
    for term in terms[1:]:
        total, largest = total + term, torch.maximum(largest, term.abs())
    doubt = largest * (2 * len(terms) ** 2 * 2.0**-53)
    result = (total - doubt).float()
    doubtful = result != (total + doubt).float()
    if bool(doubtful.any()):
        place = doubtful.nonzero(as_tuple=True)
        result[place] = sum32_by_expansion([term[place] for term in terms])
    return result


def sum32_by_expansion(terms: Sequence[Tensor]) -> Tensor:
    """As `sum32`, by Shewchuk's expansion everywhere.

    The sum is kept as float64 parts that do not overlap, then folded from the largest down until
    something is left over.
    """
    parts = [terms[0]]
    for term in terms[1:]:
        grown, carry = [], term
        for part in parts:
            carry, error = two_sum(carry, part)
            grown.append(error)
        parts = [*grown, carry]
    return narrow_odd(*_head(parts))


def _head(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """(value, what is left) of a non-overlapping expansion, smallest part first.

    The value is within one float64 step of the sum, on the far side of what is left, whose sign
    and not being zero are exact.
    """
    head = parts[-1]
    left = torch.zeros_like(head)
    for part in reversed(parts[:-1]):
        total, error = two_sum(head, part)
        done = left != 0
        head = torch.where(done, head, total)
        left = torch.where(done, left, error)
    return head, left
