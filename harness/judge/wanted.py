"""What the scores must be, and how strongly that can be demanded.

Exact where the proof holds for every row that sees a key, else ordered under the tree that
the path declares, else bounded. A path's declared tree is taken at its word here; a wrong
declaration shows as differing bits, and never as a weaker grade.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.fill.inputs import Inputs, rows_of
from harness.judge import bits, compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade
from oracles import layout, score
from oracles.windows import Windows

SAMPLE = 4
"""Rows on which the exact and the ordered oracle are held against each other in every exact case."""


class OracleError(Exception):
    """The oracles contradict each other; no verdict about a path can be given."""


@dataclass(frozen=True)
class Wanted:
    """value float32 [T, W]; for grade bounded also exact and allowed float64 [T, W]."""

    value: Tensor
    grade: Grade
    over_budget: int
    notes: tuple[str, ...] = ()
    exact: Tensor | None = None
    allowed: Tensor | None = None

    def compare(self, got: object, inputs: Inputs, outside: int | None) -> Difference | None:
        """Difference of ``got`` at this grade; cells outside must hold the bit pattern ``outside``."""
        if self.grade is not Grade.BOUNDED:
            return compare.scores(got, self.value, inputs.start, inputs.end, outside)
        assert self.exact is not None and self.allowed is not None
        wrong = compare.mask(got, self.value, inputs.start, inputs.end, outside)
        if wrong is not None or not isinstance(got, Tensor):
            return wrong
        return compare.bounded(got, self.exact, self.allowed, inputs.start, inputs.end)


def scored(inputs: Inputs, how: Any, rows: Tensor | None = None) -> score.ScoreMap:
    """Oracle scores of all rows, or of ``rows`` int64, under ``how`` ("exact", a tree name, a tree)."""
    planes = inputs.planes if rows is None else rows_of(inputs.planes, rows)
    seq, start, end = (w if rows is None else w[rows] for w in (inputs.seq, inputs.start, inputs.end))
    return score.score_windows(
        planes.q_codes,
        planes.q_scales,
        planes.k_codes,
        planes.k_scales,
        planes.block_tables,
        planes.weights,
        inputs.filled.weight_scale,
        Windows(seq, start, end),
        inputs.width,
        how=how,
    )


def want(inputs: Inputs, tree: str | None) -> Wanted:
    """The wanted scores at the best grade that can be had. Raises `OracleError`."""
    busy = inputs.end > inputs.start
    notes: tuple[str, ...] = ()
    if inputs.filled.exactable:
        exact = scored(inputs, "exact")
        if bool(exact.proven[busy].all()):
            _agree_on_sample(inputs, exact.value, busy, tree or "decode")
            return Wanted(exact.value, Grade.EXACT, exact.over_budget)
        notes = (f"exact grade proved for {int(exact.proven[busy].sum())} of {int(busy.sum())} rows only",)
    if tree is not None:
        ordered = scored(inputs, tree)
        return Wanted(ordered.value, Grade.ORDERED, ordered.over_budget, notes)
    return _bounded(inputs, notes)


def _agree_on_sample(inputs: Inputs, exact: Tensor, busy: Tensor, tree: str) -> None:
    """Where every partial sum is exact, the ordered oracle must give the exact bits."""
    rows = busy.nonzero().flatten()
    if not len(rows):
        return
    rows = rows[torch.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).long()]
    ordered = scored(inputs, tree, rows).value
    if not bool(bits.same(ordered, exact[rows]).all()):
        raise OracleError(f"the exact and the {tree} oracle differ in a row whose exactness is proved")


def _bounded(inputs: Inputs, notes: tuple[str, ...]) -> Wanted:
    """Exact value and rounding bound, row by row.

    Dots inside the budget of the matrix instruction are exact in any order, which leaves the sum
    over heads and two products as the longest chain; else the dots round as well.
    """
    size = (len(inputs.seq), inputs.width)
    exact, allowed = torch.full(size, -torch.inf, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    over = 0
    for row in (inputs.end > inputs.start).nonzero().flatten().tolist():
        operands = operands_of(inputs, row)
        beyond = int(score.dot_budget(operands).sum())
        heads, dim = inputs.case.h, inputs.case.d
        bound = score.bounded(operands, score.longest_chain(heads, dim) if beyond else heads + 2)
        over += beyond
        inside = slice(int(inputs.start[row]), int(inputs.end[row]))
        exact[row, inside], allowed[row, inside] = bound.exact[0], bound.allowed[0]
    return Wanted(exact.float(), Grade.BOUNDED, over, notes, exact, allowed)


def operands_of(inputs: Inputs, row: int) -> score.Operands:
    """Unpacked operands of one row and the keys in its window."""
    planes, start, end = inputs.planes, int(inputs.start[row]), int(inputs.end[row])
    table = planes.block_tables[int(inputs.seq[row])]
    k_codes, k_scales = layout.read_keys(planes.k_codes, planes.k_scales, table, end, start=start)
    return score.Operands(
        layout.unpack_nibbles(planes.q_codes[row : row + 1]),
        layout.read_query_scales(planes.q_scales[row : row + 1], planes.heads),
        k_codes,
        k_scales,
        planes.weights[row : row + 1],
        inputs.filled.weight_scale,
    )
