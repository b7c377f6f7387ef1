"""Judging one selection: what is wrong with which row, and which key shows it.

In fixed order: shape, what lies around the ids, cells never written or padding that is not -1, keys
taken twice, keys that may not be there, keys that are missing, places of the tie class.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.checks.topk import hints as topk_hints
from harness.checks.topk.asked import UNWRITTEN, Asked, Question
from harness.judge import compare
from harness.judge.bits import bits_of, decimal
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.requests.selecting import PAD
from oracles import topk

REASONS = {
    "doubled": "keys-selected-twice",
    "foreign": "keys-selected-wrongly",
    "missing": "keys-not-selected",
    "open_places": "tie-class-miscounted",
}


def judge(book: Book, asked: Asked, question: Question, value: object) -> Verdict | None:
    """The answer to ``question``; None when it is one of the right ones."""
    wrong = compare.shape(value, (len(asked.scores), asked.case.k), torch.int32)
    if wrong is not None:
        return book.differ(wrong, Grade.EXACT, step=question.step)
    assert isinstance(value, Tensor)
    if question.spilled():
        spilled = Difference("mask", "written-outside-the-ids", torch.empty(0, 2), count=1, total=1)
        return book.differ(spilled, Grade.EXACT, step=question.step)
    if not torch.equal(value, question.request.ids.cpu()):
        other = Difference("mask", "not-in-the-buffer-given", torch.empty(0, 2), count=1, total=1)
        return book.differ(other, Grade.EXACT, step=question.step)
    return _cells(book, value, question.step) or _selected(book, asked, value, question.step)


def judge_plain(book: Book, asked: Asked, row: int, value: object) -> Verdict | None:
    """The answer of a general top-k about the window of ``row``."""
    step = f"about row {row} alone"
    if not isinstance(value, Tensor):
        return book.differ(compare.arity(value, 1), Grade.EXACT, step=step)
    wrong = compare.shape(value, (1, asked.case.k), value.dtype)
    if wrong is not None or value.is_floating_point():
        wrong = wrong or Difference("shape", "wrong-type", torch.empty(0, 0), str(value.dtype), "integers")
        return book.differ(wrong, Grade.EXACT, step=step)
    ids = torch.full((len(asked.scores), asked.case.k), PAD)
    outside = (value[0] < 0) | (value[0] >= asked.lengths[row])
    ids[row] = torch.where(outside, asked.case.width, value[0].long() + asked.windows.start[row])
    return _selected(book, asked, ids, step, only=row)


def repeatable(book: Book, asked: Asked, layouts: list[Tensor]) -> Verdict | None:
    """Where the choice among ties is fixed the list is too: ranks hand it on without comparing."""
    long_rows = torch.tensor(asked.long_rows(), dtype=torch.int64)
    cells = (layouts[0][long_rows] != layouts[1][long_rows]).nonzero()
    if not len(cells):
        return None
    cells[:, 0] = long_rows[cells[:, 0]]
    row, place = cells[0].tolist()
    got, want = (str(int(layout[row, place])) for layout in (layouts[1], layouts[0]))
    moved = Difference("bits", "order-changes-between-calls", cells, got, want, count=len(cells))
    return book.differ(moved, Grade.EXACT, where={"row": row, "place": place})


def order_of(ids: Tensor, asked: Asked) -> str:
    """How the ids of rows that select are listed: by score, by position, or neither."""
    rows = [row for row in asked.long_rows() if not bool(asked.unordered[row])]
    lists = [ids[row][ids[row] >= 0].long() for row in rows]
    if all(bool((one.diff() > 0).all()) for one in lists):
        return "ascending positions"
    falling = [asked.scores[row][one] for row, one in zip(rows, lists, strict=True)]
    return "descending scores" if all(bool((one[1:] <= one[:-1]).all()) for one in falling) else "none"


def _cells(book: Book, value: Tensor, step: str) -> Verdict | None:
    """Every place holds a column or -1."""
    for reason, bad in (
        ("places-never-written", value == UNWRITTEN),
        ("padding-is-not-minus-one", (value < 0) & (value != PAD)),
    ):
        if bool(bad.any()):
            cells = bad.nonzero()
            got = str(int(value[tuple(cells[0])]))
            wrong = Difference(
                "mask", reason, cells, got, "a column or -1", count=len(cells), total=value.numel()
            )
            return book.differ(wrong, Grade.EXACT, where=_place(cells[0]), step=step)
    return None


def _place(cell: Tensor) -> dict[str, int | str]:
    return {"row": int(cell[0]), "place": int(cell[1])}


def _selected(book: Book, asked: Asked, ids: Tensor, step: str, only: int | None = None) -> Verdict | None:
    rows = torch.ones(len(ids), dtype=torch.bool) if only is None else torch.arange(len(ids)) == only
    specified = rows & ~asked.unordered
    found = topk.check_selection(ids, asked.wanted)
    for name, reason in REASONS.items():
        bad = specified & (getattr(found, name) != 0)
        if bool(bad.any()):
            return _differs(book, asked, ids, bad, name, reason, step)
    bad = rows & asked.unordered & ~topk.numbers_in_order(ids, asked.ranked, asked.windows, asked.case.k)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        wrong = Difference(
            "bits", "numbers-out-of-order", bad.nonzero(), count=int(bad.sum()), total=len(ids)
        )
        return book.differ(wrong, Grade.EXACT, where={"row": row}, step=step)
    return None


def _differs(
    book: Book, asked: Asked, ids: Tensor, bad: Tensor, name: str, reason: str, step: str
) -> Verdict:
    """The verdict for the first of the rows ``bad``, with a key that shows it."""
    row = int(bad.nonzero()[0])
    key, got, want = _shown(asked, ids[row].long(), row, name)
    count = int(getattr(topk.check_selection(ids, asked.wanted), name)[bad].abs().sum())
    wrong = Difference("bits", reason, bad.nonzero(), got, want, count=count, total=ids.numel())
    where: dict[str, int | str] = {
        "row": row,
        "sequence": int(asked.windows.seq[row]),
        "window": f"{int(asked.windows.start[row])}:{int(asked.windows.end[row])}",
        **({} if key is None else {"key": key}),
        "cut": decimal(int(bits_of(asked.wanted.cut[row : row + 1].float()))),
        "rows": int(bad.sum()),
    }
    hint = topk_hints.hint(asked, ids, row, key, whole=step.startswith("over"))
    return book.differ(wrong, Grade.EXACT, where=where, shared=hint, step=step)


def _shown(asked: Asked, ids: Tensor, row: int, name: str) -> tuple[int | None, str, str]:
    """(key, got, want) of one key of ``row`` that is wrong in the way ``name`` says."""
    wanted, width = asked.wanted, asked.case.width
    chosen = torch.zeros(width, dtype=torch.bool)
    chosen[ids[(ids >= 0) & (ids < width)]] = True
    if name == "doubled":
        keys, times = ids[ids >= 0].unique(return_counts=True)
        first = int((times > 1).nonzero()[0])
        return int(keys[first]), f"{int(times[first])} times", "once"
    if name == "missing":
        key = int((wanted.must[row] & ~chosen).nonzero()[0])
        return key, "not selected", f"selected, score {_score(asked, row, key)}"
    if name == "foreign":
        beyond = ids[ids >= width]
        if len(beyond):
            return int(beyond[0]), "selected", f"a column below {width}"
        key = int((chosen & ~wanted.must[row] & ~wanted.may[row]).nonzero()[0])
        inside = bool(asked.seen[row, key])
        why = f"score {_score(asked, row, key)}" if inside else "outside the window"
        return key, "selected", f"not selected, {why}"
    taken = int((chosen & wanted.may[row]).sum())
    return None, f"{taken} of the tie class", f"{int(wanted.places[row])} of {int(wanted.may[row].sum())}"


def _score(asked: Asked, row: int, key: int) -> str:
    return decimal(int(bits_of(asked.scores[row, key : key + 1])))
