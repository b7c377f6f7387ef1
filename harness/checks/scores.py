"""What the scoring suites share: judging a matrix, the marks of a case that proves little.

All answers of a case must carry the same bits, whatever buffer or schedule they were made
with: there is no sum across CTAs. Results are asked for before the oracle is, so that its
values cannot lie about in memory that a kernel reads by mistake.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.checks.book import Book
from harness.fill.inputs import Inputs
from harness.judge import compare, naming
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.judge.verdict import Grade, Verdict
from harness.judge.wanted import Wanted
from harness.paths.base import OutOfScope

FEW_CODES = 12
"""Fewer distinct codes than this (of 16) on either side prove little about decoding."""
NO_CELLS = torch.empty(0, 2, dtype=torch.int64)
SUBNORMAL_NOTE = "the emulator rounds the exact sum once"


@dataclass(frozen=True)
class Answer:
    """One answer of the path: what it was asked with, its value, and what cells outside must hold."""

    step: str
    value: object
    outside: int = MINUS_INFINITY


def judge(book: Book, inputs: Inputs, want: Wanted, answers: list[Answer]) -> Verdict:
    """Every answer against the oracle, then against the first; the doubts; the verdict."""
    for answer in answers:
        wrong = want.compare(answer.value, inputs, answer.outside)
        if wrong is not None:
            comparable(book, inputs, want, wrong)
            name(book, inputs, want, answer.value, wrong)
            return book.differ_on(wrong, want.grade, inputs.grid, step=answer.step)
        book.total += inputs.visible
    if want.grade is Grade.BOUNDED:
        return _same_bits(book, inputs, answers) or doubted(book, inputs, want)
    return doubted(book, inputs, want)


def _same_bits(book: Book, inputs: Inputs, answers: list[Answer]) -> Verdict | None:
    """Bounded answers may be off, but they must be off by the same bits."""
    first = answers[0].value
    assert isinstance(first, Tensor)
    for answer in answers[1:]:
        wrong = compare.scores(answer.value, first, inputs.start, inputs.end, None)
        if wrong is not None:
            return book.differ_on(
                wrong, Grade.BOUNDED, inputs.grid, step=f"{answer.step}, against {answers[0].step}"
            )
    return None


def comparable(book: Book, inputs: Inputs, want: Wanted, wrong: compare.Difference) -> None:
    """Raise `OutOfScope` where a device may differ: its arithmetic outside the budget is not published."""
    if wrong.layer == "bits" and want.over_budget and book.path.executor.startswith("device"):
        dots = f"{want.over_budget} of {inputs.visible * inputs.case.h} dots"
        raise OutOfScope(
            f"{dots} lie outside the exact budget of the matrix instruction; probe this device first"
        )


def name(book: Book, inputs: Inputs, want: Wanted, got: object, wrong: compare.Difference) -> None:
    """Note what the first wrong value would be right for, if anything."""
    if wrong.layer != "bits" or not isinstance(got, Tensor):
        return
    row, column = wrong.first
    try:
        for said in naming.explain(inputs, want.value, got[row, column], row, column):
            book.note(said)
    except Exception as error:  # a hint that cannot be had must not turn a difference into an error
        book.note(f"no hint about the value ({type(error).__name__}: {error})")


def spilled(out: Tensor, inputs: Inputs) -> bool:
    """Whether the gap after a row of ``inputs.buffer()`` was written to."""
    if not inputs.gap:
        return False
    size, stride = (out.shape[0], inputs.gap), (out.stride(0), 1)
    gap = torch.as_strided(out.view(torch.int32), size, stride, out.storage_offset() + out.shape[1])
    return bool((gap != SENTINEL).any())


def placed(out: Tensor, value: object) -> object:
    """What is judged of a call with a caller's buffer: the buffer, whatever else came back.

    A captured graph reads the buffer at its own address; a right answer in a copy is a wrong one there.
    """
    if not isinstance(value, Tensor) or value.shape != out.shape or value.dtype != out.dtype:
        return value
    return out


def doubted(book: Book, inputs: Inputs, want: Wanted) -> Verdict:
    """The verdict of a case whose answers are all right."""
    cells = inputs.expected
    values = want.value[cells]
    book.doubt(not inputs.visible and book.total > 0, "no row sees a key")
    if inputs.visible:
        zeros = int((values == 0).sum())
        book.doubt(2 * zeros > len(values), f"{zeros} of {len(values)} scores are zero")
        strange = int((~values.isfinite()).sum())
        book.doubt(2 * strange > len(values), f"{strange} of {len(values)} scores are NaN or infinite")
        _doubt_operands(book, inputs)
    book.doubt(inputs.case.t == "identity", "the page table is the identity")
    dots = inputs.visible * inputs.case.h
    if want.over_budget:
        book.note(f"{want.over_budget} of {dots} dots outside the exact budget ({SUBNORMAL_NOTE})")
    for note in want.notes:
        book.note(note)
    book.facts["dots"] = dots
    return book.agree(want.grade)


def _doubt_operands(book: Book, inputs: Inputs) -> None:
    """Distinct codes and scales among the rows and keys that take part."""
    busy = inputs.end > inputs.start
    keys = seen_keys(inputs)
    filled = inputs.filled
    for side, codes in (("queries", filled.q_codes[busy]), ("keys", filled.k_codes[keys])):
        distinct = int((torch.bincount(codes.flatten(), minlength=16) > 0).sum())
        book.facts[f"codes of {side}"] = distinct
        book.doubt(distinct < FEW_CODES, f"{distinct} of 16 codes occur in the {side}")
    scales = int((torch.bincount(filled.k_scales[keys].flatten(), minlength=256) > 0).sum())
    book.facts["scales of keys"] = scales
    book.doubt(scales < 2, "all keys have one scale byte")


def seen_keys(inputs: Inputs) -> Tensor:
    """bool [L]: keys (all sequences in turn) that some row sees."""
    lengths = torch.tensor(inputs.case.ctx)
    offset = (lengths.cumsum(0) - lengths)[inputs.seq]
    busy = inputs.end > inputs.start
    steps = torch.zeros(int(lengths.sum()) + 1, dtype=torch.int64)
    one = torch.ones(int(busy.sum()), dtype=torch.int64)
    steps.index_put_(((offset + inputs.start)[busy],), one, accumulate=True)
    steps.index_put_(((offset + inputs.end)[busy],), -one, accumulate=True)
    return steps.cumsum(0)[:-1] > 0
