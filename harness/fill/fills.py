"""Operands of a case: codes, scales and weights of its queries and keys, by fill.

A fill decides what a case can see. Inputs whose answer is exact come first (`bytes`,
`address`, `ties`, `boundary`): their scale windows and weights are thinned until every
partial sum fits float32, and ``oracles.score`` then proves it per row. A fill that looks
random but is uniform in scale or symmetric in sign passes with a permuted scale plane or a
dropped sign; `natural` is kept as the control that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.case.suite import FILLS
from harness.fill import fill_address, fill_values, noise

__all__ = ["FILLS", "Filled", "Shape", "fill", "window"]

GROUP = 32


@dataclass(frozen=True)
class Shape:
    """What a fill needs to know: T rows, H heads, head dim D, and keys of all sequences, L."""

    rows: int
    heads: int
    dim: int
    keys: int
    seed: int

    @property
    def groups(self) -> int:
        return self.dim // GROUP


@dataclass(frozen=True)
class Filled:
    """Unpacked operands.

    q_codes uint8 [T, H, D]; q_scales uint8 [T, H, D/32]; k_codes uint8 [L, D]; k_scales uint8
    [L, D/32], keys of all sequences one after the other; weights bfloat16 [T, H].
    ``exactable``: the fill is meant to keep the exact grade (it is proved elsewhere).
    """

    q_codes: Tensor
    q_scales: Tensor
    k_codes: Tensor
    k_scales: Tensor
    weights: Tensor
    weight_scale: float
    exactable: bool


def fill(name: str, shape: Shape) -> Filled:
    """The operands of fill ``name``. Raises ValueError on a name not in `FILLS`."""
    if name not in MAKERS:
        raise ValueError(f"fill is {name!r}, allowed are {', '.join(FILLS)}")
    return MAKERS[name](shape)


def window(heads: int, dim: int) -> tuple[int, int]:
    """Numbers of consecutive scale bytes for (queries, keys) that keep the exact grade.

    A product of two random codes is 5.06 on average, in steps of 1/4; weights are at most 2,
    1.5 on average. A key can have all its groups at the top of its window, a query row is
    average; a factor 1.5 covers the spread of the codes. The sum must stay under 2^24 steps.
    """
    steps = 4 * 5.0625 * dim * heads * 1.5 * 1.5
    for queries, keys in ((6, 5), (5, 5), (5, 4), (4, 4), (4, 3), (3, 3), (3, 2), (2, 2), (2, 1)):
        mean_query = (2**queries - 1) / queries
        if steps * mean_query * 2 ** (keys - 1) <= 1 << 24:
            return queries, keys
    return 1, 1


def _codes(shape: Shape, stream: str, size: tuple[int, ...]) -> Tensor:
    return noise.octets(shape.seed, stream, size) & 15


def _scales(shape: Shape, stream: str, size: tuple[int, ...], count: int) -> Tensor:
    """Scale bytes from ``count`` consecutive ones near 127 that the seed chooses."""
    base = 121 + int(noise.below(shape.seed, stream + "/base", (1,), 7))
    return (base + noise.below(shape.seed, stream, size, count)).to(torch.uint8)


def few_bit_weights(shape: Shape) -> Tensor:
    """Weights -2, -1, 1, 2: bfloat16 [T, H]."""
    choice = torch.tensor([-2.0, -1.0, 1.0, 2.0])
    return choice[noise.below(shape.seed, "weights", (shape.rows, shape.heads), 4)].bfloat16()


def _bytes(shape: Shape) -> Filled:
    queries, keys = window(shape.heads, shape.dim)
    return Filled(
        q_codes=_codes(shape, "q", (shape.rows, shape.heads, shape.dim)),
        q_scales=_scales(shape, "q/scale", (shape.rows, shape.heads, shape.groups), queries),
        k_codes=_codes(shape, "k", (shape.keys, shape.dim)),
        k_scales=_scales(shape, "k/scale", (shape.keys, shape.groups), keys),
        weights=few_bit_weights(shape),
        weight_scale=0.125,
        exactable=True,
    )


def _wide(shape: Shape) -> Filled:
    """Each row and each key has a base anywhere in the byte range and spreads 12 around it.

    A base per row keeps whole rows finite while others overflow or vanish; three rows of four
    have one in the middle, so that most scores are numbers. 255 is rare in queries (it makes the
    whole row NaN) and in one key of 64.
    """
    q_scales = _around(shape, "q/scale", (shape.rows, shape.heads, shape.groups), middle=True)
    k_scales = _around(shape, "k/scale", (shape.keys, shape.groups))
    if shape.rows > 4:
        q_scales[3 + 4 * noise.below(shape.seed, "q/nan", (1,), (shape.rows - 1) // 4), 0, 0] = 255
    k_scales[noise.octets(shape.seed, "k/nan", (shape.keys,)) < 4, 0] = 255
    return Filled(
        q_codes=_codes(shape, "q", (shape.rows, shape.heads, shape.dim)),
        q_scales=q_scales,
        k_codes=_codes(shape, "k", (shape.keys, shape.dim)),
        k_scales=k_scales,
        weights=noise.gaussian(shape.seed, "weights", (shape.rows, shape.heads)).bfloat16(),
        weight_scale=0.125,
        exactable=False,
    )


def _around(shape: Shape, stream: str, size: tuple[int, ...], *, middle: bool = False) -> Tensor:
    bases = noise.below(shape.seed, stream + "/base", size[:1] + (1,) * (len(size) - 1), 255)
    if middle:
        central = torch.arange(size[0]) % 4 != 3
        bases[central] = 64 + bases[central] // 2
    return (bases + noise.below(shape.seed, stream, size, 13) - 6).clamp(0, 254).to(torch.uint8)


def _ties(shape: Shape) -> Filled:
    """Keys are copies of 13 distinct ones, so equal scores are everywhere; 13 divides no page."""
    _, keys = window(shape.heads, shape.dim)
    copy = noise.below(shape.seed, "copy", (shape.keys,), 13)
    filled = _bytes(shape)
    return Filled(
        q_codes=filled.q_codes,
        q_scales=filled.q_scales,
        k_codes=_codes(shape, "k", (13, shape.dim))[copy],
        k_scales=_scales(shape, "k/scale", (13, shape.groups), keys)[copy],
        weights=filled.weights,
        weight_scale=filled.weight_scale,
        exactable=True,
    )


def _address(shape: Shape) -> Filled:
    made = fill_address.make(shape.rows, shape.heads, shape.dim, shape.keys, shape.seed)
    return Filled(*made, weight_scale=1.0, exactable=True)


def _natural(shape: Shape) -> Filled:
    q_codes, q_scales = fill_values.natural_queries(shape.rows, shape.heads, shape.dim, shape.seed)
    k_codes, k_scales = fill_values.natural_keys(shape.keys, shape.dim, shape.seed)
    weights = noise.gaussian(shape.seed, "weights", (shape.rows, shape.heads)).bfloat16()
    scale = shape.dim**-0.5 * shape.heads**-0.5
    return Filled(q_codes, q_scales, k_codes, k_scales, weights, scale, exactable=False)


def _boundary(shape: Shape) -> Filled:
    """Queries and keys that come out of the quantiser at its edges; few-bit weights.

    Only a few exponents are used, so that most rows keep the exact grade.
    """
    _, keys = window(shape.heads, shape.dim)
    values = fill_values.boundary_values(shape.rows * shape.heads, shape.dim, shape.seed, "q", 2)
    q_codes, q_scales = fill_values.quantised(values)
    k_codes, k_scales = fill_values.quantised(
        fill_values.boundary_values(shape.keys, shape.dim, shape.seed, "k", keys)
    )
    return Filled(
        q_codes.reshape(shape.rows, shape.heads, shape.dim),
        q_scales.reshape(shape.rows, shape.heads, shape.groups),
        k_codes,
        k_scales,
        few_bit_weights(shape),
        weight_scale=0.5,
        exactable=True,
    )


MAKERS: dict[str, Callable[[Shape], Filled]] = {
    "bytes": _bytes,
    "wide": _wide,
    "natural": _natural,
    "address": _address,
    "ties": _ties,
    "boundary": _boundary,
}
