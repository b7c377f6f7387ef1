"""What the indexer's scores are: exact with a proof, ordered under a declared tree, or bounded.

score[r, t] = weight_scale * sum_h w[r, h] * maximum(q[r, h] . k[t], 0), float32 (spec
indexer.md 4, numerics.md). Contract: exact values come with a proof per row, never with an
assumption; ordered values follow a `Tree` to the bit; a bound follows from the number of
roundings alone. It fails silently when a grade is claimed that the operands do not carry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles import cells
from oracles.dots import dots, over_budget
from oracles.operands import Operands, side
from oracles.score_map import ScoreMap, score_windows
from oracles.trees import TREES, Tree, find, lane_groups, one_chain

__all__ = [
    "TREES",
    "Bound",
    "Exact",
    "Operands",
    "ScoreMap",
    "Tree",
    "bounded",
    "dot_budget",
    "dot_products",
    "exact",
    "lane_groups",
    "longest_chain",
    "one_chain",
    "ordered",
    "score_windows",
]

UNIT_ROUNDOFF = 2.0**-24
WIDE_ROUNDOFF = 2.0**-53
SMALLEST = 2.0**-149


@dataclass(frozen=True)
class Exact:
    """value float32 [T, L]; proven bool [T]: every cell of the row is exact in any order.

    Where a row is not proven its value is a float64 sum rounded once, good to look at and not
    to be compared bit for bit.
    """

    value: Tensor
    proven: Tensor


@dataclass(frozen=True)
class Bound:
    """exact float64 [T, L] and how far a float32 result may lie from it, allowed float64 [T, L]."""

    exact: Tensor
    allowed: Tensor


def exact(operands: Operands) -> Exact:
    """Exact scores with their proof (see `oracles.proof`)."""
    value = _map(operands)
    proven = torch.ones(value.shape[0], dtype=torch.bool, device=value.device)
    for some, part, reach, keys in cells.blocks(operands):
        found = cells.exact_cells(part, keys)
        value[some, reach] = found.value
        proven[some] &= found.proven.all(1)
    return Exact(value, proven)


def ordered(operands: Operands, tree: str | Tree) -> Tensor:
    """Scores float32 [T, L] under ``tree``, a `Tree` or the name of one in `TREES`."""
    value, tree = _map(operands), find(tree)
    for some, part, reach, keys in cells.blocks(operands):
        value[some, reach] = cells.ordered_cells(part, keys, tree).value
    return value


def _map(operands: Operands) -> Tensor:
    shape = operands.weights.shape[0], operands.k_codes.shape[0]
    return torch.empty(shape, dtype=torch.float32, device=operands.k_codes.device)


def dot_products(operands: Operands) -> Tensor:
    """Dots float32 [T, H, L] before the ReLU, each k-tile's exact sum rounded once."""
    q = side(operands.q_codes.flatten(0, 1), operands.q_scales.flatten(0, 1))
    k = side(operands.k_codes, operands.k_scales)
    return dots(q, k).unflatten(0, tuple(operands.weights.shape))


def dot_budget(operands: Operands) -> Tensor:
    """Dots bool [T, H, L] outside the exact budget of the matrix instruction (numerics.md)."""
    q = side(operands.q_codes.flatten(0, 1), operands.q_scales.flatten(0, 1))
    k = side(operands.k_codes, operands.k_scales)
    return over_budget(q, k).unflatten(0, tuple(operands.weights.shape))


def longest_chain(heads: int, head_dim: int) -> int:
    """Roundings on the longest path of any order: D for a dot, H for the heads, two for the weight scale."""
    return head_dim + heads + 2


def bounded(operands: Operands, chain: int) -> Bound:
    """Exact value, and |got - exact| <= gamma_chain * sum |terms| for any order of ``chain`` roundings.

    gamma_n = n u / (1 - n u), u = 2^-24 (numerics.md); to it is added what float64 itself may
    lose here, and half a smallest subnormal for every product that can underflow. NaN where the
    score is NaN; infinite magnitudes give an infinite allowance.
    """
    shape = operands.weights.shape[0], operands.k_codes.shape[0]
    value = torch.empty(shape, dtype=torch.float64, device=operands.k_codes.device)
    allowed = torch.empty_like(value)
    for some, part, reach, keys in cells.blocks(operands):
        value[some, reach], allowed[some, reach] = _bound(part, keys, chain)
    return Bound(value, allowed)


def _bound(part: cells.Rows, keys: cells.Side, chain: int) -> tuple[Tensor, Tensor]:
    q, k = part.q.scaled(torch.float64), keys.scaled(torch.float64)
    lost = (part.q.nan.unsqueeze(1) | keys.nan).unflatten(0, part.shape).any(1)  # [R, L]
    relu = (q @ k.T).clamp_(min=0).unflatten(0, part.shape)
    magnitude = (q.abs() @ k.abs().T).unflatten(0, part.shape)
    weights, scale = part.weights.double(), part.weight_scale
    value = scale * torch.einsum("rh,rhl->rl", weights, relu)
    terms = abs(scale) * torch.einsum("rh,rhl->rl", weights.abs(), magnitude)
    heads, columns = part.shape[1], q.shape[1]
    share = _gamma(chain, UNIT_ROUNDOFF) + _gamma(columns + heads + 2, WIDE_ROUNDOFF)
    flushed = abs(scale) * (columns * weights.abs().sum(1, keepdim=True) + heads) + relu.sum(1) + heads + 1
    allowed = share * terms + SMALLEST * flushed
    return value.masked_fill(lost, torch.nan), allowed.masked_fill(lost, torch.nan)


def _gamma(roundings: int, roundoff: float) -> float:
    return roundings * roundoff / (1 - roundings * roundoff)
