"""Opcodes on the bits of integers, on float classes and on whole floats, beyond those of `operations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.emulator.lanes import Value, dtype_of, tensor
from harness.emulator.operations import Evaluate, Site
from harness.emulator.program import UnsupportedOperation


def _wide(site: Site, value: Value, place: int = 0) -> Tensor:
    """int64 lanes, unsigned for fewer than 64 bits."""
    kind = site.operands[place]
    held = tensor(value, kind, site.device).long()
    return held if kind.bits == 64 else held & ((1 << kind.bits) - 1)


def _narrow(site: Site, value: Tensor) -> Tensor:
    return value.to(dtype_of(site.result))


def count_ones(site: Site, a: Value) -> Tensor:
    return _narrow(site, _population(_wide(site, a)))


def _population(x: Tensor) -> Tensor:
    """Set bits of int64 lanes, by adding neighbours (Warren, Hacker's Delight, 5-1)."""
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56 & 0x7F


def leading_zeros(site: Site, a: Value) -> Tensor:
    x, bits = _wide(site, a), site.operands[0].bits
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            shifted = x >> step
            x = x | (shifted & ((1 << (64 - step)) - 1))
    return _narrow(site, bits - _population(x))


def trailing_zeros(site: Site, a: Value) -> Tensor:
    x, bits = _wide(site, a), site.operands[0].bits
    found = _population((x & -x) - 1)
    return _narrow(site, torch.where(x == 0, torch.full_like(found, bits), found))


def swap_bytes(site: Site, a: Value) -> Tensor:
    x, count = _wide(site, a), site.operands[0].bits // 8
    total = torch.zeros_like(x)
    for byte in range(count):
        total |= ((x >> 8 * byte) & 0xFF) << 8 * (count - 1 - byte)
    return _narrow(site, total)


def reverse_bits(site: Site, a: Value) -> Tensor:
    x, count = _wide(site, a), site.operands[0].bits
    total = torch.zeros_like(x)
    for bit in range(count):
        total |= ((x >> bit) & 1) << (count - 1 - bit)
    return _narrow(site, total)


def _saturated(combine: Callable[[Tensor, Tensor], Tensor]) -> Evaluate:
    def evaluate(site: Site, a: Value, b: Value) -> Tensor:
        bits = site.operands[0].bits
        if bits > 32:
            raise UnsupportedOperation(f"{site.op.code} of {bits} bits", site.op.location)
        return _narrow(site, combine(_wide(site, a), _wide(site, b, 1)).clamp(0, (1 << bits) - 1))

    return evaluate


def _funnel(left: bool) -> Evaluate:
    def evaluate(site: Site, a: Value, b: Value, c: Value) -> Tensor:
        bits = site.operands[0].bits
        if bits > 32:
            raise UnsupportedOperation(f"funnel shift of {bits} bits", site.op.location)
        step = _wide(site, c, 2) % bits
        # Two halves of at most 32 bits are one int64 whose bits are all that count.
        pair = (_wide(site, a) << bits) | _wide(site, b, 1)
        logical = (pair >> step) & torch.where(step == 0, -1, (1 << (64 - step)) - 1)
        return _narrow(site, (pair << step) >> bits if left else logical)

    return evaluate


def permute_bytes(site: Site, a: Value, b: Value, c: Value) -> Tensor:
    """``v_perm_b32``: selector bytes 0-3 take bytes of b, 4-7 of a, 12 is 0x00, above 12 is 0xFF.

    8 to 11 give the sign of a half-word (CDNA3 ISA, V_PERM_B32).
    """
    high, low, selector = (_wide(site, value, place) for place, value in enumerate((a, b, c)))
    pair = (high << 32) | low
    total = torch.zeros_like(pair + selector)
    for byte in range(4):
        chosen = (selector >> 8 * byte) & 0xFF
        taken = (pair >> 8 * chosen.clamp(max=7)) & 0xFF
        sign = ((pair >> (16 * (chosen.clamp(8, 11) - 8) + 15)) & 1) * 0xFF
        taken = torch.where(chosen >= 8, sign, taken)
        taken = torch.where(chosen >= 12, torch.where(chosen == 12, 0, 0xFF), taken)
        total = total | (taken << 8 * byte)
    return _narrow(site, total)


def float_to_uint(site: Site, a: Value) -> Tensor:
    bits = site.result.bits
    wide = torch.nan_to_num(a.double(), nan=0.0).trunc().clamp(min=0.0)
    top = float(2**bits)
    if bits == 64:
        raise UnsupportedOperation("conversion to unsigned 64 bits", site.op.location)
    inside = torch.where(wide < top, wide, torch.zeros_like(wide)).long()
    return _narrow(site, torch.where(wide >= top, (1 << bits) - 1, inside))


def median(site: Site, a: Value, b: Value, c: Value) -> Tensor:
    """``v_med3_f32``; with a NaN among the three, the smallest of the rest (CDNA3 ISA)."""
    a, b, c = torch.broadcast_tensors(a, b, c)
    triple = torch.stack((a, b, c))
    middle = triple.sort(dim=0).values[1]
    smallest = torch.fmin(torch.fmin(a, b), c)
    return torch.where(torch.isnan(triple).any(dim=0), smallest, middle)


CLASSES: tuple[tuple[int, Callable[[Tensor], Tensor]], ...] = (
    (0x003, torch.isnan),
    (0x004, torch.isneginf),
    (0x200, torch.isposinf),
    (0x060, lambda x: x == 0),
)


def classify(site: Site, a: Value) -> Tensor:
    """``llvm.is.fpclass`` for whole classes of NaN, infinities and zero."""
    wanted, found = site.op.attrs["classes"], torch.zeros(a.shape, dtype=torch.bool, device=a.device)
    for bits, test in CLASSES:
        if wanted & bits == bits:
            found, wanted = found | test(a), wanted & ~bits
    if wanted:
        raise UnsupportedOperation(f"float classes {wanted:#x}", site.op.location)
    return found


def _whole(function: Callable[[Any], Any]) -> Evaluate:
    return lambda site, a: function(a)


BITS: dict[str, Evaluate] = {
    "count_ones": count_ones,
    "leading_zeros": leading_zeros,
    "trailing_zeros": trailing_zeros,
    "swap_bytes": swap_bytes,
    "reverse_bits": reverse_bits,
    "usub_saturate": _saturated(torch.sub),
    "uadd_saturate": _saturated(torch.add),
    "funnel_left": _funnel(True),
    "funnel_right": _funnel(False),
    "permute_bytes": permute_bytes,
    "float_to_uint": float_to_uint,
    "floor": _whole(torch.floor),
    "ceil": _whole(torch.ceil),
    "round_to_zero": _whole(torch.trunc),
    "round_to_even": _whole(torch.round),
    "copysign": lambda site, a, b: torch.copysign(a, b),
    "fmedian": median,
    "fclass": classify,
}
