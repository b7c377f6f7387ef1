"""Float32 numbers below the normal ones in the fused writers: kept, or flushed to zeros of their sign.

The specification says float32 and leaves open what becomes of a magnitude below 2^-126. aiter builds its
HIP kernels with ``-fgpu-flush-denormals-to-zero`` (``aiter/jit/core.py``), which clang turns into
"denormal-fp-math-f32"="preserve-sign,preserve-sign" and, for gfx950, into FLOAT_DENORM_MODE_32 = 0: subnormal
operands and results of float32 arithmetic become zeros of their sign. Without the flag the mode is 3, and
they are kept. A kernel is built in one mode, so its whole answer must be right in one of them.

Contract: `MODES` are the two; in either the compiler may round a product before it adds it, or not
(`FUSED`). In FP8 no code but a zero can differ, since no scale is below 2^-43: what flushing changes is the
sign of a zero, where zeros are added, and a folded weight that is itself subnormal. In FP4, whose scales go
down to 2^-126, codes differ as well. It fails silently when it opens more: without a magnitude between 0 and
2^-126 on the way, both modes have the same outcome.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oracles import normalise, prepare
from oracles.fma import fma32
from oracles.normalise import SLACK, UNIT, Range, ordered, toward, valued

MODES = ("kept", "flushed")
FUSED = ("none", "first", "second")
"""Which product of a sum of two is not rounded by itself."""
SMALLEST = 2.0**-126
"""The least normal float32."""
QUIET = 2.0**-112
"""Keys of at least this are multiples of 2^-119, so neither sums, mean nor differences are subnormal."""
LEAST_EPS = 2.0**-40
"""With this under the root, what is flushed among the squares is less than `normalise.SLACK` covers."""
STEPS = 5
"""Flushes of 2^-126 at most on the way to x - mean: x, the sum's terms and parts, mean, difference."""


def flush(x: Tensor) -> Tensor:
    """``x`` float32 or float64 [...] with zeros of its sign for magnitudes below 2^-126."""
    return torch.where(x.abs() < SMALLEST, torch.copysign(torch.zeros_like(x), x), x)


def in_mode(x: Tensor, mode: str) -> Tensor:
    """``x`` as arithmetic of ``mode`` takes and gives it. Raises ValueError on no member of `MODES`."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}, allowed are {', '.join(MODES)}")
    return flush(x) if mode == "flushed" else x


def rope(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, *, pairing: str, mode: str, fused: str
) -> Tensor:
    """`oracles.prepare.rope` with every step in ``mode``; ``fused`` is one of `FUSED`."""
    half = cos.shape[1]
    lead = (positions.numel(), *[1] * (x.dim() - 2), half)
    cosine, sine = (in_mode(table[positions].float().view(lead), mode) for table in (cos, sin))
    first, second = (in_mode(part, mode) for part in prepare.pairs(x[..., : 2 * half].float(), pairing))
    turned = (
        _sum(first, cosine, -second, sine, mode, fused),
        _sum(second, cosine, first, sine, mode, fused),
    )
    joined = torch.cat(turned, -1) if pairing == "neox" else torch.stack(turned, -1).flatten(-2)
    return torch.cat((joined.bfloat16(), x[..., 2 * half :]), -1)


def _sum(a: Tensor, b: Tensor, c: Tensor, d: Tensor, mode: str, fused: str) -> Tensor:
    """a * b + c * d, float32."""
    if fused == "none":
        return in_mode(in_mode(a * b, mode) + in_mode(c * d, mode), mode)
    if fused == "second":
        a, b, c, d = c, d, a, b
    return in_mode(fma32(a, b, in_mode(c * d, mode)), mode)


def fold_weights(weights: Tensor, q_scales: Tensor, weights_scale: float, *, mode: str) -> Tensor:
    """`oracles.eightbit.fold_weights` with every step in ``mode``, float32 [T, H]."""
    scale = in_mode(torch.tensor(weights_scale, dtype=torch.float32), mode)
    return in_mode(in_mode(in_mode(weights.float(), mode) * q_scales, mode) * scale, mode)


def layer_norm_range(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-6) -> Range:
    """`oracles.normalise.layer_norm_range` of (x - mean) * root * weight + bias, subnormals flushed.

    Raises ValueError as that does, and for an ``eps`` below 2^-40.
    """
    if eps < LEAST_EPS:
        raise ValueError(f"eps is {eps}, allowed is 2^-40 and more where subnormals are flushed")
    kept = normalise.layer_norm_range(x, weight, bias, eps=eps)
    wide = x.double().nan_to_num(0.0, 0.0, 0.0)
    quiet = ((wide != 0) & (wide.abs() < QUIET)).any(-1, keepdim=True)
    normal = _normal(wide, quiet, eps)
    touched = quiet | _subnormal(*normal)
    factor, shift = (flush(end.double()) for end in (weight, bias))
    products = _product(flush(normal[0]), flush(normal[1]), factor)
    touched = touched | _subnormal(*products) | (factor != weight) | (shift != bias)
    low, high = [], []
    for first, last in (tuple(flush(end) for end in products), products):  # not fused, fused
        total = _wider(first + shift, -1), _wider(last + shift, 1)
        touched = touched | _subnormal(*total)
        low.append(ordered(toward(flush(total[0]), -torch.inf).bfloat16()))
        high.append(ordered(toward(flush(total[1]), torch.inf).bfloat16()))
    ends = valued(torch.minimum(*low)), valued(torch.maximum(*high))
    untouched = ~touched | kept.low.isnan()
    return Range(
        *(torch.where(untouched, own, end) for own, end in zip((kept.low, kept.high), ends, strict=True))
    )


def _normal(wide: Tensor, quiet: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(lowest, highest) (x - mean) * root before it is flushed, float64 [R, D]."""
    centred, off = normalise.centred_range(wide)
    off = off + torch.where(quiet, STEPS * SMALLEST, 0.0)
    root, root_off = normalise.root_range(centred, off, eps)
    least = (centred.abs() - off).clamp(min=0) * (root - root_off) * (1 - UNIT) / SLACK
    most = (centred.abs() + off) * (root + root_off) * (1 + UNIT) * SLACK
    minus, across = centred < 0, centred.abs() <= off
    low = torch.where(across, -most, torch.where(minus, -most, least))
    high = torch.where(across, most, torch.where(minus, -least, most))
    zero = most == 0
    return torch.where(zero, centred, low), torch.where(zero, centred, high)


def _product(low: Tensor, high: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """(lowest, highest) of a product rounded once, with the signs that zeros get."""
    turned = factor.signbit()
    first, last = torch.where(turned, high, low) * factor, torch.where(turned, low, high) * factor
    return _wider(first, -1), _wider(last, 1)


def _wider(value: Tensor, side: int) -> Tensor:
    """``value`` float64, as far to the ``side`` as one rounding may take it; zeros keep their sign."""
    return torch.where(value == 0, value, value + side * value.abs() * UNIT * SLACK)


def _subnormal(low: Tensor, high: Tensor) -> Tensor:
    """Whether an interval has a magnitude above zero and below 2^-126."""
    return (low < SMALLEST) & (high > -SMALLEST) & ((low != 0) | (high != 0))


def rope_range(values: Range, cos: Tensor, sin: Tensor, positions: Tensor, *, pairing: str) -> Range:
    """`oracles.normalise.rope_range` where subnormals are flushed, however products are fused."""
    half = cos.shape[1]
    column = torch.arange(values.low.shape[-1])
    leads = column < half if pairing == "neox" else column % 2 == 0
    corners = [
        ordered(rope(x, cos, sin, positions, pairing=pairing, mode="flushed", fused=fused))
        for x in (
            torch.where(leads, first, second)
            for first in (values.low, values.high)
            for second in (values.low, values.high)
        )
        for fused in FUSED
    ]
    made = torch.stack(corners)
    return Range(valued(made.amin(0)), valued(made.amax(0)))
