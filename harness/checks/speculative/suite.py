"""Suite speculative: a draft loop, in which every launch has a schedule and lengths that belong together.

Each launch is looked at when it is launched: at what lies at its addresses, against the windows that its
rows have by definition. The scores of the last draft step are compared as well, into a poisoned buffer. A
schedule of another step, of rows instead of sequences or of another micro-batch stays in bounds and only
loses the newest keys.
"""

from __future__ import annotations

import torch

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.replay import contents as replay_contents
from harness.checks.replay import publish as replay_publish
from harness.checks.speculative import launches as speculative_launches
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.publishing import Backends, DraftLoop
from oracles import publish


def check(case: Case, path: Path) -> Verdict:
    """Compare every launch of the path's draft loop with the definition, then backends and sizes."""
    book = Book(case, path)
    lengths = torch.tensor(case.ctx, dtype=torch.int32)
    units = publish.buffer_units(case.n, case.batch)
    buffers = replay_contents.poisoned_entries(case.ub * units).view(case.ub, units, 4)
    launches = speculative_launches.Launches(book, case, buffers)
    width = speculative_launches.width(case)
    book.ask(DraftLoop(lengths.clone(), case.n, case.steps, case.ub, width, buffers, launches))
    wrong = launches.ended() or _backends(book) or replay_publish.units_differ(book, case.n, case.batch)
    return wrong or launches.doubted()


def _backends(book: Book) -> Verdict | None:
    """Every attention backend answers the publish call; those that score FP4 act on it, and no other."""
    value = book.stage(Backends())
    if not isinstance(value, tuple) or len(value) != 3:
        return book.differ(compare.arity(value, 3), Grade.EXACT)
    answers, acts, should = value
    names = book.facts.get("backends") or [str(number) for number in range(len(answers))]
    rules = (
        ("does-not-answer-publish", ~answers),
        ("acts-without-fp4", acts & ~should),
        ("does-not-act", ~acts & should & answers),
    )
    for reason, wrong in rules:
        if bool(wrong.any()):
            who = [name for name, bad in zip(names, wrong.tolist(), strict=True) if bad]
            differs = Difference("mask", reason, scores.NO_CELLS, count=len(who), total=len(names))
            return book.differ(differs, Grade.EXACT, where={"backend": ", ".join(who)})
    book.total += len(answers)
    book.doubt(not bool(should.any()), "no backend scores FP4")
    return None
