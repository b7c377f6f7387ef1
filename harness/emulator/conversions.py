"""Conversion instructions: float32 to and from E2M1 codes under a scale, E4M3 and E5M2 codes."""

from __future__ import annotations

import torch
from torch import Tensor

_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Midpoints of the E2M1 magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6."""


def to_fp4(value: Tensor) -> Tensor:
    """int32 E2M1 codes of float32 values: nearest, ties to the even code, saturating at 6; NaN gives 7."""
    magnitude = value.abs()
    code = torch.zeros_like(value, dtype=torch.int32)
    for index, midpoint in enumerate(_MIDPOINTS):
        above = magnitude >= midpoint if index % 2 else magnitude > midpoint
        code += above.to(torch.int32)
    code = torch.where(torch.isnan(value), torch.full_like(code, 7), code)
    return code | (torch.signbit(value).to(torch.int32) << 3)


def scaled_pair_to_fp4(old: Tensor, low: Tensor, high: Tensor, scale: Tensor, select: int) -> Tensor:
    """``v_cvt_scalef32_pk_fp4_f32``: byte ``select`` of ``old`` becomes the codes of low/scale, high/scale.

    The instruction uses only the scale's exponent field: a float32 ``2 ** (e - 127)``.
    """
    exponent = (scale.contiguous().view(torch.int32) >> 23) & 0xFF
    pairs = (torch.broadcast_tensors(value.double(), 127 - exponent) for value in (low, high))
    codes = [to_fp4(torch.ldexp(value, power)) for value, power in pairs]
    byte = codes[0] | (codes[1] << 4)
    keep = ~(0xFF << (8 * select))
    return (old & keep) | (byte << (8 * select))


EIGHT = {
    "fp8": torch.float8_e4m3fn,
    "bf8": torch.float8_e5m2,
    "fp8_fnuz": torch.float8_e4m3fnuz,
    "bf8_fnuz": torch.float8_e5m2fnuz,
}
"""Eight-bit formats: OCP's, without (fp8) and with (bf8) infinities, and those with one NaN and one zero."""


def pair_to_fp8(old: Tensor, low: Tensor, high: Tensor, select: int, name: str) -> Tensor:
    """``v_cvt_pk_fp8_f32``: half ``select`` of ``old`` becomes the codes of ``low`` and ``high``.

    Nearest, ties to even; beyond the largest number NaN (infinity in bf8), as the instruction does while
    the mode's overflow bit is clear. Nothing that is translated sets that bit.
    """
    low, high, old = torch.broadcast_tensors(low, high, old)
    codes = [_to_fp8(value, name) for value in (low, high)]
    half = (codes[0] | codes[1] << 8) << 16 * select
    return (old & ~(0xFFFF << 16 * select)) | half


def _to_fp8(value: Tensor, name: str) -> Tensor:
    code = value.to(EIGHT[name]).view(torch.uint8).int()
    if name != "fp8":
        return code
    # torch saturates. 464 lies midway between 448 and what would be 480, and goes to the even code.
    beyond = (value.abs() > 464.0) | torch.isnan(value)
    return torch.where(beyond, torch.signbit(value).int() << 7 | 0x7F, code)


def from_fp8(value: Tensor, select: int, name: str) -> Tensor:
    """float32 of byte ``select`` of a dword."""
    code = (value >> 8 * select & 0xFF).to(torch.uint8)
    return code.view(EIGHT[name]).float()
