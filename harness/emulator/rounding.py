"""Single-rounding float32 arithmetic that torch has no operation for.

A float32 product is exact in float64; adding the third operand there can round, and
narrowing would round again. The error of the float64 addition is known exactly (two-sum),
so the sum is rounded to odd before it is narrowed, which makes the narrowing the only
rounding (float64 has more than two bits to spare over float32: 53 >= 2 * 24 + 2).
Plain ``(a.double() * b + c).float()`` differs in about one case in 2**29, which no
random test finds and a planned one does.
"""

from __future__ import annotations

import torch
from torch import Tensor


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Knuth's sum: ``s + e == a + b`` exactly, ``s`` the rounded sum (finite operands)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(total: Tensor, error: Tensor) -> Tensor:
    """float64 ``total`` moved so that ``total + error`` is rounded to odd instead of to nearest.

    Where the error is not zero and the last bit of ``total`` is even, the neighbour in the
    direction of the error has the odd bit and lies on the same side of every float32 midpoint.
    """
    even = (total.view(torch.int64) & 1) == 0
    move = (error != 0) & even & torch.isfinite(total) & torch.isfinite(error)
    toward = torch.where(error > 0, torch.inf, -torch.inf).to(torch.float64)
    return torch.where(move, torch.nextafter(total, toward), total)


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` in the operands' format, rounded once. float32 only.

    The float64 route leaves the usual case (no error in the sum) untouched; NaN and
    infinities go through the plain float64 arithmetic, which treats them the same way.
    """
    if a.dtype != torch.float32:
        raise TypeError(f"fma of {a.dtype}, only float32 is implemented")
    product = a.double() * b.double()
    wide = c.double()
    total, error = two_sum(product, wide)
    if not bool((error != 0).any()):
        return total.float()
    return to_odd(total, error).float()


def narrow(value: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 ``value`` in a 16-bit format, rounded once (torch goes by way of float32, and rounds twice)."""
    single = value.float()
    error = value - single.double()
    move = (error != 0) & ((single.view(torch.int32) & 1) == 0) & torch.isfinite(single)
    toward = torch.where(error > 0, torch.inf, -torch.inf).to(torch.float32)
    return torch.where(move, torch.nextafter(single, toward), single).to(dtype)


def narrow_integer(value: Tensor, dtype: torch.dtype) -> Tensor:
    """int64 ``value`` in a 16-bit float format, rounded once."""
    odd = ((value >> 16) | ((value & 0xFFFF) != 0).long()) << 16
    return narrow(torch.where(value.abs() < 1 << 32, value, odd).double(), dtype)


def sum_rounded_once(terms: list[Tensor]) -> Tensor:
    """float32 of the exact sum of float64 ``terms`` (finite, no float64 overflow), rounded once."""
    return to_odd(*distilled(terms)).float()


def distilled(terms: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The rounded float64 sum of ``terms``, and a number with the sign of what it leaves out (0: nothing).

    The terms are distilled by error-free sweeps (Ogita, Rump, Oishi 2005, VecSum): n - 1 sweeps
    over n terms leave the rounded sum on top and a remainder below it that has the sign of its
    largest part; rounding the top to odd makes the narrowing to float32 the only rounding.
    """
    parts = list(terms)
    for _ in range(len(parts) - 1):
        for low in range(len(parts) - 1):
            parts[low + 1], parts[low] = two_sum(parts[low + 1], parts[low])
    total, rest = parts[-1], torch.zeros_like(parts[-1])
    for part in parts[:-1]:
        rest = torch.where(part != 0, part, rest)
    return total, rest
