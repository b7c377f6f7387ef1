"""Suite decode: scores of B * N rows, by the path's own schedule and by one it is given.

Three questions, one answer: own schedule, own schedule into a caller's buffer (which must
come back cleared outside the windows), and a given schedule into a poisoned buffer (which
must come back untouched outside). With the first alone, a missing store reads minus infinity
and a store too many may hit a cell nobody looks at.
"""

from __future__ import annotations

from torch import Tensor

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.fill.inputs import Inputs, build
from harness.judge import wanted
from harness.judge.bits import SENTINEL
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from oracles import schedule

SPILLED = Difference("mask", "written-past-the-row", cells=scores.NO_CELLS, count=1, total=1)


def check(case: Case, path: Path) -> Verdict:
    """Compare the decode scorer with the oracle."""
    book, inputs = Book(case, path), build(case)
    first = inputs.decode(units=case.units)
    answers = [scores.Answer("with its own schedule", book.ask(first))]
    again = inputs.buffer()
    value = scores.placed(again, book.ask(inputs.decode(units=case.units, out=again)))
    answers.append(scores.Answer("with its own schedule and a caller's buffer", value))
    given = inputs.buffer()
    value = scores.placed(given, book.ask(inputs.decode(schedule=given_schedule(inputs), out=given)))
    answers.append(scores.Answer("with a given schedule and a poisoned buffer", value, SENTINEL))
    for buffer, answer in ((again, answers[1]), (given, answers[2])):
        if scores.spilled(buffer, inputs):
            return book.differ(SPILLED, Grade.NONE, step=answer.step)
    return scores.judge(book, inputs, wanted.want(inputs, path.tree(first)), answers)


def given_schedule(inputs: Inputs, units: int | None = None) -> Tensor:
    """The oracle's schedule int32 [P, 4] for ``units``, or the case's, or one chunk a slot."""
    case = inputs.case
    chunks = max(1, -(-case.width // schedule.BLOCK_K))
    chosen = units or case.units or case.rows * chunks
    return schedule.decode_schedule(inputs.context_lens, units=chosen, next_n=case.n, max_seq_len=case.width)
