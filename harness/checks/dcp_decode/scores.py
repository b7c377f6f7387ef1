"""Scores of shards: each rank's against the oracle's, and against those of one rank with all keys.

A key's score does not depend on where the key lies, so the bits are the same wherever they can be
demanded at all. Columns are local; differences are reported by global position.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.dcp_decode.rank import Answer
from harness.checks.dcp_decode.shards import Shard
from harness.fill.inputs import Inputs
from harness.judge import compare
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.judge.wanted import Wanted


def judge(
    book: Book, whole: Inputs, shards: list[Shard], want: Wanted, single: object, answers: list[Answer]
) -> Verdict | None:
    """The single rank against the oracle, then every rank against both."""
    wrong = want.compare(single, whole, MINUS_INFINITY)
    if wrong is not None:
        return book.differ_on(wrong, want.grade, whole.grid, step="for the scores of one rank with all keys")
    assert isinstance(single, Tensor)
    for shard, answer in zip(shards, answers, strict=True):
        rank = shard.share.place.rank
        wrong = _against_oracle(shard, want, answer.scores)
        step = f"for the scores of rank {rank}"
        if wrong is None and want.grade is Grade.BOUNDED:
            wrong = _against(shard, single, answer.scores)
            step += ", against one rank with all keys"
        if wrong is not None:
            return book.differ(wrong, want.grade, where=_where(shard, wrong), step=step)
        book.total += int(shard.lengths.sum())
    return None


def local(shard: Shard, matrix: Tensor) -> Tensor:
    """The columns of the rank's own keys of a matrix [T, W] over all keys; 0 outside the windows."""
    return matrix.gather(1, shard.positions.clamp(min=0)).where(shard.positions >= 0, 0)


def _against_oracle(shard: Shard, want: Wanted, got: Tensor) -> Difference | None:
    if want.grade is not Grade.BOUNDED:
        return _against(shard, want.value, got)
    start = torch.zeros_like(shard.lengths)
    wrong = compare.mask(got, local(shard, want.value), start, shard.lengths, SENTINEL)
    if wrong is not None:
        return wrong
    assert want.exact is not None and want.allowed is not None
    return compare.bounded(got, local(shard, want.exact), local(shard, want.allowed), start, shard.lengths)


def _against(shard: Shard, matrix: Tensor, got: Tensor) -> Difference | None:
    start = torch.zeros_like(shard.lengths)
    return compare.scores(got, local(shard, matrix), start, shard.lengths, SENTINEL)


def _where(shard: Shard, wrong: Difference) -> dict[str, int | str]:
    """The cell by rank, row, and local and global column."""
    spot: dict[str, int | str] = {"rank": shard.share.place.rank}
    if not wrong.first:
        return spot
    row, column = wrong.first
    case = shard.share.case
    spot |= {"row": row, "sequence": row // case.n, "token": row % case.n, "local column": column}
    position = int(shard.positions[row, column])
    return spot | {"position": position if position >= 0 else "outside the window"}
