"""What suite topk asks: one score matrix, its windows, and the two forms in which a path gets it.

Cells beyond the windows hold what would be selected first if it were read (infinity, the largest number,
NaN); the buffer for the ids lies between rows of the caller's that must come back as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import fill_scores
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill
from oracles import topk, windows
from oracles.topk import TopK
from oracles.windows import Windows

GAP = 37
"""Columns of poison between the rows of a strided matrix, at least."""
MARGIN = 2
"""Rows of the caller's before and behind the ids."""
UNWRITTEN = 0x5EADBEEF
"""What the ids hold before they are written: no column of any matrix."""
LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class Question:
    """One request, in words, and the whole buffer its ids are part of."""

    step: str
    request: SelectDecode | SelectPrefill
    buffer: Tensor

    def spilled(self) -> bool:
        """Whether something was written before or behind the ids."""
        outside = torch.cat((self.buffer[:MARGIN], self.buffer[-MARGIN:]))
        return bool((outside != UNWRITTEN).any())


@dataclass(frozen=True)
class Asked:
    """A case as tensors: scores float32 [T, W] and the windows they are seen through.

    ``zeros``: the convention that selections are held to, one of `oracles.topk.ZEROS`.
    """

    case: Case
    scores: Tensor
    windows: Windows
    zeros: str = topk.ZEROS[0]

    @cached_property
    def ranked(self) -> Tensor:
        """The scores as numbers that compare as ``zeros`` has it."""
        return topk.ranked(self.scores, self.zeros)

    @property
    def both_zeros(self) -> bool:
        """Whether a row that selects sees zeros of both signs, so that the convention matters."""
        zero = self.seen & (self.scores == 0) & (self.lengths > self.case.k)[:, None]
        minus = zero & self.scores.signbit()
        return bool((minus.any(1) & (zero & ~minus).any(1)).any())

    @cached_property
    def seen(self) -> Tensor:
        return windows.visible(self.windows, self.case.width)

    @cached_property
    def lengths(self) -> Tensor:
        """Visible keys of each row, int64 [T]."""
        return self.seen.sum(1)

    @cached_property
    def unordered(self) -> Tensor:
        """Rows bool [T] of which only the order of the numbers is specified."""
        return topk.unordered(self.scores, self.windows, self.case.k)

    @cached_property
    def settled(self) -> Windows:
        """The windows, empty where a row is `unordered`."""
        end = self.windows.end.where(~self.unordered, self.windows.start)
        return Windows(self.windows.seq, self.windows.start, end)

    @cached_property
    def wanted(self) -> TopK:
        """What is allowed in the windows `settled`."""
        return topk.topk(self.ranked, self.settled, self.case.k, bool(self.case.stable))

    @cached_property
    def tied(self) -> bool:
        """Whether some row has equal scores on both sides of its cut."""
        level = (self.ranked == self.wanted.cut[:, None]) & self.seen
        return bool((level.any(1) & (level & ~self._chosen).any(1)).any())

    @property
    def _chosen(self) -> Tensor:
        """Keys bool [T, W] of one right selection."""
        ids = self.wanted.ids
        chosen = torch.zeros(len(ids), self.case.width + 1, dtype=torch.bool)
        return chosen.scatter(1, ids.where(ids >= 0, self.case.width), True)[:, :-1]

    @property
    def open_rows(self) -> int:
        return int((self.wanted.places > 0).sum())

    def long_rows(self) -> list[int]:
        """Rows that see more than k keys."""
        return [int(row) for row in (self.lengths > self.case.k).nonzero().flatten()]

    def questions(self) -> Iterator[Question]:
        """The two forms; the second is asked when the first has been answered."""
        strided = torch.full((len(self.scores), self.stride), torch.inf)
        strided[:, self.case.width :] = LARGEST
        yield self._question("over strided rows with infinities beyond the windows", strided, self.seen)
        packed = torch.full((len(self.scores), self.case.width), torch.nan)
        looked_at = self.seen & (self.lengths > self.case.k)[:, None]
        yield self._question("over packed rows with NaNs wherever no score decides", packed, looked_at)

    @property
    def stride(self) -> int:
        """Elements between rows: more than the width, as where a scorer pads its buffer to 256."""
        return -(-(self.case.width + GAP) // 256) * 256

    def plain(self, row: int) -> PlainTopK:
        """The window of one row as a matrix of its own."""
        start, end = int(self.windows.start[row]), int(self.windows.end[row])
        return PlainTopK(self.scores[row : row + 1, start:end].clone(), self.case.k)

    def _question(self, step: str, ground: Tensor, shown: Tensor) -> Question:
        """``ground`` with the scores of the cells ``shown`` bool [T, W]."""
        case = self.case
        logits = ground[:, : case.width]
        logits[shown] = self.scores[shown]
        rows, k = len(self.scores), case.k
        buffer = torch.full((rows + 2 * MARGIN, k), UNWRITTEN, dtype=torch.int32)
        ids = buffer[MARGIN : MARGIN + rows]
        if case.kind == "decode":
            lengths = torch.tensor(case.ctx, dtype=torch.int32)
            return Question(step, SelectDecode(logits, lengths, case.n, k, bool(case.stable), ids), buffer)
        start, end = self.windows.start.to(torch.int32), self.windows.end.to(torch.int32)
        return Question(step, SelectPrefill(logits, start, end, k, bool(case.stable), ids), buffer)


def build(case: Case) -> Asked:
    """The tensors of a case of suite topk."""
    if case.kind == "decode":
        seen = windows.decode_windows(torch.tensor(case.ctx), case.n)
    else:
        seen = windows.prefill_windows(*torch.tensor(case.w, dtype=torch.int64).reshape(-1, 3).unbind(1))
    return Asked(case, fill_scores.scores(case.f, len(seen.end), case.width, case.s), seen)
