"""Codes and scales of turned rows in groups, FP4 or FP8, and the buffers of the V4 kernels that hold them.

Contract: values come as intervals (`oracles.rotate`); of codes and scales found, those inside are right and
the lowest right ones stand for the others. FP4 has the production rule (`formats.PRODUCTION`), codes packed
low nibble first and one E8M0 byte a group, row after row, or shuffled: scales as `layout.write_query_scales`
has them, key pages as `layout.write_keys` has them. FP8 codes are E4M3FN with the float32 scale
fl32(1/448) * max(amax, 1e-10) a group. It fails silently when values are compared instead of bytes: a scale
one step off with codes doubled looks almost right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from oracles import eightbit, layout, normalise
from oracles.eightbit import ScaleRule
from oracles.eightbit_subnormals import in_mode
from oracles.eightbit_writer import code_order
from oracles.formats import E4M3FN, PRODUCTION, QuantRule, encode
from oracles.normalise import Range


@dataclass(frozen=True)
class Settled:
    """Right codes uint8 [..., D] and scales [..., D/group], as near as can be to those found.

    ``open_bytes``: codes and scales that have more than one right value.
    """

    codes: Tensor
    scales: Tensor
    open_bytes: int


@dataclass(frozen=True)
class Rule:
    """``to``: fp4 or fp8; ``group``: columns that share a scale."""

    to: str
    group: int
    four: QuantRule = PRODUCTION
    eight: ScaleRule = field(default=eightbit.QUERY)


def settle(rule: Rule, values: Range, codes: Tensor, scales: Tensor, *, mode: str = "kept") -> Settled:
    """The right codes and scales nearest to ``codes`` uint8 [..., D] and ``scales`` [..., D/group]."""
    made = _four if rule.to == "fp4" else _eight
    return made(rule, values, codes, scales, mode)


def quantise(rule: Rule, values: Range) -> Settled:
    """Right codes and scales; where there are several, zero or the lowest."""
    scales = torch.zeros_like(values.low.unflatten(-1, (-1, rule.group))[..., 0])
    codes = torch.zeros_like(values.low, dtype=torch.uint8)
    return settle(rule, values, codes, scales.to(torch.uint8) if rule.to == "fp4" else scales)


def _four(rule: Rule, values: Range, codes: Tensor, scales: Tensor, mode: str) -> Settled:
    first, last = normalise.scale_range(values, rule.four, group=rule.group)
    right = torch.where((scales >= first) & (scales <= last), scales, first)
    bottom, top = normalise.code_range(values, right, rule.four, group=rule.group)
    order = normalise.code_order(codes)
    inside = (order >= normalise.code_order(bottom)) & (order <= normalise.code_order(top))
    several = int((bottom != top).sum()) + int((first != last).sum())
    return Settled(torch.where(inside, codes, bottom), right, several)


def _eight(rule: Rule, values: Range, codes: Tensor, scales: Tensor, mode: str) -> Settled:
    low, high = (end.unflatten(-1, (-1, rule.group)) for end in (values.low, values.high))
    across = (low < 0) & (high > 0)
    least = torch.minimum(low.abs(), high.abs()).masked_fill(across, 0.0).amax(-1)
    most = torch.maximum(low.abs(), high.abs()).amax(-1)
    first, last = (eightbit.scale_of(end, E4M3FN, rule.eight, power_of_two=False) for end in (least, most))
    right = torch.where((scales >= first) & (scales <= last), scales, first)
    inverse = (1.0 / right).unsqueeze(-1)
    bottom, top = (
        encode(E4M3FN, in_mode(in_mode(end, mode) * inverse, mode), ties="even").flatten(-2)
        for end in (low, high)
    )
    order = code_order(codes)
    inside = (order >= code_order(bottom)) & (order <= code_order(top))
    several = int((bottom != top).sum()) + int((first != last).sum())
    return Settled(torch.where(inside, codes, bottom), right, several)


def query_scales(scales: Tensor, *, shuffled: bool) -> Tensor:
    """The buffer of ``scales`` [T, H, G]: uint8 [T, G/4, 4, 16, pad4(H/16)] shuffled, else [T * H, G]."""
    return layout.write_query_scales(scales) if shuffled else scales.flatten(0, 1)


def read_query_scales(held: Tensor, heads: int, *, shuffled: bool) -> Tensor:
    """Inverse of `query_scales`."""
    if shuffled:
        return layout.read_query_scales(held, heads)
    return held.unflatten(0, (-1, heads))


def write_keys(
    k_codes: Tensor,
    k_scales: Tensor,
    codes: Tensor,
    scales: Tensor,
    slots: Tensor,
    *,
    shuffled: bool,
    bend: bool = True,
) -> None:
    """Rows ``codes`` uint8 [R, D], ``scales`` uint8 [R, G] into their ``slots`` int64 [R], negative: skip.

    Planes are [blocks, K, 4, page, 16] and [blocks, K, 4, page] shuffled, else [slots, D/2] and [slots, G].
    """
    if shuffled:
        layout.write_keys(k_codes, k_scales, codes, scales, slots, bend=bend)
        return
    kept = slots >= 0
    k_codes[slots[kept]] = layout.pack_nibbles(codes[kept])
    k_scales[slots[kept]] = scales[kept]


def read_keys(k_codes: Tensor, k_scales: Tensor, slots: Tensor, *, shuffled: bool) -> tuple[Tensor, Tensor]:
    """(codes uint8 [R, D], scales uint8 [R, G]) at ``slots`` int64 [R], all of them in the planes."""
    if not shuffled:
        return layout.unpack_nibbles(k_codes[slots]), k_scales[slots]
    page = k_codes.shape[3]
    block, row = slots // page, slots % page
    codes = layout.unpack_nibbles(k_codes[block, :, :, row, :].flatten(1))
    return codes, k_scales[block, :, :, layout.bent_row(row, page_rows=page)].flatten(1)
