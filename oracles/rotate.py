"""DeepSeek-V4's rotate-and-quantise: RoPE on the last columns, then a Hadamard transform.

Contract: x bfloat16 is taken to float32; its last ``2 P`` columns turn in adjacent pairs, (a, b) becoming
(a cos - b sin, b cos + a sin); the transform adds in the declared order, columns 1 apart first, then 2, 4 to
D/2 apart, the left one becoming left + right and the right one left - right, and multiplies by fl32(D^-0.5).
Keys have an RMSNorm before that, fl32(fl32(x * root) * weight); nothing is rounded to bfloat16 on the way.
Every step is a float32 operation, subnormals kept or flushed (`eightbit_subnormals.MODES`).
What float32 leaves open (the order of the sum of squares, the reciprocal root, which product of a sum of two
is fused) makes an interval of each value; all later steps are monotone, so its ends are carried through and
whatever lies between them is right. It fails silently when an interval is too wide: all bytes are then right,
so those with several right values are counted. A wrong order of additions shows only where sums are inexact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oracles import normalise
from oracles.eightbit_subnormals import FUSED, LEAST_EPS, in_mode
from oracles.fma import fma32
from oracles.normalise import Range, toward

DIFFERENCES = ("left-right", "right-left")
"""What the right one of two columns becomes: left minus right (declared), or the reverse (a fault)."""
PLACES = ("last", "first")
"""Which columns RoPE turns: the last (declared), or the first as DeepSeek-V3.2 (a fault)."""


@dataclass(frozen=True)
class Turn:
    """How rows are turned. Tables bfloat16 [positions, P] or None without RoPE; ``hadamard``: transform.

    ``difference`` is one of `DIFFERENCES`, ``place`` one of `PLACES`; ``power``: the transform is multiplied
    by D to this.
    """

    cos: Tensor | None
    sin: Tensor | None
    hadamard: bool
    difference: str = "left-right"
    place: str = "last"
    power: float = -0.5

    def __post_init__(self) -> None:
        for name, allowed in (("difference", DIFFERENCES), ("place", PLACES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}, allowed are {', '.join(allowed)}")


def hadamard(x: Tensor, *, mode: str = "kept", difference: str = "left-right", power: float = -0.5) -> Tensor:
    """The transform of ``x`` float32 [..., D] in the declared order, D a power of two."""
    ends = _transformed(Range(x, x), mode, difference, power)
    return ends.low


def turned(turn: Turn, values: Range, positions: Tensor, *, mode: str = "kept") -> Range:
    """``values`` float32 [R, ..., D] of rows at ``positions`` int64 [R], after RoPE and transform.

    Raises ValueError for a position outside the tables.
    """
    after = values
    if turn.cos is not None and turn.sin is not None:
        after = _roped(turn, after, turn.cos, turn.sin, positions, mode)
    return _transformed(after, mode, turn.difference, turn.power) if turn.hadamard else after


def normal(x: Tensor, weight: Tensor, eps: float, *, mode: str = "kept") -> Range:
    """RMSNorm of ``x`` bfloat16 [R, D] before it is turned, float32; ``weight`` bfloat16 [D].

    Raises ValueError for a magnitude past 2^62, NaNs, and an ``eps`` below 2^-40.
    """
    wide = x.double()
    if not bool((wide.abs() <= normalise.LARGEST).all()):
        raise ValueError("x has a magnitude above 2^62 or a NaN, allowed are keys whose squares are float32")
    if eps < LEAST_EPS:
        raise ValueError(f"eps is {eps}, allowed is 2^-40 and more")
    root, off = normalise.root_range(wide, torch.zeros_like(wide), eps)
    ends = toward(root - off, -torch.inf), toward(root + off, torch.inf)
    own, factor = in_mode(x.float(), mode), in_mode(weight.float(), mode)
    return _spread([in_mode(in_mode(own * end, mode) * factor, mode) for end in ends])


def plain(x: Tensor) -> Range:
    """``x`` bfloat16 [...] as it is."""
    return Range(x.float(), x.float())


def exactly(values: Range) -> Tensor:
    """bool [...]: rows [..., D] of which every partial sum is a float32, in any order, and known."""
    low = values.low.double()
    same = (values.low == values.high).all(-1)
    return same & normalise._sums_exactly(low).squeeze(-1)


def _transformed(values: Range, mode: str, difference: str, power: float) -> Range:
    low, high = (in_mode(end, mode) for end in (values.low, values.high))
    columns, apart = low.shape[-1], 1
    while apart < columns:
        (left_low, right_low), (left_high, right_high) = (
            end.unflatten(-1, (-1, 2, apart)).unbind(-2) for end in (low, high)
        )
        sums = left_low + right_low, left_high + right_high
        less = left_low - right_high, left_high - right_low
        if difference == "right-left":
            less = right_low - left_high, right_high - left_low
        low, high = (
            in_mode(torch.stack(pair, -2).flatten(-3), mode) for pair in zip(sums, less, strict=True)
        )
        apart *= 2
    root = torch.tensor(float(columns) ** power, dtype=torch.float32)
    return Range(*(in_mode(end * root, mode) for end in (low, high)))


def _roped(turn: Turn, values: Range, cos: Tensor, sin: Tensor, positions: Tensor, mode: str) -> Range:
    if bool(((positions < 0) | (positions >= cos.shape[0])).any()):
        raise ValueError(f"positions has a value outside 0 to {cos.shape[0] - 1}")
    half = cos.shape[1]
    lead = (positions.numel(), *[1] * (values.low.dim() - 2), half)
    c, s = (in_mode(table[positions].float().view(lead), mode) for table in (cos, sin))
    first = values.low.shape[-1] - 2 * half if turn.place == "last" else 0
    here = slice(first, first + 2 * half)
    ends = [in_mode(end[..., here], mode).unflatten(-1, (half, 2)) for end in (values.low, values.high)]
    made = [
        torch.stack((_two(a, c, -b, s, mode, fused), _two(b, c, a, s, mode, fused)), -1).flatten(-2)
        for a in (end[..., 0] for end in ends)
        for b in (end[..., 1] for end in ends)
        for fused in FUSED
    ]
    wide = _spread(made)
    low, high = values.low.clone(), values.high.clone()
    low[..., here], high[..., here] = wide.low, wide.high
    return Range(low, high)


def _two(a: Tensor, b: Tensor, c: Tensor, d: Tensor, mode: str, fused: str) -> Tensor:
    """a * b + c * d in float32; ``fused`` is one of `FUSED`."""
    if fused == "none":
        return in_mode(in_mode(a * b, mode) + in_mode(c * d, mode), mode)
    if fused == "second":
        a, b, c, d = c, d, a, b
    return in_mode(fma32(a, b, in_mode(c * d, mode)), mode)


def _spread(corners: Sequence[Tensor]) -> Range:
    """Lowest and highest of float32 ``corners``, -0 just below 0."""
    made = torch.stack([order_of(corner) for corner in corners])
    return Range(_valued(made.amin(0)), _valued(made.amax(0)))


def order_of(values: Tensor) -> Tensor:
    """Whole numbers (int32) in the order of float32 ``values``, -0 just below 0."""
    bits = values.contiguous().view(torch.int32)
    return torch.where(bits < 0, -1 - (bits & 0x7FFFFFFF), bits)


def _valued(order: Tensor) -> Tensor:
    """Inverse of `order_of`."""
    bits = torch.where(order < 0, (-1 - order) | -(2**31), order)
    return bits.to(torch.int32).view(torch.float32)
