"""The fused FP8 writer: what it does to a token, and what its keys may be where float32 leaves a choice.

Contract (spec indexer.md 2): q is rotated, cast to bfloat16 and quantised per head; its weights are folded
with the query's scale; k is normalised, cast, rotated, cast, quantised and scattered into the page. A row
without a slot is skipped whole. Queries have one right value; a key has as many as its LayerNorm has
(`oracles.normalise`), and the range is carried through scale and codes here. It fails silently when the
range is too wide: all bytes are then right, so those with several right values are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oracles import eightbit, eightbit_pages, eightbit_subnormals, normalise, prepare
from oracles.eightbit import KEY, QUERY, ScaleRule
from oracles.formats import FloatFormat, encode
from oracles.normalise import Range

SIGN = 128
"""Codes from here on are negative."""


@dataclass(frozen=True)
class Writer8:
    """Everything the writer is configured with; tables bfloat16 [positions, 32], norm float32 [D].

    ``power_of_two``: scales are rounded up to powers of two; ``order`` of a page's codes, flat or tiled.
    """

    norm_weight: Tensor
    norm_bias: Tensor
    cos: Tensor
    sin: Tensor
    pairing: str
    fmt: FloatFormat
    power_of_two: bool
    order: str
    weights_scale: float
    eps: float = 1e-6
    query: ScaleRule = QUERY
    key: ScaleRule = KEY
    ties: str = "even"
    fold: Callable[[Tensor, Tensor, float], Tensor] = eightbit.fold_weights


def queries(writer: Writer8, q: Tensor, weights: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """(codes uint8 [T, H, 128], folded weights float32 [T, H]) of q bfloat16 [T, H, 128]."""
    turned = prepare.rope(q, writer.cos, writer.sin, positions, pairing=writer.pairing)
    codes, scales = eightbit.quantise(
        turned, writer.fmt, writer.query, power_of_two=writer.power_of_two, ties=writer.ties
    )
    return codes, writer.fold(weights, scales, writer.weights_scale)


def keys(writer: Writer8, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """(codes uint8 [T, 128], scales float32 [T]) of k bfloat16 [T, 128]."""
    normal = prepare.layer_norm(k, writer.norm_weight, writer.norm_bias, eps=writer.eps)
    turned = prepare.rope(normal, writer.cos, writer.sin, positions, pairing=writer.pairing)
    return eightbit.quantise(
        turned, writer.fmt, writer.key, power_of_two=writer.power_of_two, ties=writer.ties
    )


def write_tokens(
    writer: Writer8,
    q: Tensor,
    k: Tensor,
    weights: Tensor,
    positions: Tensor,
    slots: Tensor,
    q_codes: Tensor,
    weights_out: Tensor,
    cache: Tensor,
) -> None:
    """Rows with a slot into ``q_codes`` uint8 [T, H, 128], ``weights_out`` float32 [T, H] and ``cache``.

    Raises ValueError when there are more rows than slots, with nothing written.
    """
    if slots.numel() != q.shape[0]:
        raise ValueError(f"slots has {slots.numel()} entries, allowed is one for each of {q.shape[0]} rows")
    kept = slots >= 0
    if not bool(kept.any()):
        return
    place = positions[kept]
    q_codes[kept], weights_out[kept] = queries(writer, q[kept], weights[kept], place)
    eightbit_pages.write_keys(cache, *keys(writer, k[kept], place), slots[kept], writer.order)


def settle_queries(
    writer: Writer8,
    q: Tensor,
    weights: Tensor,
    positions: Tensor,
    codes: Tensor,
    *,
    mode: str,
) -> tuple[Tensor, Tensor]:
    """(right codes nearest to ``codes`` uint8 [T, H, 128], folded weights float32 [T, H]) in ``mode``.

    Where no subnormal arises they are those of `queries`. A maximum that counts is far above them, so the
    scale is the same however products are fused.
    """
    right, scales = None, None
    for fused in eightbit_subnormals.FUSED:
        turned = eightbit_subnormals.rope(
            q, writer.cos, writer.sin, positions, pairing=writer.pairing, mode=mode, fused=fused
        )
        made, scale = eightbit.quantise(
            turned, writer.fmt, writer.query, power_of_two=writer.power_of_two, ties=writer.ties
        )
        scales = scale if scales is None else scales
        right = made if right is None else torch.where(made == codes, made, right)
    assert right is not None and scales is not None
    return right, eightbit_subnormals.fold_weights(weights, scales, writer.weights_scale, mode=mode)


def key_range(writer: Writer8, k: Tensor, positions: Tensor, *, mode: str = "kept") -> Range:
    """Normalised and rotated keys, bfloat16 [T, 128]: the lowest and the highest right value of each."""
    if mode == "flushed":
        norm = eightbit_subnormals.layer_norm_range(k, writer.norm_weight, writer.norm_bias, eps=writer.eps)
        return eightbit_subnormals.rope_range(norm, writer.cos, writer.sin, positions, pairing=writer.pairing)
    normal = normalise.layer_norm_range(k, writer.norm_weight, writer.norm_bias, eps=writer.eps)
    return normalise.rope_range(normal, writer.cos, writer.sin, positions, pairing=writer.pairing)


@dataclass(frozen=True)
class Settled8:
    """Right codes uint8 [T, 128] and scales float32 [T], as near as can be to those found.

    ``open_bytes``: codes and scales that have more than one right value.
    """

    codes: Tensor
    scales: Tensor
    open_bytes: int


def settle(writer: Writer8, values: Range, codes: Tensor, scales: Tensor) -> Settled8:
    """The right codes and scales nearest to ``codes`` uint8 [T, 128] and ``scales`` float32 [T]."""
    low, high = values.low.float(), values.high.float()
    across = (low < 0) & (high > 0)
    least = torch.minimum(low.abs(), high.abs()).masked_fill(across, 0.0).amax(-1)
    most = torch.maximum(low.abs(), high.abs()).amax(-1)
    first, last = (
        eightbit.scale_of(end, writer.fmt, writer.key, power_of_two=writer.power_of_two)
        for end in (least, most)
    )
    right = torch.where((scales >= first) & (scales <= last), scales, first)
    if writer.power_of_two:  # between two powers there is nothing
        right = torch.where(torch.frexp(right).mantissa == 0.5, right, first)
    inverse = (1.0 / right).unsqueeze(-1)
    bottom, top = (encode(writer.fmt, end * inverse, ties=writer.ties) for end in (low, high))
    order = code_order(codes)
    inside = (order >= code_order(bottom)) & (order <= code_order(top))
    several = int((bottom != top).sum()) + int((first != last).sum())
    return Settled8(torch.where(inside, codes, bottom), right, several)


def code_order(codes: Tensor) -> Tensor:
    """Whole numbers (int64) in the order of E4M3 values, -0 just below 0."""
    code = codes.long()
    return torch.where(code >= SIGN, SIGN - 1 - code, code)
