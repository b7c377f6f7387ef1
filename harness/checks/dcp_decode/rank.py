"""What one rank process does: score its shard, select, exchange, merge, and name its own slots.

It is given its own planes and the global lengths and asks the path for everything else; what travels
between ranks goes through the process group. Its local selection is put into another order of columns
before it is sent, padding between ids, because any order is right and a merge must not count on one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.dcp_decode.shards import Share
from harness.fill import noise, pages
from harness.findings import Finding
from harness.judge.bits import SENTINEL
from harness.paths.base import Path
from harness.paths.requests import sharding as asked
from harness.paths.requests.scoring import DecodeSchedule, DecodeScores
from harness.paths.requests.selecting import SelectDecode
from harness.ranks.group import Group
from oracles import schedule
from oracles.windows import decode_windows

UNWRITTEN = (1 << 31) - 1


@dataclass(frozen=True)
class Answer:
    """What a rank came to. T rows, W' local columns.

    scores float32 [T, W'] in a poisoned buffer; local int32 [T, k] its selection as it was sent;
    sent: what it packed; merged int32 [T, k]: global ids, or columns where scores alone travelled;
    slots: (bounds int32 [T+1], slots int32) in its own pages; whole: ids and local lengths of the
    path's own exchange in one piece, None where it has none.
    """

    scores: Tensor
    local: Tensor
    sent: Any
    merged: Any
    slots: Any
    backend: str
    whole: Any = None
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def decode(path: Path, group: Group, share: Share) -> Answer:
    """The job of a rank. Raises `Unsupported` as the path does."""
    case, place = share.case, share.place
    book = Book(case, path)
    lengths = book.stage(asked.RowLengths(share.context_lens, case.n, place))
    width = int(book.stage(asked.LocalWidth(case.width, place))[0])
    scores = _scores(book, share, lengths, width)
    order = noise.permutation(case.s, f"candidates of rank {place.rank}", case.k)
    local = select(book, scores, lengths, case.k)[:, order].contiguous()
    sent = book.stage(asked.PackCandidates(scores, local, lengths, place))
    gathered = group.all_gather(sent[0])
    tables, rows = share.planes.block_tables, pages.PAGE
    if case.ex == "ids":
        merged = book.stage(asked.MergeCandidates(gathered, group.all_gather(sent[1]), case.k, place))
        slots = book.stage(asked.LocaliseIds(merged, tables, rows, place))
    else:
        merged = book.stage(asked.MergeColumns(gathered, case.k, place))
        slots = book.stage(asked.LocaliseColumns(merged, local, tables, rows, place))
    whole = _whole(book, share, scores, order, group) if case.ex == "ids" else None
    return Answer(scores, local, sent, merged, slots, group.backend, whole, tuple(book.findings), book.facts)


def _whole(book: Book, share: Share, scores: Tensor, order: Tensor, group: Group) -> Any:
    """The exchange of a path that has one in one piece; all ranks have the same path."""
    if asked.Exchange not in book.path.table:
        return None
    case = share.case
    ends = decode_windows(share.context_lens, case.n).end.to(torch.int32)
    return book.ask(asked.Exchange(scores, ends, case.width, order, group.all_gather, share.place))


def _scores(book: Book, share: Share, lengths: Tensor, width: int) -> Tensor:
    """Scores of the rank's own keys: one row a (sequence, draft position), its schedule for its width."""
    rows = len(lengths)
    units = rows * max(1, -(-width // schedule.BLOCK_K))
    made = book.stage(DecodeSchedule(lengths, 1, units, width))
    buffer = torch.full((rows, width), SENTINEL, dtype=torch.int32).view(torch.float32)
    book.stage(
        DecodeScores(
            share.planes,
            lengths,
            1,
            share.weight_scale,
            width,
            schedule=made,
            out=buffer,
            expected=share.inside,
        )
    )
    return buffer


def select(book: Book, scores: Tensor, lengths: Tensor, k: int) -> Tensor:
    """The local top-k, int32 [T, k], in a buffer whose ids no row has."""
    ids = torch.full((len(lengths), k), UNWRITTEN, dtype=torch.int32)
    book.stage(SelectDecode(scores, lengths, 1, k, stable=False, ids=ids))
    return ids
