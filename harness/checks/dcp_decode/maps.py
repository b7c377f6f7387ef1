"""The path's maps of positions, asked over every position that can tell two rules apart.

For the case's own W and S: owner, local index and back, lengths and row lengths of every context from 0
on, on every rank, slots in permuted pages. Compared with the oracle's, and then with each other:
a position is written where the path says, and what is read back must be that position.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.fill import noise, pages
from harness.judge import compare
from harness.judge.verdict import Grade, Verdict
from harness.paths.oracle import OraclePath
from harness.paths.requests import sharding as asked
from harness.paths.requests.sharding import Place

LAST = 300
"""Positions go at least as far, and two whole turns and a bit."""


def check(book: Book) -> Verdict | None:
    """Every map the path has; the first that differs ends it."""
    case = book.case
    span = max(LAST, 2 * case.world * case.inter + case.inter + 1)
    position = torch.arange(span)
    for rank in range(case.world):
        place = Place(case.world, case.inter, rank)
        for request, name in _requests(case, place, position):
            wrong = _compared(book, request, name)
            if wrong is not None:
                return wrong
    return _payload(book, position)


def _requests(case: Case, place: Place, position: Tensor) -> list[tuple[Any, str]]:
    """Requests and what their elements are counted by."""
    span = len(position)
    every = torch.arange(span + 1, dtype=torch.int32)
    once: list[tuple[Any, str]] = [
        (asked.Owners(position, place), "position"),
        (asked.LocalIndices(position, place), "position"),
    ]
    widths = (case.width, 1, span, span + place.inter // 2, 10000)
    held = -(-span // place.world) + place.inter
    padded = torch.where(position % 5 == 4, -1 - position % 2, position)
    return [
        *(once if place.rank == 0 else []),
        (asked.GlobalPositions(torch.arange(held), place), "local index"),
        (asked.LocalLengths(every, place), "length"),
        (asked.RowLengths(every, case.n, place), "row of contexts 0, 1, ..."),
        (asked.RowLengths(torch.tensor(case.ctx, dtype=torch.int32), case.n, place), "row"),
        *((asked.LocalWidth(width, place), f"width of {width}") for width in widths),
        (asked.WriteSlots(padded, _tables(case, place, span), pages.PAGE, place), "place in the batch"),
    ]


def _tables(case: Case, place: Place, span: int) -> Tensor:
    """int32 [span, pages]: permuted pages of one sequence, another permutation on each rank."""
    count = -(-span // pages.PAGE) + 1
    row = noise.permutation(case.s, f"map pages of rank {place.rank}", count + 3)[:count]
    return row.to(torch.int32).repeat(span, 1)


def _compared(book: Book, request: Any, name: str) -> Verdict | None:
    if type(request) not in book.path.table:
        return None
    want: Tensor = OraclePath().run(request).value
    wrong = compare.integers(book.ask(request), want)
    if wrong is None:
        book.total += want.numel()
        return None
    where: dict[str, int | str] = {"map": type(request).__name__, "rank": request.place.rank}
    if wrong.first:
        where[name] = wrong.first[0]
    return book.differ(wrong, Grade.EXACT, where=where, step=f"for the map {type(request).__name__}")


def _payload(book: Book, position: Tensor) -> Verdict | None:
    """Write every position where the maps put it, and read it back on each rank."""
    case = book.case
    anywhere = Place(case.world, case.inter)
    owner = book.stage(asked.Owners(position, anywhere))
    local = book.stage(asked.LocalIndices(position, anywhere))
    for rank in range(case.world):
        place = Place(case.world, case.inter, rank)
        length = int(book.stage(asked.LocalLengths(torch.tensor([len(position)], dtype=torch.int32), place)))
        payload = torch.full((length,), -1)
        payload[local[owner == rank]] = position[owner == rank]
        wrong = compare.integers(book.stage(asked.GlobalPositions(torch.arange(length), place)), payload)
        if wrong is not None:
            where: dict[str, int | str] = {"rank": rank, "local index": wrong.first[0]}
            return book.differ(wrong, Grade.EXACT, where=where, step="for positions written and read back")
    return None
