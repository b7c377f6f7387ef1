"""Scores of a block of rows against a block of keys: the arithmetic behind `oracles.score`.

Contract: every row of the block meets every key; which cells a row may see is the caller's
business. Value and proof come from the same operands. It fails silently when a proof is taken
from another block than the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.dots import dots, in_budget, over_budget
from oracles.operands import Operands, Side, side
from oracles.proof import head_units, provable_weights, proven_cells, term_unit
from oracles.trees import Tree, run

BLOCK_DOTS = 1 << 20
"""Dot products held at once; bounds the memory whatever the context length."""


@dataclass(frozen=True)
class Rows:
    """R query rows prepared: ``q`` holds R * H vectors; weights float32 [R, H].

    weight_scale is a float32 value.
    """

    q: Side
    weights: Tensor
    weight_scale: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[1]


@dataclass(frozen=True)
class Cells:
    """Scores float32 [R, L], whether each is proven exact bool [R, L], dots over budget int64 [R, L]."""

    value: Tensor
    proven: Tensor
    over: Tensor


def rows(q_codes: Tensor, q_scales: Tensor, weights: Tensor, weight_scale: float) -> Rows:
    """Prepare rows: q_codes uint8 [R, H, D], q_scales uint8 [R, H, G], weights [R, H]."""
    scale = float(torch.tensor(weight_scale, dtype=torch.float32))
    return Rows(side(q_codes.flatten(0, 1), q_scales.flatten(0, 1)), weights.float(), scale)


def blocks(operands: Operands) -> Iterator[tuple[slice, Rows, slice, Side]]:
    """All rows and keys of ``operands``, a few rows and a stretch of keys at a time."""
    heads, keys = operands.weights.shape[1], operands.k_codes.shape[0]
    few = max(1, 512 // heads)
    for first in range(0, operands.weights.shape[0], few):
        some = slice(first, first + few)
        part = rows(
            operands.q_codes[some], operands.q_scales[some], operands.weights[some], operands.weight_scale
        )
        for start in range(0, keys, stretch(part)):
            reach = slice(start, start + stretch(part))
            yield some, part, reach, side(operands.k_codes[reach], operands.k_scales[reach])


def stretch(part: Rows) -> int:
    """Keys to take at a time with these rows."""
    return max(64, BLOCK_DOTS // (part.shape[0] * part.shape[1]))


def relu_dots(part: Rows, keys: Side) -> Tensor:
    """maximum(dot, 0) float32 [R, H, L]; NaN stays NaN.

    A zero may keep its sign: it cannot matter, for every sum over heads starts from +0, and +0
    plus a zero of either sign is +0.
    """
    return dots(part.q, keys).clamp_(min=0).unflatten(0, part.shape)


def exact_cells(part: Rows, keys: Side) -> Cells:
    """Exact scores with their proof; cells that are not proven hold the float64 sum, rounded."""
    relu = relu_dots(part, keys)
    over = over_count(part, keys)
    both = torch.stack((part.weights.abs(), part.weights), 1) @ relu  # [R, 2, L]
    proven = _proof(part, keys, both[:, 0]) & (over == 0)
    lost = both[:, 1].isnan() & _nan_cells(part, keys)
    proven |= lost
    value = (both[:, 1] + 0.0) * part.weight_scale  # a sum that starts from +0 is never -0
    if not bool(proven.all()):
        wide = torch.einsum("rh,rhl->rl", part.weights.double(), relu.double()) + 0.0
        value = torch.where(proven, value, (wide * part.weight_scale).float())
    return Cells(value, proven, over)


def _proof(part: Rows, keys: Side, bound: Tensor) -> Tensor:
    low = part.q.low.unflatten(0, part.shape)  # [R, H, G]
    unit = term_unit(head_units(low, torch.nan_to_num(part.weights)), keys.low)
    provable = provable_weights(part.weights, part.weight_scale).unsqueeze(1)
    return proven_cells(bound, unit, part.weight_scale) & provable


def _nan_cells(part: Rows, keys: Side) -> Tensor:
    """Cells bool [R, L] with a dot that a scale byte of 255 makes NaN."""
    return part.q.nan.unflatten(0, part.shape).any(1, keepdim=True) | keys.nan


def ordered_cells(part: Rows, keys: Side, tree: Tree) -> Cells:
    """Scores under ``tree``; nothing is proven."""
    value = run(tree, relu_dots(part, keys), part.weights, part.weight_scale)
    return Cells(value, torch.zeros_like(value, dtype=torch.bool), over_count(part, keys))


def over_count(part: Rows, keys: Side) -> Tensor:
    """Dots outside the matrix instruction's budget, int64 [R, L] (a count over heads)."""
    if in_budget(part.q, keys):
        return torch.zeros(part.shape[0], len(keys.nan), dtype=torch.int64, device=keys.nan.device)
    return over_budget(part.q, keys).unflatten(0, part.shape).sum(1)
