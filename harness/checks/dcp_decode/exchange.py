"""From local selections to slots: what each rank sent, what all made of it, and where it lies.

A selection is compared with what every right one holds, not with an order; then it must be the same
set on every rank. Slots are followed back to the key that lies there, so a right id that was
translated with another rank's or the global table is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.dcp_decode import needles as dcp_needles
from harness.checks.dcp_decode import scores as dcp_scores
from harness.checks.dcp_decode import shards as dcp_shards
from harness.checks.dcp_decode.rank import Answer
from harness.checks.dcp_decode.selection import disagreement, selection
from harness.checks.dcp_decode.shards import Shard
from harness.fill.inputs import Inputs
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Verdict
from harness.judge.wanted import Wanted
from oracles import dcp, topk
from oracles.topk import TopK
from oracles.windows import Windows


def judge(
    book: Book, whole: Inputs, shards: list[Shard], want: Wanted, single: object, answers: list[Answer]
) -> Verdict | None:
    """Local selections, what was sent, what was merged, and the slots; the first difference ends it."""
    assert isinstance(single, Tensor)
    k, ids_travel = book.case.k, book.case.ex == "ids"
    right = topk.topk(single, whole.windows, k, stable=False)
    _needles(book, whole, right)
    for shard, answer in zip(shards, answers, strict=True):
        step, difference = _sent(shard, single, answer, k)
        if difference is not None:
            where = {"rank": shard.share.place.rank, **_row(whole, difference)}
            return book.differ(difference, want.grade, where=where, step=step)
        book.total += answer.local.numel()
    for step, difference in _merged(whole, shards, answers, right, ids_travel):
        if difference is not None:
            return book.differ(difference, want.grade, where=_row(whole, difference), step=step)
        book.total += int((right.ids >= 0).sum())
    return None


def _needles(book: Book, whole: Inputs, right: TopK) -> None:
    """Every row that sees a key must have its newest one in every right selection."""
    newest = dcp_needles.newest(whole)
    rows = (newest >= 0).nonzero().flatten()
    sure = right.must[rows, newest[rows]]
    book.facts["needles"] = int(sure.sum())
    book.doubt(
        not bool(sure.all()), f"{int((~sure).sum())} of {len(rows)} rows need not select their newest key"
    )


def _sent(shard: Shard, single: Tensor, answer: Answer, k: int) -> tuple[str, Difference | None]:
    """A rank's local selection, then the candidates it made of it."""
    rank, rows = shard.share.place.rank, torch.arange(len(shard.lengths))
    windows = Windows(rows, torch.zeros_like(rows), shard.lengths)
    own = dcp_scores.local(shard, single)
    step = f"for the local selection of rank {rank}"
    wrong = compare.shape(answer.local, (len(rows), k), torch.int32) or selection(
        answer.local, topk.topk(own, windows, k, stable=False)
    )
    if wrong is not None:
        return step, wrong
    step = f"for the candidates of rank {rank}"
    if not isinstance(answer.sent, tuple) or len(answer.sent) != 2:
        return step, compare.arity(answer.sent, 2)
    scores, ids = dcp.candidates(
        dcp_shards.sharding_of(shard.share.case), rank, own, answer.local, shard.lengths
    )
    start, end = torch.zeros_like(shard.lengths), torch.full_like(shard.lengths, k)
    return step, compare.scores(answer.sent[0], scores, start, end, None) or compare.integers(
        answer.sent[1], ids.to(torch.int32)
    )


def _merged(
    whole: Inputs, shards: list[Shard], answers: list[Answer], right: TopK, ids_travel: bool
) -> Iterator[tuple[str, Difference | None]]:
    """Each rank's merge, agreement, and the keys in the slots; later ones take earlier ones as right."""
    rows, k = len(whole.seq), whole.case.k
    for rank, answer in enumerate(answers):
        wrong = compare.shape(answer.merged, (rows, k), torch.int32)
        if wrong is None and ids_travel:
            wrong = selection(answer.merged, right)
        yield f"for what rank {rank} merged", wrong
    yield "for the merged selections of all ranks", disagreement([answer.merged for answer in answers])
    yield from _in_one_piece(shards, answers, right)
    emitted = []
    for shard, answer in zip(shards, answers, strict=True):
        found, wrong = _followed(shard, answer.slots, k)
        yield f"for the slots of rank {shard.share.place.rank}", wrong
        if ids_travel:
            yield f"for the slots of rank {shard.share.place.rank}", _owned(shard, answer.merged, found)
        emitted.append(found)
    yield "for the slots of all ranks together", selection(torch.cat(emitted, dim=1), right)


def _in_one_piece(
    shards: list[Shard], answers: list[Answer], right: TopK
) -> Iterator[tuple[str, Difference | None]]:
    """The path's own exchange, where it has one: its ids, the local lengths it took, agreement."""
    if answers[0].whole is None:
        return
    stopped = any(answer.whole[0] is None for answer in answers)  # which was a finding
    for shard, answer in zip(shards, answers, strict=True):
        step = f"for the whole exchange of rank {shard.share.place.rank}"
        ids, lengths = answer.whole
        yield f"{step}, its local lengths", compare.integers(lengths, shard.lengths.to(torch.int32))
        if not stopped:
            yield step, compare.shape(ids, answer.local.shape, torch.int32) or selection(ids, right)
    if not stopped:
        yield "for the whole exchange of all ranks", disagreement([answer.whole[0] for answer in answers])


def _followed(shard: Shard, slots: Any, k: int) -> tuple[Tensor, Difference | None]:
    """(positions int64 [T, k] of the keys in the slots, -1 padding; what is wrong with the slots)."""
    rows = len(shard.lengths)
    found = torch.full((rows, k), dcp.PAD)
    if not isinstance(slots, tuple) or len(slots) != 2:
        return found, compare.arity(slots, 2)
    bounds, where = slots
    wrong = compare.shape(bounds, (rows + 1,), torch.int32)
    if wrong is not None:
        return found, wrong
    edges = bounds.tolist()
    steps = bounds.diff()
    if edges[0] != 0 or bool((steps < 0).any() | (steps > k).any()):
        bad = torch.nonzero((steps < 0) | (steps > k))
        return found, Difference("bits", "bounds-not-a-running-sum", bad, str(edges[:8]), count=1, total=rows)
    wrong = compare.shape(where, (edges[-1],), torch.int32)
    if wrong is not None:
        return found, wrong
    row = torch.arange(rows).repeat_interleave(steps.long())
    inside = (where >= 0) & (where < len(shard.keys))
    key = shard.keys[where.long().clamp(0, len(shard.keys) - 1)].where(inside.unsqueeze(1), dcp.PAD)
    strange = (key[:, 0] != row // shard.share.case.n).nonzero()
    if len(strange):
        entry = int(strange[0])
        got = (
            f"slot {int(where[entry])} of sequence {int(key[entry, 0])}"
            if key[entry, 0] >= 0
            else (f"slot {int(where[entry])}, where no key of the rank lies")
        )
        cell = row[strange[:, 0]].unsqueeze(1)
        wanted = f"sequence {int(row[entry]) // shard.share.case.n}"
        return found, Difference(
            "bits", "slot-of-no-own-key", cell, got, wanted, count=len(strange), total=len(where)
        )
    found[row, torch.arange(len(row)) - bounds.long()[row]] = key[:, 1]
    return found, None


def _owned(shard: Shard, merged: Tensor, found: Tensor) -> Difference | None:
    """The keys in the slots must be exactly the merged ids that the rank holds."""
    place = shard.share.place
    sharding = dcp_shards.sharding_of(shard.share.case)
    mine = merged.long().where((merged >= 0) & (dcp.owner(sharding, merged.long()) == place.rank), dcp.PAD)
    want, got = mine.sort(1).values, found.sort(1).values
    bad = (want != got).any(1).nonzero()
    if not len(bad):
        return None
    row = int(bad[0])
    said = [[key for key in side[row].tolist() if key != dcp.PAD][:6] for side in (got, want)]
    return Difference(
        "bits", "not-the-ids-it-holds", bad, str(said[0]), str(said[1]), count=len(bad), total=len(want)
    )


def _row(whole: Inputs, wrong: Difference) -> dict[str, int | str]:
    if not wrong.first:
        return {}
    row = wrong.first[0]
    return {"row": row, "sequence": int(whole.seq[row]), "token": row % whole.case.n}
