"""The FP8 indexer's quantiser: one scale for a vector of 128, and the weights it is folded into.

Contract (spec indexer.md 1 and 2): raised = max(amax, floor); scale = raised / top, or raised times
fl32(1 / top), or that rounded up to a power of two; code = E4M3(fl32(x * fl32(1 / scale))), half to
even. Every step is a float32 operation, and which ones are taken is a field of `ScaleRule`: queries
multiply by the reciprocal and raise to 1e-10, keys divide and raise to 1e-4. It fails silently when
one format's bytes are read as the other's: E4M3FN is worth twice E4M3FNUZ, code for code, so every
score is four times too large and their order is right.

Rounding up to a power of two is exact here; production takes exp2(ceil(log2(scale))) in float32, which
returns the same unless scale lies within three units in the last place above a power of two. With
bfloat16 input none does but a power of two itself (a test goes over all of them).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.formats import E4M3FN, E4M3FNUZ, FloatFormat, decode, encode

__all__ = [
    "FORMATS",
    "KEY",
    "QUERY",
    "ScaleRule",
    "fold_weights",
    "quantise",
    "quantise_queries",
    "scale_of",
    "top_of",
]

FORMATS = {"fn": E4M3FN, "fnuz": E4M3FNUZ}
"""fn on gfx950, fnuz on gfx942."""
STEPS = ("divide", "reciprocal")
VECTOR = 128
"""Values that share one scale."""


@dataclass(frozen=True)
class ScaleRule:
    """``floor``: amax is raised to it (as float32); ``step``: how it is divided by the format's top."""

    floor: float
    step: str

    def __post_init__(self) -> None:
        if self.step not in STEPS:
            raise ValueError(f"step is {self.step!r}, allowed are {', '.join(STEPS)}")


QUERY = ScaleRule(floor=1e-10, step="reciprocal")
KEY = ScaleRule(floor=1e-4, step="divide")


def top_of(fmt: FloatFormat) -> float:
    """Largest finite magnitude: 448 for E4M3FN, 240 for E4M3FNUZ."""
    return float(decode(fmt, torch.tensor([fmt.top], dtype=torch.uint8)))


def scale_of(amax: Tensor, fmt: FloatFormat, rule: ScaleRule, *, power_of_two: bool) -> Tensor:
    """Scales float32 [...] of vectors whose largest magnitude is ``amax`` float32 [...]."""
    raised = torch.maximum(amax.float(), torch.tensor(rule.floor, dtype=torch.float32))
    top = torch.tensor(top_of(fmt), dtype=torch.float32)
    scale = raised / top if rule.step == "divide" else raised * (1.0 / top)
    return _power_above(scale) if power_of_two else scale


def _power_above(scale: Tensor) -> Tensor:
    """Smallest power of two >= ``scale`` float32 [...]."""
    mantissa, exponent = torch.frexp(scale.double())  # mantissa in [0.5, 1)
    return torch.ldexp(torch.ones_like(mantissa), exponent - (mantissa == 0.5).int()).float()


def quantise(
    x: Tensor, fmt: FloatFormat, rule: ScaleRule, *, power_of_two: bool, ties: str = "even"
) -> tuple[Tensor, Tensor]:
    """Codes uint8 [..., D] and scales float32 [...] of ``x`` float32 or bfloat16 [..., D].

    Raises ValueError for a NaN or an infinity, of which the specification says nothing.
    """
    wide = x.float()
    if not bool(wide.isfinite().all()):
        raise ValueError("x has a NaN or an infinity, allowed are finite numbers")
    scale = scale_of(wide.abs().amax(-1), fmt, rule, power_of_two=power_of_two)
    return encode(fmt, wide * (1.0 / scale).unsqueeze(-1), ties=ties), scale


def fold_weights(weights: Tensor, q_scales: Tensor, weights_scale: float) -> Tensor:
    """Head weights float32 [T, H]: fl32(fl32(w * q_scale) * weights_scale), w bfloat16 [T, H]."""
    return weights.float() * q_scales * torch.tensor(weights_scale, dtype=torch.float32)


def quantise_queries(
    q: Tensor, weights: Tensor, weights_scale: float, fmt: FloatFormat, *, power_of_two: bool
) -> tuple[Tensor, Tensor]:
    """Codes uint8 [T, H, D] of ``q`` bfloat16 [T, H, D], and the weights with the query scale in them."""
    codes, scales = quantise(q, fmt, QUERY, power_of_two=power_of_two)
    return codes, fold_weights(weights, scales, weights_scale)
