"""Scores of a whole request: planes, block tables and windows in, one map of scores out.

Contract: row r is scored at columns start <= t < end of its window, from its own sequence's
pages, and nothing else of the planes is looked at; the rest of the map is minus infinity.
Keys are gathered and scored a stretch at a time, so memory stays bounded whatever the context.
It fails silently when a row is scored from another row's pages and both hold plausible keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from oracles import cells
from oracles.cells import Cells, Rows
from oracles.layout import read_keys, read_query_scales, unpack_nibbles
from oracles.operands import Side, side
from oracles.trees import Tree, find
from oracles.windows import Windows, visible


@dataclass(frozen=True)
class ScoreMap:
    """Scores of T rows.

    value float32 [T, width], minus infinity outside the windows; proven bool [T], true where every
    visible cell is proven exact (under a tree only for empty windows); over_budget, the number of
    dots of visible cells that the matrix instruction need not compute exactly.
    """

    value: Tensor
    proven: Tensor
    over_budget: int


@dataclass(frozen=True)
class _Request:
    q_codes: Tensor
    q_scales: Tensor
    k_codes: Tensor
    k_scales: Tensor
    block_tables: Tensor
    weights: Tensor
    weight_scale: float
    windows: Windows
    width: int
    tree: Tree | None

    def rows(self, some: Tensor) -> Rows:
        codes = unpack_nibbles(self.q_codes[some])
        return cells.rows(codes, self.q_scales[some], self.weights[some], self.weight_scale)

    def keys(self, sequence: int, start: int, end: int) -> Side:
        return side(*read_keys(self.k_codes, self.k_scales, self.block_tables[sequence], end, start=start))

    def cells(self, part: Rows, keys: Side) -> Cells:
        if self.tree is None:
            return cells.exact_cells(part, keys)
        return cells.ordered_cells(part, keys, self.tree)


def score_windows(
    q_codes: Tensor,
    q_scales: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    block_tables: Tensor,
    weights: Tensor,
    weight_scale: float,
    windows: Windows,
    width: int,
    *,
    how: str | Tree,
) -> ScoreMap:
    """Score every row inside its window.

    q_codes uint8 [T, H, D/2]; q_scales uint8 [T, K, 4, 16, pad4(H/16)]; k_codes uint8
    [blocks, K, 4, rows, 16]; k_scales uint8 [blocks, K, 4, rows]; block_tables int32 [B, W];
    weights bfloat16 [T, H]. ``how`` is "exact", the name of a tree, or a `Tree`. Raises
    ValueError for a window past ``width`` or past its row of the table, and for unequal T.
    """
    if windows.rows != q_codes.shape[0]:
        raise ValueError(f"windows has {windows.rows} rows, allowed is {q_codes.shape[0]} as q_codes has")
    if windows.rows and int(windows.end.max()) > width:
        raise ValueError(f"windows ends at {int(windows.end.max())}, allowed are ends up to width = {width}")
    scales = read_query_scales(q_scales, q_codes.shape[1])
    tree = None if how == "exact" else find(how)
    request = _Request(
        q_codes, scales, k_codes, k_scales, block_tables, weights, weight_scale, windows, width, tree
    )
    value = torch.full((windows.rows, width), -torch.inf, device=q_codes.device)
    proven = (windows.start >= windows.end) | (tree is None)
    over = sum(_score(request, some, value, proven) for some in _row_sets(windows, q_codes.shape[1]))
    return ScoreMap(value, proven, over)


def _row_sets(windows: Windows, heads: int) -> Iterator[Tensor]:
    """Row numbers of one sequence with windows that are not empty, a few at a time."""
    busy = windows.start < windows.end
    for sequence in windows.seq[busy].unique().tolist():
        members = (busy & (windows.seq == sequence)).nonzero().flatten()
        yield from members.split(max(1, 512 // heads))


def _score(request: _Request, some: Tensor, value: Tensor, proven: Tensor) -> int:
    """Fill ``value`` and ``proven`` for the rows ``some`` of one sequence; dots over budget."""
    seen = Windows(request.windows.seq[some], request.windows.start[some], request.windows.end[some])
    part, sequence = request.rows(some), int(seen.seq[0])
    last, over = int(seen.end.max()), 0
    for start in range(int(seen.start.min()), last, cells.stretch(part)):
        end = min(start + cells.stretch(part), last)
        found = request.cells(part, request.keys(sequence, start, end))
        mask = visible(Windows(seen.seq, seen.start - start, seen.end - start), end - start)
        columns = value[:, start:end]
        columns[some] = torch.where(mask, found.value, columns[some])
        proven[some] &= (found.proven | ~mask).all(1)
        over += int(found.over[mask].sum())
    return over
