"""FP8 indexer scores: exact with a proof for every cell, and bounded where there is none.

score[r, t] = sum_h w[r, h] * maximum(q[r, h] . k[t], 0) * k_scale[t], float32, the query's scale and
the weight scale being in w already (spec indexer.md 1, 2). Subjects multiply by k_scale before the sum
over heads or after it, and each adds in an order of its own, so no order is declared here.

A cell is proven when every order and either place of k_scale gives the same bits:
- dots: products of two E4M3 values are exact; a dot whose magnitudes sum to less than 2^24 times a
  unit that divides each product has no partial sum that float32 cannot hold.
- heads: the same for the terms w * relu * odd(k_scale), odd being k_scale without its power of two;
  and every unit on the way is a normal float32.
- zeros: a score of zero is +0 if a head with a positive weight has a product that is not zero.
Else |got - exact| <= gamma_n * sum |terms|, n the longest chain of roundings (numerics.md). It fails
silently when it proves too much: two right kernels would then be called different.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.formats import FloatFormat, decode
from oracles.operands import NOWHERE
from oracles.proof import BITS, HIGHEST_BIT, last_bits
from oracles.score import SMALLEST, UNIT_ROUNDOFF, WIDE_ROUNDOFF

LOWEST = -126
MARGIN = 1 + 2.0**-40
"""Covers what float64 loses in a sum of magnitudes, so that a proof never rests on it."""
TRUNCATING = 2.0**-23
"""Round-off of an adder that truncates at 24 bits, as public models of CDNA3's FP8 instruction do."""


@dataclass(frozen=True)
class Operands:
    """q_codes uint8 [T, H, D], weights float32 [T, H]; k_codes uint8 [L, D], k_scales float32 [L]."""

    q_codes: Tensor
    weights: Tensor
    k_codes: Tensor
    k_scales: Tensor
    fmt: FloatFormat


@dataclass(frozen=True)
class Scores:
    """value float32 [T, L], exact where proven bool [T, L]; exact and allowed float64 [T, L]."""

    value: Tensor
    proven: Tensor
    exact: Tensor
    allowed: Tensor


def scores(operands: Operands, *, roundoff: float = UNIT_ROUNDOFF) -> Scores:
    """Scores of every row against every key. NaN codes give NaN, unproven."""
    keys = decode(operands.fmt, operands.k_codes).double()  # [L, D]
    key_bits = lowest_bits(operands.k_codes, operands.fmt)
    found = [
        _row(q, w, keys, key_bits, operands.k_scales, operands.fmt, roundoff)
        for q, w in zip(operands.q_codes, operands.weights, strict=True)
    ]
    parts = [torch.stack([row[part] for row in found]) for part in range(4)]
    return Scores(*parts)


def _row(
    q_codes: Tensor,
    weights: Tensor,
    keys: Tensor,
    key_bits: Tensor,
    k_scales: Tensor,
    fmt: FloatFormat,
    roundoff: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(value, proven, exact, allowed) [L] of one row of H heads."""
    queries = decode(fmt, q_codes).double()  # [H, D]
    dots = queries @ keys.T  # [H, L]: 43 bits at most, exact in float64
    sizes = queries.abs() @ keys.abs().T
    bits = lowest_bits(q_codes, fmt)[:, None] + key_bits  # [H, L], exponent of a unit of each product
    whole = sizes < power(bits + BITS)  # any order of the dot is exact; true where all is zero
    wide, scales = weights.double()[:, None], k_scales.double()
    relu = dots.clamp(min=0)
    exact = (wide * relu).sum(0) * scales
    proven = _proven(whole, bits, relu, sizes, weights, k_scales, exact)
    value = torch.where(exact == 0, torch.zeros_like(exact), exact).float()
    chain = torch.where(whole.all(0), 0, keys.shape[1]) + len(weights) + 2
    share = _gamma(chain, roundoff) + _gamma(torch.tensor(len(weights) + 2), WIDE_ROUNDOFF)
    terms = (wide.abs() * sizes).sum(0) * scales.abs()
    flushed = (wide.abs().sum() + len(weights)) * (scales.abs() + 1) * (keys.shape[1] + 1)
    return value, proven, exact, share * terms + SMALLEST * flushed


def _proven(
    whole: Tensor,
    bits: Tensor,
    relu: Tensor,
    sizes: Tensor,
    weights: Tensor,
    k_scales: Tensor,
    exact: Tensor,
) -> Tensor:
    """bool [L]: see the module. whole, bits, relu, sizes are [H, L], weights [H], k_scales [L]."""
    heavy = weights != 0
    sound = k_scales.isfinite() & (k_scales > 0) & weights.isfinite().all() & exact.isfinite()
    steps = last_bits(torch.nan_to_num(weights, posinf=0.0, neginf=0.0)).int()[:, None]
    shift = last_bits(torch.where(sound, k_scales, 1.0)).int()  # [L]
    unit = (bits + steps).masked_fill(~heavy[:, None], NOWHERE).amin(0)  # [L]
    total = (weights.double().abs()[:, None] * relu).sum(0)
    odd = torch.where(sound, k_scales, 1.0).double() / power(shift)
    small = total * odd * MARGIN < power(unit + BITS)
    least = torch.stack([bits.amin(0), unit, unit + shift, (bits + shift).amin(0)]).amin(0)
    top = torch.stack([unit, unit + shift]).amax(0) + BITS
    ranged = (least >= LOWEST) & (top <= HIGHEST_BIT)
    positive = ((weights > 0)[:, None] & (sizes > 0)).any(0)
    settled = positive & ((total == 0) | (small & ranged))
    return sound & whole.all(0) & settled


def lowest_bits(codes: Tensor, fmt: FloatFormat) -> Tensor:
    """Exponent int [N] of a power of two that divides every value of ``codes`` uint8 [N, D].

    `NOWHERE` where all values are zero; NaN counts as zero.
    """
    table = last_bits(torch.nan_to_num(decode(fmt, torch.arange(256, dtype=torch.uint8)), nan=0.0)).int()
    return table[codes.int()].amin(-1)


def power(exponents: Tensor) -> Tensor:
    """2^exponents as float64, clamped to what float64 holds."""
    return torch.ldexp(
        torch.ones(exponents.shape, dtype=torch.float64), exponents.clamp(-1000, 1000).to(torch.int32)
    )


def _gamma(roundings: Tensor, roundoff: float) -> Tensor:
    """gamma_n = n u / (1 - n u) for every n of an integer tensor, float64."""
    lost = roundings.double() * roundoff
    return lost / (1 - lost)
