"""Suite varqlen: sequences with their own query counts; the windows, then the scores.

The windows are compared entry for entry, padding rows included: a padding row whose window is
not empty is scored into whatever the caller's top-k reads next.
"""

from __future__ import annotations

import torch

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.decode import SPILLED
from harness.fill.inputs import Inputs, build
from harness.judge import compare, wanted
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from harness.paths.requests.scoring import VarqlenWindows

FIELDS = ("sequence", "start", "end")


def check(case: Case, path: Path) -> Verdict:
    """Compare the window builder and the varqlen scorer with the oracle."""
    book, inputs = Book(case, path), build(case)
    wrong = check_windows(book, inputs)
    if wrong is not None:
        return wrong
    first = inputs.varqlen(units=case.units)
    answers = [scores.Answer("with its own buffer", book.ask(first))]
    again = inputs.buffer()
    value = scores.placed(again, book.ask(inputs.varqlen(units=case.units, out=again)))
    answers.append(scores.Answer("with a caller's buffer", value))
    if scores.spilled(again, inputs):
        return book.differ(SPILLED, Grade.NONE, step=answers[1].step)
    return scores.judge(book, inputs, wanted.want(inputs, path.tree(first)), answers)


def check_windows(book: Book, inputs: Inputs) -> Verdict | None:
    """The three window vectors of the path, entry for entry."""
    made = book.ask(VarqlenWindows(inputs.cu_seq_q, inputs.context_lens, inputs.case.rows))
    if not isinstance(made, tuple) or len(made) != len(FIELDS):
        return book.differ(compare.arity(made, len(FIELDS)), Grade.EXACT, step="for windows")
    for field, got, want in zip(FIELDS, made, (inputs.seq, inputs.start, inputs.end), strict=True):
        wrong = compare.integers(got, want.to(torch.int32))
        if wrong is not None:
            where = {"row": wrong.first[0]} if wrong.first else {}
            return book.differ(wrong, Grade.EXACT, where={**where, "field": field}, step="for windows")
        book.total += len(want)
    return None
