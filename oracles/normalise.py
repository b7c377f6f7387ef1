"""What a float32 LayerNorm can come to in any order of summation, and what follows from that.

Contract: ``mean = sum(x)/D``, ``variance = sum((x - mean)^2)/D``, ``(x - mean) * root * weight + bias`` in
float32, every operation rounded at most once, sums in any order, products fused or not, the reciprocal
root within `ROOT_ULPS`; then rounded to bfloat16. Each result has a lowest and a highest value; where the
two are the same bits every such evaluation gives them, and elsewhere anything between them is right. The
range is carried through the rotation and the quantiser. It fails silently when a bound is too wide: all
bytes are then right, which is why the number of bytes with more than one right value is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.fma import two_sum
from oracles.formats import E2M1, E8M0_BIAS, E8M0_NAN, GROUP, QuantRule, encode, power_of_two, scale_byte
from oracles.prepare import rope

UNIT = 2.0**-24
"""Half an ulp of float32, relative."""
TINY = 2.0**-149
"""The least float32: what a rounding can be off by where numbers are subnormal."""
ROOT_ULPS = 2
"""Ulps that a device's reciprocal root may be off: CUDA documents 2, gfx950's v_rsq_f32 1."""
SLACK = 1 + 2.0**-20
"""Covers the float64 roundings of the bound itself, each 2^-29 of the float32 one it stands beside."""
LARGEST = 2.0**62
"""Keys whose squares stay inside float32."""


@dataclass(frozen=True)
class Range:
    """Lowest and highest right value of each element, bfloat16 [..., D]; NaN in both where it must be NaN."""

    low: Tensor
    high: Tensor

    @property
    def open(self) -> Tensor:
        """Elements with more than one right value, bool [..., D]."""
        return self.low.view(torch.int16) != self.high.view(torch.int16)


def layer_norm_range(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-6) -> Range:
    """LayerNorm over the last axis of ``x`` bfloat16 [R, D]; weight, bias float32 [D].

    A row with a NaN or an infinity is NaN throughout. Raises ValueError for a finite magnitude past 2^62.
    """
    wide = x.double()
    lost = ~wide.isfinite().all(-1)
    wide = wide.masked_fill(lost[:, None], 0.0)
    if bool((wide.abs() > LARGEST).any()):
        raise ValueError("x has a magnitude above 2^62, allowed are keys whose squares stay inside float32")
    centred, centred_off = centred_range(wide)
    root, root_off = root_range(centred, centred_off, eps)
    scaled = centred * root * weight.double()
    most = (centred.abs() + centred_off) * (root + root_off) * weight.double().abs() * (1 + UNIT) ** 2
    scaled_off = torch.where(most == 0, 0.0, most - scaled.abs() + TINY * (1 + weight.double().abs()))
    value = scaled + bias.double()
    settled = (scaled_off == 0) & (value == value.float())
    off = torch.where(settled, 0.0, scaled_off + UNIT * (value.abs() + scaled_off)) * SLACK
    low, high = toward(value - off, -torch.inf), toward(value + off, torch.inf)
    return Range(*(end.bfloat16().masked_fill(lost[:, None], torch.nan) for end in (low, high)))


def centred_range(x: Tensor) -> tuple[Tensor, Tensor]:
    """(x - mean, how far a float32 evaluation can be off) float64 [R, D]."""
    count = x.shape[-1]
    total_off = torch.where(_sums_exactly(x), 0.0, _gamma(count) * x.abs().sum(-1, keepdim=True))
    mean = x.sum(-1, keepdim=True) / count
    mean_off = total_off / count + torch.where(mean == mean.float(), 0.0, UNIT * mean.abs() + TINY)
    centred, error = two_sum(x, -mean.expand_as(x))
    exact = (mean_off == 0) & (error == 0) & (centred == centred.float())
    off = mean_off + torch.where(exact, 0.0, UNIT * (centred.abs() + mean_off) + TINY)
    return centred, off


def root_range(centred: Tensor, off: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(1 / sqrt(variance + eps), how far it can be off) float64 [R, 1]."""
    count = centred.shape[-1]
    squares = centred.square()
    exact = (off == 0) & (squares == squares.float())
    square_off = 2 * centred.abs() * off + off.square()
    square_off += torch.where(exact, 0.0, UNIT * (centred.abs() + off).square() + TINY)
    total, total_off = squares.sum(-1, keepdim=True), square_off.sum(-1, keepdim=True)
    plain = (total_off == 0) & _sums_exactly(squares)
    total_off = torch.where(plain, 0.0, total_off + _gamma(count) * (total + total_off))
    floor = float(torch.tensor(eps, dtype=torch.float32))
    under = total / count + floor
    under_off = total_off / count + TINY + UNIT * (under + total_off / count)
    root = under.rsqrt()
    worst = (1 - under_off / under).rsqrt() * (1 + ROOT_ULPS * 2 * UNIT)
    return root, root * (worst - 1)


def _gamma(count: int) -> float:
    """Relative bound of a sum of ``count`` terms in any order."""
    return (count - 1) * UNIT / (1 - (count - 1) * UNIT)


def _sums_exactly(terms: Tensor) -> Tensor:
    """bool [R, 1]: whether every partial sum of ``terms`` float64 [R, D] is a float32, in any order.

    All terms are multiples of the last bit of the smallest one's float32, and together at most 2^24 of it.
    """
    size = terms.abs()
    last = torch.where(size == 0, torch.inf, _last_bit(terms)).amin(-1, keepdim=True)
    return (size.sum(-1, keepdim=True) <= last * 2.0**24) | (size.sum(-1, keepdim=True) == 0)


def _last_bit(value: Tensor) -> Tensor:
    """The lowest set bit's worth of float64 ``value`` (finite), as float64; of zero something finite."""
    mantissa, exponent = torch.frexp(value)
    whole = (mantissa.abs() * 2.0**53).to(torch.int64)
    low = whole & -whole
    return low.double() * power_of_two(exponent.long() - 53)


def toward(value: Tensor, side: float) -> Tensor:
    """float32 nearest to ``value`` float64 on the ``side`` (an infinity) of it."""
    near = value.float()
    past = near > value if side < 0 else near < value
    return torch.where(past, torch.nextafter(near, torch.tensor(side)), near)


def ordered(values: Tensor) -> Tensor:
    """Whole numbers (int32) in the order of bfloat16 ``values``, -0 just below 0, NaNs outermost."""
    bits = values.view(torch.int16).int()
    return torch.where(bits < 0, -1 - (bits & 0x7FFF), bits)


def valued(order: Tensor) -> Tensor:
    """Inverse of `ordered`."""
    bits = torch.where(order < 0, (-1 - order) - (1 << 15), order)
    return bits.to(torch.int16).view(torch.bfloat16)


def rope_range(values: Range, cos: Tensor, sin: Tensor, positions: Tensor, *, pairing: str) -> Range:
    """`oracles.prepare.rope` of any right values: its ends lie at the ends of both partners."""
    half = cos.shape[1]
    column = torch.arange(values.low.shape[-1])
    leads = column < half if pairing == "neox" else column % 2 == 0
    corners = [
        ordered(rope(torch.where(leads, first, second), cos, sin, positions, pairing=pairing))
        for first in (values.low, values.high)
        for second in (values.low, values.high)
    ]
    made = torch.stack(corners)
    return Range(valued(made.amin(0)), valued(made.amax(0)))


def scale_range(values: Range, rule: QuantRule, *, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """Lowest and highest right scale byte, uint8 [..., D/group]; NaNs take no part in a group's maximum."""
    low, high = (end.float().nan_to_num(0.0, torch.inf, -torch.inf) for end in (values.low, values.high))
    across = (low < 0) & (high > 0)
    least = torch.minimum(low.abs(), high.abs()).masked_fill(across, 0.0)
    most = torch.maximum(low.abs(), high.abs())
    ends = (end.unflatten(-1, (-1, group)).amax(-1) for end in (least, most))
    first, last = (scale_byte(end, rule) for end in ends)
    return first, last


def code_range(
    values: Range, scales: Tensor, rule: QuantRule, *, group: int = GROUP
) -> tuple[Tensor, Tensor]:
    """Codes uint8 [..., D] of both ends under ``scales`` uint8 [..., D/group]; 0 where there is no number."""
    power = power_of_two(E8M0_BIAS - scales.long()).masked_fill(scales == E8M0_NAN, 0.0)
    inverse = power.repeat_interleave(group, dim=-1)
    first, last = (
        encode(E2M1, end.double().nan_to_num(0.0, 2.0**200, -(2.0**200)) * inverse, ties=rule.ties)
        for end in (values.low, values.high)
    )
    return first, last


def code_order(codes: Tensor) -> Tensor:
    """Whole numbers (int64) in the order of E2M1 values, -0 just below 0."""
    code = codes.long()
    return torch.where(code >= E2M1.sign, E2M1.sign - 1 - code, code)
