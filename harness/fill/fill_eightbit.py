"""Operands of an FP8 case: values for the quantiser where a fill has them, codes and scales for the scorer.

`bytes` goes past the quantiser: each key and each query row draws its codes from three neighbouring
exponents, so that all codes occur and every sum is exact; scales have few bits and, without ue, are no
powers of two. `address` puts one value into one column of each key; rows 0, 15, 16, 63 of a page meet
columns 0, 15, 16, 127 over four pages (field report B13). `natural` is Gaussian, `boundary` lies at the
quantiser's edges. A fill whose scales are all alike would pass with scales of another key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.case.lists.fp8 import SCORED
from harness.fill import noise
from oracles import eightbit
from oracles.formats import FloatFormat

DIM = 128
ROWS, COLUMNS = (0, 15, 16, 63), (0, 15, 16, 127)
"""Rows of a page and columns that the layout contract asks about."""


@dataclass(frozen=True)
class Shape:
    """T rows, H heads, L keys of all sequences; format word; whether scales are powers of two; seed."""

    rows: int
    heads: int
    lengths: tuple[int, ...]
    fmt: str
    ue: bool
    seed: int

    @property
    def keys(self) -> int:
        return sum(self.lengths)

    @property
    def format(self) -> FloatFormat:
        return eightbit.FORMATS[self.fmt]


@dataclass(frozen=True)
class Filled:
    """q_codes uint8 [T, H, 128], weights float32 [T, H] (scales folded in); k_codes uint8 [L, 128],
    k_scales float32 [L]; and the values they come from, None where a fill has none: q bfloat16
    [T, H, 128] with raw bfloat16 [T, H] and ``weights_scale``, k bfloat16 [L, 128].
    """

    q_codes: Tensor
    weights: Tensor
    k_codes: Tensor
    k_scales: Tensor
    q: Tensor | None = None
    raw: Tensor | None = None
    k: Tensor | None = None
    weights_scale: float = 1.0


def fill(name: str, shape: Shape) -> Filled:
    """The operands of fill ``name``. Raises ValueError on a name not in `SCORED`."""
    if name not in MAKERS:
        raise ValueError(f"fill is {name!r}, allowed are {', '.join(SCORED)}")
    return MAKERS[name](shape)


def _quantised(shape: Shape, q: Tensor, k: Tensor, raw: Tensor, weights_scale: float) -> Filled:
    q_codes, weights = eightbit.quantise_queries(q, raw, weights_scale, shape.format, power_of_two=shape.ue)
    k_codes, k_scales = eightbit.quantise(k, shape.format, eightbit.KEY, power_of_two=shape.ue)
    return Filled(q_codes, weights, k_codes, k_scales, q, raw, k, weights_scale)


def _few_bit_weights(shape: Shape) -> Tensor:
    """Weights -2, -1, 1, 2: float32 [T, H]; the first head's is positive, so no score is -0."""
    choice = torch.tensor([-2.0, -1.0, 1.0, 2.0])
    weights = choice[noise.below(shape.seed, "weights", (shape.rows, shape.heads), 4)]
    weights[:, 0] = weights[:, 0].abs()
    return weights


def _window_codes(shape: Shape, stream: str, size: tuple[int, ...]) -> Tensor:
    """Codes uint8 of ``size``: each vector (first axis) uses three neighbouring exponents, any sign."""
    base = noise.below(shape.seed, stream + "/base", (size[0],), 14).reshape(-1, *[1] * (len(size) - 1))
    exponent = base + noise.below(shape.seed, stream + "/exponent", size, 3)
    draw = noise.octets(shape.seed, stream, size)
    code = (exponent << 3) | (draw & 7) | (draw & 0x80)
    for nan in shape.format.nan:  # a neighbour instead
        code = torch.where(code == nan, code ^ 1, code)
    return code.to(torch.uint8)


def _bytes(shape: Shape) -> Filled:
    power = torch.exp2(noise.below(shape.seed, "k/power", (shape.keys,), 16).float() - 10)
    odd = torch.tensor([1.0, 1.0, 1.0] if shape.ue else [3.0, 5.0, 7.0])
    scales = odd[noise.below(shape.seed, "k/odd", (shape.keys,), 3)] * power
    return Filled(
        _window_codes(shape, "q", (shape.rows, shape.heads, DIM)),
        _few_bit_weights(shape) * 2.0**-3,
        _window_codes(shape, "k", (shape.keys, DIM)),
        scales,
    )


def places(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """(position in its sequence, column) int64 [L] of the one value of each key of `address`."""
    position = torch.cat([torch.arange(length) for length in lengths])
    column = (position * 37 + position // 128) % DIM
    for turn, row in enumerate(ROWS):
        here = position % 64 == row
        column[here] = torch.tensor(COLUMNS)[(position[here] // 64 + turn) % 4]
    return position, column


def _address(shape: Shape) -> Filled:
    """Even heads know the column's last four bits, odd ones the others; heads 2 and 3 of four are negated."""
    _, column = places(shape.lengths)
    index = torch.arange(shape.keys)
    value = (8 + index % 8) / 8 * torch.exp2(((index // 8) % 16 - 8).float())
    value = torch.where(index % 5 == 3, -value, value)
    k = torch.zeros(shape.keys, DIM)
    k[index, column] = value
    heads, columns = torch.arange(shape.heads)[:, None], torch.arange(DIM)
    knows = torch.where(heads % 2 == 0, columns % 16, columns // 16)
    q = (8 + knows % 8) / 8 * torch.exp2((knows // 8).float())
    q = torch.where(heads % 4 >= 2, -q, q).expand(shape.rows, -1, -1)
    row = torch.arange(shape.rows)[:, None]
    raw = (8 + row % 8) / 8 * torch.exp2(-4.0 * (torch.arange(shape.heads) % 2))
    return _quantised(shape, q.bfloat16().contiguous(), k.bfloat16(), raw.bfloat16(), 0.25)


def _natural(shape: Shape) -> Filled:
    q = noise.gaussian(shape.seed, "q", (shape.rows, shape.heads, DIM)).bfloat16()
    k = noise.gaussian(shape.seed, "k", (shape.keys, DIM)).bfloat16()
    raw = noise.gaussian(shape.seed, "weights", (shape.rows, shape.heads)).bfloat16()
    return _quantised(shape, q, k, raw, float(DIM**-0.5 * shape.heads**-0.5))


def _boundary(shape: Shape) -> Filled:
    q = _edges(shape, "q", shape.rows * shape.heads, tiny=1e-12)
    k = _edges(shape, "k", shape.keys, tiny=1e-6)
    raw = _few_bit_weights(shape).bfloat16()
    return _quantised(shape, q.reshape(shape.rows, shape.heads, DIM), k, raw, 0.125)


def _edges(shape: Shape, stream: str, count: int, *, tiny: float) -> Tensor:
    """bfloat16 [count, 128]: of eight vectors one is zero, one tiny, three have their maximum at
    top * 2^k or one bfloat16 step beside it, three lie on midpoints and between; signs are mixed.
    """
    fmt = shape.format
    grid = eightbit.decode(fmt, torch.arange(fmt.top + 1, dtype=torch.uint8))
    middle = torch.cat([grid[:-1] + (grid[1:] - grid[:-1]) / 2, grid])
    value = middle[noise.below(shape.seed, stream, (count, DIM), len(middle))]
    top = torch.full((count,), eightbit.top_of(fmt)).bfloat16()
    kind = torch.arange(count) % 8
    steps = torch.where(kind == 3, 1, torch.where(kind == 4, -1, 0)).short()
    value[:, 77] = (top.view(torch.int16) + steps).view(torch.bfloat16).float()
    power = torch.exp2(noise.below(shape.seed, stream + "/power", (count,), 9).float() - 4)
    value *= power[:, None]
    value = torch.where((noise.octets(shape.seed, stream + "/sign", (count, DIM)) & 1).bool(), -value, value)
    value[kind == 0] *= 0.0  # zeros of both signs
    value[kind == 1] *= tiny / 448
    return value.bfloat16()


MAKERS: dict[str, Callable[[Shape], Filled]] = {
    "bytes": _bytes,
    "address": _address,
    "natural": _natural,
    "boundary": _boundary,
}
