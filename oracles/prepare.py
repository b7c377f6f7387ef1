"""What the writer does to a token before its bytes reach the planes (spec indexer.md 2).

Contract: k is normalised, rotated, quantised and scattered; q is rotated and quantised per head;
weights are folded by the convention of the mode. Pairing, variance, tie and scale rules are
named arguments. A NaN has no part in its group's maximum, as production takes that by ``fmaxf``, and
no code. It fails silently near position 0, where every pairing is the identity, on full
batches, where no row is skipped, and under any comparison that a common factor passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.formats import QuantRule, quantise
from oracles.layout import pack_nibbles, write_keys, write_query_scales

ROPE_DIMS = 64
PAIRINGS = ("neox", "interleaved")
"""neox: dim i turns with dim i + 32; interleaved: dim 2i with dim 2i + 1."""
VARIANCES = ("population", "sample")
CONVENTIONS = ("fp4", "fp8")
"""fp4: a bf16 copy (the scorer applies the weight scale); fp8: fp32 w * q_scale * weight_scale."""


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}, allowed are {', '.join(allowed)}")


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, *, eps: float = 1e-6, variance: str = "population"
) -> Tensor:
    """LayerNorm over the last axis, bfloat16 [..., D] of ``x`` [..., D]; weight, bias float32 [D].

    Computed in float64 and rounded to float32, then to bfloat16: what any float32 order of
    summation approximates. ``eps`` is added to the variance under the root.
    """
    _one_of("variance", variance, VARIANCES)
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    count = x.shape[-1] - int(variance == "sample")
    spread = centred.square().sum(-1, keepdim=True) / count
    normal = centred / (spread + eps).sqrt()
    return (normal * weight.double() + bias.double()).float().bfloat16()


def rope_tables(positions: int, *, base: float = 10000.0, dims: int = ROPE_DIMS) -> tuple[Tensor, Tensor]:
    """(cos, sin) bfloat16 [positions, dims/2] with angle position * base^(-2i/dims)."""
    rate = base ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    angle = torch.arange(positions, dtype=torch.float64).unsqueeze(1) * rate
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def rope(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, *, pairing: str) -> Tensor:
    """Rotate the first 2*P dims of ``x`` bfloat16 [R, ..., D] by ``positions`` int [R].

    ``cos`` and ``sin`` are tables bfloat16 [positions, P].

    (a, b) becomes (a cos - b sin, b cos + a sin) in float32, cast to bfloat16; the other dims
    pass through. Products of two bfloat16 are exact in float32, so fusing changes nothing.
    Raises ValueError for a position outside the tables.
    """
    _one_of("pairing", pairing, PAIRINGS)
    if bool(((positions < 0) | (positions >= cos.shape[0])).any()):
        raise ValueError(f"positions has a value outside 0 to {cos.shape[0] - 1}")
    half = cos.shape[1]
    lead = (positions.numel(), *[1] * (x.dim() - 2), half)
    cosine, sine = cos[positions].float().view(lead), sin[positions].float().view(lead)
    first, second = pairs(x[..., : 2 * half].float(), pairing)
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    joined = torch.cat(turned, -1) if pairing == "neox" else torch.stack(turned, -1).flatten(-2)
    return torch.cat((joined.bfloat16(), x[..., 2 * half :].bfloat16()), -1)


def pairs(x: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
    """Those of ``x`` [..., 2P] that turn with each other, [..., P] each; ``pairing`` one of `PAIRINGS`."""
    if pairing == "neox":
        first, second = x.chunk(2, -1)
        return first, second
    return x[..., 0::2], x[..., 1::2]


def rotate(x: Tensor, positions: Tensor, *, pairing: str = "neox", base: float = 10000.0) -> Tensor:
    """`rope` with tables made for the occasion."""
    longest = int(positions.max()) + 1 if positions.numel() else 1
    return rope(x, *rope_tables(longest, base=base), positions, pairing=pairing)


def hadamard(x: Tensor) -> Tensor:
    """Hadamard rotation of the last axis (D a power of two, Sylvester order), scaled by D^-0.5, bfloat16."""
    columns = x.shape[-1]
    if columns & (columns - 1):
        raise ValueError(f"x has {columns} columns, allowed are powers of two")
    wide, width = x.double(), 1
    while width < columns:
        pairs = wide.unflatten(-1, (-1, 2, width))
        wide = torch.stack((pairs.sum(-2), pairs[..., 0, :] - pairs[..., 1, :]), -2).flatten(-3)
        width *= 2
    return (wide * columns**-0.5).float().bfloat16()


def fold_weights(
    weights: Tensor, *, convention: str, q_scale: Tensor | None = None, weight_scale: float | None = None
) -> Tensor:
    """``weights`` [T, H] as the scorer of that mode wants them: bfloat16 (fp4) or float32 (fp8).

    fp8 needs ``q_scale`` float32 [T, H] and ``weight_scale``; fp4 takes neither, since applying
    them here as well as in the scorer is a bug class.
    """
    _one_of("convention", convention, CONVENTIONS)
    given = q_scale is not None, weight_scale is not None
    if convention == "fp4":
        if any(given):
            raise ValueError("convention fp4 takes no q_scale and no weight_scale (the scorer applies it)")
        return weights.bfloat16()
    if q_scale is None or weight_scale is None:
        raise ValueError("convention fp8 needs q_scale and weight_scale")
    return weights.float() * q_scale.float() * torch.tensor(weight_scale, dtype=torch.float32)


@dataclass(frozen=True)
class Writer:
    """Everything the writer is configured with; tables bfloat16 [positions, 32], norm float32 [D]."""

    norm_weight: Tensor
    norm_bias: Tensor
    cos: Tensor
    sin: Tensor
    pairing: str
    rule: QuantRule
    eps: float = 1e-6
    hadamard: bool = False


@dataclass(frozen=True)
class Written:
    """q_codes uint8 [T, H, D/2], q_scales uint8 [T, K, 4, 16, pad4(H/16)], weights bfloat16 [T, H].

    Rows where ``defined`` bool [T] is false were skipped: they hold poison (0xFF, 255, NaN), since
    what a real buffer holds there is not specified.
    """

    q_codes: Tensor
    q_scales: Tensor
    weights: Tensor
    defined: Tensor


def write_tokens(
    writer: Writer,
    q: Tensor,
    k: Tensor,
    weights: Tensor,
    positions: Tensor,
    slots: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    *,
    compute_all_q_rope: bool = False,
) -> Written:
    """The fused writer: q bfloat16 [T, H, D], k bfloat16 [T, D], weights [T, H].

    ``positions`` and ``slots`` are int64 [T]. Keys go into the planes in place. Rows with a
    negative slot are skipped whole, unless ``compute_all_q_rope``: then q and weights are computed
    for every row, with positions clamped into the tables, and only k is skipped. Raises ValueError
    when there are more rows than slots.
    """
    if slots.numel() != q.shape[0]:
        raise ValueError(f"slots has {slots.numel()} entries, allowed is one for each of {q.shape[0]} rows")
    kept = slots >= 0
    codes, scales = quantise(without_nans(_key(writer, k[kept], positions[kept])), writer.rule)
    write_keys(k_codes, k_scales, codes, scales, slots[kept])
    defined = torch.ones_like(kept) if compute_all_q_rope else kept
    place = positions.clamp(0, writer.cos.shape[0] - 1) if compute_all_q_rope else positions
    return _queries(writer, q, weights, place, defined)


def without_nans(x: Tensor) -> Tensor:
    """``x`` with a zero for every NaN: what a maximum that leaves NaNs out makes of them."""
    return x.masked_fill(x.isnan(), 0.0)


def _key(writer: Writer, k: Tensor, positions: Tensor) -> Tensor:
    normal = layer_norm(k, writer.norm_weight, writer.norm_bias, eps=writer.eps)
    return _turned(writer, normal, positions)


def _turned(writer: Writer, x: Tensor, positions: Tensor) -> Tensor:
    rotated = rope(x, writer.cos, writer.sin, positions, pairing=writer.pairing)
    return hadamard(rotated) if writer.hadamard else rotated


def _queries(writer: Writer, q: Tensor, weights: Tensor, positions: Tensor, defined: Tensor) -> Written:
    codes, scales = quantise(without_nans(_turned(writer, q[defined], positions[defined])), writer.rule)
    rows, heads, columns = q.shape
    q_codes = torch.full((rows, heads, columns // 2), 0xFF, dtype=torch.uint8, device=q.device)
    q_codes[defined] = pack_nibbles(codes)
    plane = write_query_scales(scales)
    q_scales = torch.full((rows, *plane.shape[1:]), 255, dtype=torch.uint8, device=q.device)
    q_scales[defined] = plane
    folded = torch.full_like(weights, torch.nan, dtype=torch.bfloat16)
    folded[defined] = fold_weights(weights[defined], convention="fp4")
    return Written(q_codes, q_scales, folded, defined)
