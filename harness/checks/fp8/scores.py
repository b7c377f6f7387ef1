"""What the two kinds of suite fp8 share: the wanted scores, judging an answer, the doubts.

Every answer of a case must carry the same bits, whatever the width of a page's rows or the buffer:
nothing is added across keys. An inner difference within the rounding bound would hide behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.fill.fill_eightbit import Filled, Shape
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.coordinates import Grid, token_in_sequence
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from oracles import eightbit_score
from oracles.score import UNIT_ROUNDOFF
from oracles.windows import Windows

FEW_CODES = 200
"""Fewer distinct codes than this (of 254 or 255) in 64 keys or more prove little about decoding."""


@dataclass(frozen=True)
class Wanted:
    """value float32 [T, W]; proven bool, exact and allowed float64 [T, W]; windows; Grid for coordinates."""

    value: Tensor
    proven: Tensor
    exact: Tensor
    allowed: Tensor
    rows: Windows
    grid: Grid

    @property
    def inside(self) -> Tensor:
        column = torch.arange(self.value.shape[1])
        return (column >= self.rows.start[:, None]) & (column < self.rows.end[:, None])

    @property
    def grade(self) -> Grade:
        return Grade.EXACT if bool(self.proven[self.inside].all()) else Grade.BOUNDED

    def compare(self, got: object, outside: int | None) -> Difference | None:
        """Shape, mask, bits of the proven cells, then the bound of the others."""
        start, end = self.rows.start, self.rows.end
        wrong = compare.mask(got, self.value, start, end, outside)
        if wrong is not None or not isinstance(got, Tensor):
            return wrong
        settled = self.inside & self.proven
        wrong = compare.scores(torch.where(settled, got, self.value), self.value, start, end, None)
        if wrong is not None or bool(settled[self.inside].all()):
            return wrong
        open_ = torch.where(settled, self.value, got)
        return compare.bounded(open_, self.exact, self.allowed, start, end)


def wanted(shape: Shape, filled: Filled, rows: Windows, tables: Tensor, width: int, path: Path) -> Wanted:
    """The oracle's scores. ``rows`` are windows in each sequence's own positions; columns are those, too."""
    first = torch.tensor([0, *shape.lengths]).cumsum(0)
    size = (rows.rows, width)
    value, proven = torch.zeros(size), torch.zeros(size, dtype=torch.bool)
    exact, allowed = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    # A device's adder may truncate; what runs here rounds to nearest.
    roundoff = eightbit_score.TRUNCATING if path.executor.startswith("device") else UNIT_ROUNDOFF
    for row in (rows.end > rows.start).nonzero().flatten().tolist():
        reach = slice(int(rows.start[row]), int(rows.end[row]))
        keys = slice(*(int(first[int(rows.seq[row])]) + edge for edge in (reach.start, reach.stop)))
        operands = eightbit_score.Operands(
            filled.q_codes[row : row + 1],
            filled.weights[row : row + 1],
            filled.k_codes[keys],
            filled.k_scales[keys],
            shape.format,
        )
        made = eightbit_score.scores(operands, roundoff=roundoff)
        value[row, reach], proven[row, reach] = made.value[0], made.proven[0]
        exact[row, reach], allowed[row, reach] = made.exact[0], made.allowed[0]
    grid = Grid(rows.seq, rows.start, rows.end, token_in_sequence(rows.seq), tables.long())
    return Wanted(value, proven, exact, allowed, rows, grid)


def same_bits(got: Tensor, first: Tensor, want: Wanted) -> Difference | None:
    """Difference of two answers of one path inside the windows."""
    return compare.scores(got, first, want.rows.start, want.rows.end, None)


def doubted(book: Book, want: Wanted, filled: Filled, seen: Tensor) -> Verdict:
    """The verdict of a case whose answers are all right; ``seen`` bool [L]: keys that some row sees."""
    values = want.value[want.inside]
    zeros = int((values == 0).sum())
    book.doubt(2 * zeros > len(values), f"{zeros} of {len(values)} scores are zero")
    book.facts["cells proven exact"] = int(want.proven[want.inside].sum())
    busy = want.rows.end > want.rows.start
    for side, codes in (("queries", filled.q_codes[busy]), ("keys", filled.k_codes[seen])):
        distinct = int((torch.bincount(codes.flatten(), minlength=256) > 0).sum())
        book.facts[f"codes of {side}"] = distinct
        few = book.case.f in ("bytes", "boundary") and side == "keys" and distinct < FEW_CODES
        book.doubt(few and int(seen.sum()) >= 64, f"{distinct} codes occur in the {side}")
    book.doubt(len(filled.k_scales[seen].unique()) < 2, "all keys have one scale")
    book.doubt(book.case.t == "identity", "the page table is the identity")
    return book.agree(want.grade)


def seen_keys(shape: Shape, rows: Windows) -> Tensor:
    """bool [L]: keys of all sequences in turn that some row sees."""
    first = torch.tensor([0, *shape.lengths]).cumsum(0)
    seen = torch.zeros(shape.keys, dtype=torch.bool)
    for seq, start, end in zip(rows.seq.tolist(), rows.start.tolist(), rows.end.tolist(), strict=True):
        seen[int(first[seq]) + start : int(first[seq]) + max(start, end)] = True
    return seen
