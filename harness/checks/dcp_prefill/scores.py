"""Suite dcp-prefill, the scores: staged keys score as if they had never been apart.

The same rows are scored over the unsharded pool, over the staged batch, in two chunks (each over
what there was at the time), and as a prefix hit (the late rows of one sequence by itself). A row's
bits and its selection must be the same every time: no sum reaches across keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.dcp_prefill.shards import Job
from harness.fill.inputs import Inputs, rows_of
from harness.judge import compare
from harness.judge.bits import MINUS_INFINITY
from harness.judge.compare import Difference
from harness.judge.coordinates import Grid, token_in_sequence
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Unsupported
from harness.paths.requests.scoring import PrefillScores
from harness.paths.requests.selecting import SelectPrefill
from oracles import schedule, topk
from oracles.staging import Staged
from oracles.windows import Windows

NO_CELLS = torch.empty(0, 2, dtype=torch.int64)
UNWRITTEN = 1 << 30
"""What the buffer of ids holds before it is written: no key."""


@dataclass(frozen=True)
class Part:
    """Query rows ``rows`` int64 [n] of a case, scored over the staged keys of a job."""

    inputs: Inputs
    job: Job
    planes: Staged
    rows: Tensor

    @property
    def sequence(self) -> Tensor:
        """Sequence of the job that each row belongs to, int64 [n]."""
        place = torch.full((self.inputs.case.batch,), -1)
        place[list(self.job.chosen)] = torch.arange(len(self.job.chosen))
        return place[self.inputs.seq[self.rows]]

    @property
    def shift(self) -> Tensor:
        """Staged column of each row's position 0, int64 [n]."""
        return self.job.starts[self.sequence]

    @property
    def windows(self) -> Windows:
        """In columns of the staged keys."""
        start, end = (bound[self.rows] + self.shift for bound in (self.inputs.start, self.inputs.end))
        return Windows(self.sequence, start, end)

    def request(self) -> PrefillScores:
        planes = replace(
            rows_of(self.inputs.planes, self.rows),
            k_codes=self.planes.k_codes,
            k_scales=self.planes.k_scales,
            block_tables=self.planes.block_tables,
            defined={},
        )
        seq, start, end = (
            part.to(torch.int32) for part in (self.windows.seq, self.windows.start, self.windows.end)
        )
        scale = self.inputs.filled.weight_scale
        return PrefillScores(
            planes, seq, start, end, scale, max(1, self.job.total), units(self.windows), expected=self.inside
        )

    @property
    def inside(self) -> Tensor:
        """bool [n, total]: the cells that must be stored."""
        column = torch.arange(max(1, self.job.total))
        return (column >= self.windows.start[:, None]) & (column < self.windows.end[:, None])

    def expected(self, unsharded: Tensor) -> Tensor:
        """Scores of the unsharded pool float32 [T, width] moved to the columns of the staged keys."""
        moved = torch.full((len(self.rows), max(1, self.job.total)), -torch.inf)
        cells = self.inside.nonzero()
        row, column = cells.unbind(1)
        moved[row, column] = unsharded[self.rows[row], column - self.shift[row]]
        return moved

    @property
    def grid(self) -> Grid:
        seen = self.windows
        tables = self.planes.block_tables.long()
        return Grid(seen.seq, seen.start, seen.end, token_in_sequence(seen.seq), tables)


def compared(book: Book, part: Part, unsharded: Tensor, step: str) -> Verdict | None:
    """Bits of ``part`` against the unsharded scores, then which keys its rows select."""
    got = book.stage(part.request())
    seen = part.windows
    wrong = compare.scores(got, part.expected(unsharded), seen.start, seen.end, MINUS_INFINITY)
    if wrong is not None:
        return book.differ_on(wrong, Grade.EXACT, part.grid, step=step)
    book.total += int(part.inside.sum())
    return selected(book, part, got, unsharded, step)


def selected(book: Book, part: Part, got: Tensor, unsharded: Tensor, step: str) -> Verdict | None:
    """The keys that ``part``'s rows select, by position, against what the unsharded scores allow."""
    rows = part.rows
    chosen = select(book, part, got)
    shift = part.shift[:, None]
    position = torch.where(chosen < shift, UNWRITTEN, chosen - shift).masked_fill(chosen < 0, topk.PAD)
    at_home = Windows(*(bound[rows] for bound in (part.inputs.seq, part.inputs.start, part.inputs.end)))
    wanted = topk.topk(unsharded[rows], at_home, part.inputs.case.k, stable=False)
    found = topk.check_selection(position, wanted)
    if not bool(found.ok.all()):
        row = int((~found.ok).nonzero()[0])
        said = f"{int(found.foreign[row])} wrong keys, {int(found.doubled[row])} twice"
        want = f"{int(found.missing[row])} keys that are missing"
        wrong = Difference("mask", "other-keys-selected", NO_CELLS, said, want, total=len(rows), count=1)
        return book.differ(wrong, Grade.EXACT, where={"row": int(rows[row])}, step=step)
    book.total += int((chosen >= 0).sum())
    return None


def select(book: Book, part: Part, got: Tensor) -> Tensor:
    """Columns int64 [n, k] of the staged keys that the path selects, or the oracle if it has no top-k."""
    case, seen = part.inputs.case, part.windows
    if SelectPrefill in book.path.table:
        start, end = seen.start.to(torch.int32), seen.end.to(torch.int32)
        ids = torch.full((len(part.rows), case.k), UNWRITTEN, dtype=torch.int32)
        request = SelectPrefill(got, start, end, case.k, stable=False, ids=ids)
        try:
            return torch.as_tensor(book.ask(request)).long()
        except Unsupported as refusal:
            book.note(f"the oracle selects: {refusal}")
    return topk.topk(got, seen, case.k, stable=False).ids


def cuts(inputs: Inputs) -> Tensor:
    """Keys of each sequence that a first chunk brings, int64 [B]: up to the middle of its rows."""
    cut = torch.zeros(inputs.case.batch, dtype=torch.int64)
    for sequence in range(inputs.case.batch):
        ends = inputs.end[inputs.seq == sequence].sort().values
        if len(ends):
            cut[sequence] = ends[(len(ends) - 1) // 2]
    return cut


def units(seen: Windows) -> int:
    """Schedule units: one a chunk. The floor of production would be thousands of idle ones."""
    return max(seen.rows, int(schedule.chunks(seen.end).sum()))
