"""Suite topk: are the k largest visible keys selected, ties at the cut and all?

Selections are judged as sets of positions: no key missing, none foreign, none doubled, of the tie class
at the cut as many as there are places. Each case is asked twice, into a buffer with rows of the
caller's before and behind: over rows that lie further apart than they are wide, with infinities beyond
the windows, then over packed rows with NaNs there, and NaNs in every row that sees at most k keys, where
no score may be looked at. How it would fail silently: with one row every stride is right, and where no
row sees more than k keys nothing is selected, so such cases are mistrusted.
"""

from __future__ import annotations

from dataclasses import replace

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.topk import judging as topk_judge
from harness.checks.topk.asked import Asked, build
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import OutOfScope, Path
from harness.paths.requests.selecting import PlainTopK


def check(case: Case, path: Path) -> Verdict:
    """Compare the path's selections with what the oracle allows."""
    book, asked = Book(case, path), build(case)
    own = replace(asked, zeros=path.zeros(next(asked.questions()).request))
    try:
        wrong = _asked(book, own)
    except OutOfScope as absent:
        if PlainTopK not in path.table:
            raise
        if case.stable:
            raise OutOfScope(f"{absent}; its general top-k states no rule for ties") from absent
        book.note(f"{absent}; what is asked here is a general top-k, row by row")
        own, wrong = asked, _plain(book, asked)
    else:
        if wrong is None and not case.stable and PlainTopK in path.table:
            wrong = _beside(book, asked)
    if wrong is not None:
        return wrong
    _doubts(book, own)
    return book.agree(Grade.EXACT)


def _asked(book: Book, asked: Asked) -> Verdict | None:
    layouts = []
    for question in asked.questions():
        value = book.ask(question.request)
        wrong = topk_judge.judge(book, asked, question, value)
        if wrong is not None:
            return wrong
        layouts.append(value)
        book.total += value.numel()
    book.facts["order"] = topk_judge.order_of(layouts[0], asked)
    return topk_judge.repeatable(book, asked, layouts) if asked.case.stable else None


def _plain(book: Book, asked: Asked) -> Verdict | None:
    """The general top-k, asked for the window of each row that sees more than k keys."""
    if long_rows := asked.long_rows():
        asked = replace(asked, zeros=book.path.zeros(asked.plain(long_rows[0])))
    for row in long_rows:
        value = book.ask(asked.plain(row))
        wrong = topk_judge.judge_plain(book, asked, row, value)
        if wrong is not None:
            return wrong
        book.total += asked.case.k
    return None


def _beside(book: Book, asked: Asked) -> Verdict | None:
    """The general top-k of a path that has the indexer's own: asked as well, where it can be."""
    try:
        return _plain(book, asked)
    except OutOfScope as absent:
        book.note(f"{absent}; it was not asked, the indexer's own was")
        return None


def _doubts(book: Book, asked: Asked) -> None:
    case, long_rows = asked.case, asked.long_rows()
    if asked.both_zeros:
        book.facts["-0 and 0"] = asked.zeros
    book.facts |= {"rows that select": len(long_rows), "rows with an open tie": asked.open_rows}
    book.doubt(not long_rows, "no row sees more than k keys, so nothing is selected")
    book.doubt(len(asked.windows.end) < 2, "one row: a wrong row stride does not show")
    book.doubt(case.f in ("ties", "plateau") and not asked.tied, "no scores are equal across a cut")
    book.doubt(
        case.kind == "prefill" and not bool((asked.windows.start > 0).any()), "all windows start at column 0"
    )
    book.doubt(bool(asked.unordered.any()), "which keys a row with NaNs selects is not specified")
