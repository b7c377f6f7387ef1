"""Suite prefill: ragged rows in one batch, and the same rows chunk by chunk.

The whole batch is scored with the path's own schedule; then every chunk of ``c`` rows with a
given one into its slice of a poisoned buffer. Both must carry the oracle's bits, hence each
other's. Windows that start off a multiple of 16, or are shorter than a tile, are what shows a
start that is dropped or rounded.
"""

from __future__ import annotations

from torch import Tensor

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.decode import SPILLED
from harness.fill.inputs import Inputs, build
from harness.judge import wanted
from harness.judge.bits import SENTINEL
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path
from oracles import schedule
from oracles.windows import Windows


def check(case: Case, path: Path) -> Verdict:
    """Compare the prefill scorer with the oracle."""
    book, inputs = Book(case, path), build(case)
    first = inputs.prefill(units=case.units)
    answers = [scores.Answer("for the whole batch", book.ask(first))]
    again = inputs.buffer()
    value = scores.placed(again, book.ask(inputs.prefill(units=case.units, out=again)))
    answers.append(scores.Answer("for the whole batch into a caller's buffer", value))
    pieces = inputs.buffer()
    step = f"in chunks of {case.c[0] or case.rows} rows with given schedules and a poisoned buffer"
    answers.append(scores.Answer(step, in_chunks(book, inputs, case.c[0], pieces), SENTINEL))
    for buffer, answer in ((again, answers[1]), (pieces, answers[2])):
        if scores.spilled(buffer, inputs):
            return book.differ(SPILLED, Grade.NONE, step=answer.step)
    return scores.judge(book, inputs, wanted.want(inputs, path.tree(first)), answers)


def in_chunks(book: Book, inputs: Inputs, chunk: int, out: Tensor, units: int | None = None) -> object:
    """Score ``chunk`` rows at a time (0: all) into ``out``; a wrongly shaped answer is handed back."""
    total = inputs.case.rows
    for start in range(0, total, chunk or total):
        rows = slice(start, min(total, start + (chunk or total)))
        request = inputs.prefill(rows, schedule=given_schedule(inputs, rows, units), out=out[rows])
        value = scores.placed(out[rows], book.ask(request))
        if not isinstance(value, Tensor) or value.data_ptr() != out[rows].data_ptr():
            return value
    return out


def given_schedule(inputs: Inputs, rows: slice, units: int | None = None) -> Tensor:
    """The oracle's schedule int32 [P, 6] of ``rows``; at most one chunk a slot when no units are given."""
    window = Windows(inputs.seq[rows], inputs.start[rows], inputs.end[rows])
    chunks = int(schedule.chunks(window.end).sum())
    chosen = max(window.rows, units or min(chunks, inputs.case.units or chunks))
    return schedule.prefill_schedule(window, units=chosen, max_seq_len=inputs.width)
