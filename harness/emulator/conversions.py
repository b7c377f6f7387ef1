"""Conversion instructions: float32 to E2M1 codes under a scale."""

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
