"""The scaled matrix instruction with FP4 operands: ``v_mfma_scale_f32_16x16x128_f8f6f4``.

Lane layout (numbers of our own, spec of the instruction as the kernels rely on it): A's lane
``l`` holds row ``l % 16``, k from ``32 * (l // 16)``, 32 E2M1 codes in 16 bytes, low nibble
first, with one E8M0 byte, chosen by opsel from a dword; B the same with columns. Element ``i``
of the result in lane ``l`` is row ``4 * (l // 16) + i``, column ``l % 16``.

Value: the exact dot product plus C, rounded once. Within the budget (the spread of combined
exponents in a dot at most `EXACT_SPREAD`, no subnormal, no overflow, nothing lost against C)
every implementation of at least 24 bits returns these bits; beyond it hardware's order and
width are unpublished, so such results are counted and a verdict can say so. A scale byte of
255 makes its row or column NaN. The instruction ignores the execution mask.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.emulator.rounding import distilled, to_odd, two_sum

GROUP = 32
"""Codes that share a scale byte."""

EXACT_SPREAD = 10
"""Largest spread of combined scale exponents with an exact sum in 24 bits: (3 * 2**10 + 1) * 4608 < 2**24."""

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_SAFE_EXPONENTS = (67, 183)
"""Scale bytes for which neither products nor sums of the fast path leave float32's normal range."""

_CACHED = 48


@dataclass(frozen=True, slots=True)
class Decoded:
    """One operand: values ``(c, w, 16, 128)``, scale bytes ``(c, w, 16, 4)``, NaN lines ``(c, w, 16)``.

    Values are scaled when ``safe``: the scale bytes then keep them in float32's normal range.
    """

    values: Tensor
    bytes: Tensor
    nan: Tensor | None
    spread: int
    safe: bool


class MatrixUnit:
    """Executes the instruction for one launch; keeps decoded operands, counts results beyond the budget."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.results = 0
        self.over_budget = 0
        self._pairs = _pair_table(device)
        self._cache: OrderedDict[tuple[int, int, int], tuple[Tensor, object, Decoded]] = OrderedDict()

    def forget(self) -> None:
        """Drop decoded operands (at the end of a slab)."""
        self._cache.clear()

    def multiply(
        self,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        scale_a: Tensor,
        scale_b: Tensor,
        opsel: tuple[int, int],
        shape: tuple[int, int, int],
        active: Tensor | None = None,
    ) -> Tensor:
        """``(4, C, W, L)`` float32 from dwords a, b ``(4, c, w, l)`` int32 and scales ``(c, w, l)`` int32.

        ``active`` (the execution mask) only says which waves to count.
        """
        left = self._decode(a, scale_a, opsel[0])
        right = self._decode(b, scale_b, opsel[1])
        accumulate = not (c.numel() <= 4 and not bool(c.any()))
        doubtful = None
        if left.safe and right.safe and left.spread + right.spread <= EXACT_SPREAD:
            out = _to_lanes(_dots(left.values, right.values), shape)
            if accumulate:
                out, doubtful = _accumulate(out, c)
        else:
            out, doubtful = _exact(left, right, c if accumulate else None, shape)
        nan = _nan_lines(left, right)
        self._count(doubtful, nan, shape, active)
        return out if nan is None else torch.where(nan, torch.nan, out)

    def _count(
        self, doubtful: Tensor | None, nan: Tensor | None, shape: tuple[int, int, int], active: Tensor | None
    ) -> None:
        """Count results, and those in doubt that are not NaN anyway, of waves that run the instruction."""
        runs = torch.ones(1, 1, 1, dtype=torch.bool, device=self.device)
        if active is not None:
            runs = active.any(dim=-1, keepdim=True)
        self.results += int(runs.expand(*shape[:2], 1).sum()) * 256
        if doubtful is not None and bool(doubtful.any()):
            counted = doubtful & runs if nan is None else doubtful & runs & ~nan
            self.over_budget += int(counted.expand(4, *shape[:2], 64).sum())

    def _decode(self, codes: Tensor, scale: Tensor, opsel: int) -> Decoded:
        key = (id(codes), id(scale), opsel)
        held = self._cache.get(key)
        if held is None:
            held = (codes, scale, self._decode_now(codes, scale, opsel))
            self._cache[key] = held
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return held[2]

    def _decode_now(self, codes: Tensor, scale: Tensor, opsel: int) -> Decoded:
        words, c, w, _ = codes.shape
        by_line = codes.view(words, c, w, 4, 16).permute(1, 2, 4, 3, 0).contiguous()
        index = by_line.view(torch.int16).flatten().to(torch.int32) & 0xFFFF
        values = self._pairs.index_select(0, index).view(c, w, 16, 4, GROUP)
        byte = ((scale >> (8 * opsel)) & 0xFF).expand(-1, -1, 64)
        byte = byte.view(byte.shape[0], byte.shape[1], 4, 16).transpose(2, 3)
        nan = (byte == 255).any(dim=-1)
        has_nan = bool(nan.any())
        low = byte.amin(dim=-1)
        if has_nan:
            valid = byte != 255
            byte = torch.where(valid, byte, torch.where(valid, byte, 999).amin(dim=-1, keepdim=True))
            byte = torch.where(byte == 999, 127, byte)
            low = byte.amin(dim=-1)
        high = byte.amax(dim=-1)
        safe = int(low.min()) >= _SAFE_EXPONENTS[0] and int(high.max()) <= _SAFE_EXPONENTS[1]
        if safe:
            values = values * _power_of_two(byte).unsqueeze(-1)
        return Decoded(values.flatten(3), byte, nan if has_nan else None, int((high - low).max()), safe)


def _accumulate(dots: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """``dots + c`` and where it is beyond the budget; the dots are exact and normal."""
    total = dots + c
    kept, error = two_sum(dots.double(), c.double())
    lost = (error != 0) | (kept != total.double()) | torch.isinf(total) | _subnormal(total) | _subnormal(c)
    return total, lost & torch.isfinite(c)


def _exact(
    left: Decoded, right: Decoded, c: Tensor | None, shape: tuple[int, int, int]
) -> tuple[Tensor, Tensor]:
    """Sums of four group dots (small integers times powers of two) and C, rounded once; where in doubt."""
    terms, exponents = [], []
    for group in range(4):
        span = slice(GROUP * group, GROUP * (group + 1))
        dot = _dots(_codes(left, span), _codes(right, span)).double()
        exponents.append(_outer(left.bytes[..., group], right.bytes[..., group]))
        scaled = torch.ldexp(*torch.broadcast_tensors(dot, exponents[-1] - 254))
        terms.append(_to_lanes(scaled, shape))
    stack = torch.stack(exponents)
    wide = _to_lanes((stack.amax(dim=0) - stack.amin(dim=0)) > EXACT_SPREAD, shape)
    dots, doubtful = _rounded(terms)
    doubtful = doubtful | wide
    if c is None:
        return dots, doubtful
    finite = torch.isfinite(c)
    out, lost = _rounded([*terms, torch.where(finite, c.double(), 0.0)])
    doubtful = doubtful | lost | _subnormal(c)
    return torch.where(finite, out, c), doubtful & (finite | torch.isinf(dots))


def _rounded(terms: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The sum rounded once, and where that was inexact, subnormal or beyond the largest number."""
    total, rest = distilled(terms)
    out = to_odd(total, rest).float()
    return out, (rest != 0) | (out.double() != total) | _subnormal(out)


def _subnormal(value: Tensor) -> Tensor:
    return (value != 0) & (value.abs() < 2.0**-126)


def _codes(operand: Decoded, span: slice) -> Tensor:
    """Unscaled values of one group ``(c, w, 16, 32)``."""
    if not operand.safe:
        return operand.values[..., span]
    group = span.start // GROUP
    return operand.values[..., span] / _power_of_two(operand.bytes[..., group]).unsqueeze(-1)


def _power_of_two(byte: Tensor) -> Tensor:
    """float32 ``2 ** (byte - 127)`` for bytes 1 to 254: the byte is the exponent field."""
    return (byte.to(torch.int32) << 23).contiguous().view(torch.float32)


def _dots(left: Tensor, right: Tensor) -> Tensor:
    """``(C, 16, W, 16)`` products of rows ``(c, w, 16, k)`` and columns ``(c, w, 16, k)``."""
    if left.shape[1] == 1:
        columns = right.flatten(1, 2)
        if left.shape[0] != columns.shape[0]:
            product = torch.matmul(left[:, 0], columns.transpose(1, 2))
        else:
            product = torch.bmm(left[:, 0], columns.transpose(1, 2))
        return product.view(product.shape[0], 16, right.shape[1], 16)
    return torch.matmul(left, right.transpose(2, 3)).transpose(1, 2)


def _outer(rows: Tensor, columns: Tensor) -> Tensor:
    """Combined exponents ``(C, 16, W, 16)`` of row bytes and column bytes ``(c, w, 16)``."""
    total = rows.unsqueeze(-1) + columns.unsqueeze(-2)
    return total.transpose(1, 2)


def _to_lanes(product: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """``(4, C, W, 64)`` from ``(C, 16, W, 16)``: row 4g + i, column c is element i of lane 16g + c."""
    c, _, w, _ = product.shape
    lanes = product.view(c, 4, 4, w, 16) if product.is_contiguous() else product.reshape(c, 4, 4, w, 16)
    return lanes.permute(2, 0, 3, 1, 4).reshape(4, c, w, 64)


def _nan_lines(left: Decoded, right: Decoded) -> Tensor | None:
    """Results whose row's or column's scale was 255, ``(4, c, w, 64)``; None where there is none."""
    found: Tensor | None = None
    if left.nan is not None:
        rows = left.nan.view(*left.nan.shape[:2], 4, 4).permute(3, 0, 1, 2)
        found = rows.repeat_interleave(16, dim=-1)
    if right.nan is not None:
        columns = right.nan.repeat(1, 1, 4)
        found = columns.expand(4, *columns.shape) if found is None else found | columns
    return found


@functools.cache
def _pair_table(device: torch.device) -> Tensor:
    """Four values of every 16-bit word of codes: float32 ``(65536, 4)``, low nibble first."""
    value = torch.tensor([*_MAGNITUDES, *(-m for m in _MAGNITUDES)], dtype=torch.float32, device=device)
    word = torch.arange(65536, device=device)
    return torch.stack([value[(word >> shift) & 15] for shift in (0, 4, 8, 12)], dim=1)
