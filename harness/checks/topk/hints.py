"""What a wrong selection would be right for: one wrong rule at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from harness.checks.topk.asked import Asked
from oracles import topk

OTHER_ZEROS = {
    "equal": ("if -0 were below +0", "ordered"),
    "ordered": ("if -0 and +0 were equal, as this path says they are not", "equal"),
}
"""By the convention that is declared: what the other one is, in words, and its name."""


def hint(asked: Asked, ids: Tensor, row: int, key: int | None, *, whole: bool) -> str:
    """A rule under which ``ids`` int [T, k] would be right, else what ``key`` of ``row`` is; or nothing.

    ``whole``: all rows were asked about, not ``row`` alone.
    """
    if key is not None and key == int(asked.windows.end[row]):
        return "the column just past the end of its row (row end one too long?)"
    if key is not None and key == int(asked.windows.start[row]) - 1:
        return "the column just before the start of its row (row start one too early?)"
    rows = (asked.lengths > asked.case.k) & ~asked.unordered
    if not whole:
        rows &= torch.arange(len(rows)) == row
    for text, scores, stable in _flaws(asked):
        other = topk.topk(scores, asked.settled, asked.case.k, stable)
        if bool(topk.check_selection(ids, other).ok[rows].all()):
            return f"right {text}"
    return ""


def _flaws(asked: Asked) -> Iterator[tuple[str, Tensor, bool]]:
    """(in words, the scores or another matrix, whether ties go to the smallest position)."""
    stable = bool(asked.case.stable)
    text, zeros = OTHER_ZEROS[asked.zeros]
    yield text, topk.ranked(asked.scores, zeros), stable
    if stable:
        yield "but for ties, which do not go to the smallest positions", asked.ranked, False
    yield "for the smallest scores", -asked.ranked, stable
    column = torch.arange(asked.case.width).float().expand(asked.scores.shape)
    yield "for the first keys, whatever their scores", -column, stable
    yield "for the last keys, whatever their scores", column, stable
