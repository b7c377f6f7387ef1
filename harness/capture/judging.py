"""Judge a capture: what a path answers to it, and what the engine itself had made of it.

A path is asked three times, as in the scoring suites: with its own schedule, with its own into a
caller's buffer, with a given one into a poisoned buffer. What was captured is a subject of its own
(`Captured`), so that a red line says who was wrong: the kernels run here, or the engine back then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from harness.capture import selected
from harness.capture.inputs import CaptureCase, inputs_of, is_identity, judged
from harness.capture.loading import Capture
from harness.checks import decode, prefill, scores
from harness.checks.book import Book
from harness.fill.inputs import Inputs
from harness.judge import bits, compare, wanted
from harness.judge.bits import SENTINEL
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.judge.wanted import Wanted
from harness.paths.base import Outcome, Path
from oracles import schedule

OPTIONAL = ("schedule", "logits", "topk_ids")
"""Tensors that the engine made, in the order they are judged."""
IDENTITY = "the page table is the identity: that pages are looked up is not shown"
BY_BOUND = (
    "{over} of {dots} dots lie outside the exact budget of the matrix instruction, whose arithmetic there \
is not published: the captured logits are held against the rounding bound"
)
UNDECIDED = (
    "topk_ids are not those of the oracle's scores, which {over} dots outside the exact budget leave open; \
capture the logits too"
)


class Captured(Path):
    """Stands for the engine that the tensors came from; it can be asked nothing any more."""

    name = "captured"

    @property
    def executor(self) -> str:
        return "recorded"

    def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
        return {}


def has_subject(capture: Capture) -> bool:
    """Whether the engine's own results are in the capture."""
    return any(name in capture.tensors for name in OPTIONAL)


@lru_cache(maxsize=2)
def tensors_of(case: CaptureCase) -> Inputs:
    """The inputs of ``case``, unpacked once for all paths."""
    return inputs_of(case)


@lru_cache(maxsize=4)
def want_of(case: CaptureCase, tree: str | None) -> Wanted:
    """The wanted scores, made once for all paths that declare one tree."""
    return wanted.want(judged(tensors_of(case)), tree)


def answered(case: CaptureCase, path: Path) -> Verdict:
    """Compare the path's scores of the capture with the oracle's."""
    book, inputs, kind = Book(case, path), tensors_of(case), case.kind
    ask = inputs.decode if kind == "decode" else inputs.prefill
    first = ask()
    answers = [scores.Answer("with its own schedule", book.ask(first))]
    for entries, outside in ((None, compare.MINUS_INFINITY), (given_schedule(book, inputs), SENTINEL)):
        out = inputs.buffer()
        value = scores.placed(out, book.ask(ask(schedule=entries, out=out)))
        said = "its own schedule and a caller's" if entries is None else "a given schedule and a poisoned"
        answers.append(scores.Answer(f"with {said} buffer", value, outside))
    if is_identity(inputs):
        book.note(IDENTITY)
    return scores.judge(book, judged(inputs), want_of(case, path.tree(first)), answers)


def given_schedule(book: Book, inputs: Inputs) -> Tensor:
    """The captured schedule where it covers the work, else the oracle's."""
    case = inputs.case
    assert isinstance(case, CaptureCase)
    own = case.held.tensors.get("schedule")
    if own is not None and _coverage(case.held, own).ok:
        return own
    if own is not None:
        book.note("the captured schedule does not cover the work, the oracle's was given instead")
    if case.kind == "decode":
        return decode.given_schedule(inputs)
    return prefill.given_schedule(inputs, slice(None))


def _coverage(capture: Capture, entries: Tensor) -> schedule.Coverage:
    if capture.manifest.kind == "decode":
        lengths, next_n = capture.tensors["context_lens"], capture.manifest.next_n
        return schedule.decode_coverage(entries, lengths, next_n)
    return schedule.prefill_coverage(entries, capture.windows)


def captured(case: CaptureCase) -> Verdict:
    """Compare what the engine made with the oracle; the first part that differs is the verdict."""
    book, inputs = Book(case, Captured()), judged(tensors_of(case))
    tensors, want = case.held.tensors, want_of(case, case.kind)
    grade, wrong = Grade.EXACT, []
    book.note(f"judged: {', '.join(name for name in OPTIONAL if name in tensors)}")
    if "schedule" in tensors:
        wrong.append(_schedule(book, case, tensors["schedule"]))
    if "logits" in tensors:
        grade, verdict = _logits(book, inputs, want, tensors["logits"])
        wrong.append(verdict)
    if "topk_ids" in tensors:
        own = "logits" in tensors
        base, over = (tensors["logits"], "logits") if own else (want.value, "oracle's scores")
        grade = grade if own else want.grade
        verdict = selected.judge(book, inputs, base, tensors["topk_ids"], case.k, over)
        if verdict is not None and not own and want.over_budget:
            book.doubt(True, UNDECIDED.format(over=want.over_budget))
            verdict = None
        wrong.append(verdict)
    failed = [verdict for verdict in wrong if verdict is not None]
    if failed:
        others = tuple(
            f"differs too: {verdict.notes[0].removeprefix('asked about ')}" for verdict in failed[1:]
        )
        return failed[0].but(notes=failed[0].notes + others)
    if "logits" in tensors:
        return scores.doubted(book, inputs, replace(want, grade=grade))
    return book.agree(grade)


def _schedule(book: Book, case: CaptureCase, entries: Tensor) -> Verdict | None:
    """Every visible (row, chunk) once, nothing else, and true facts in each entry."""
    found = _coverage(case.held, entries)
    book.total += entries.numel()
    step = "about the captured schedule"
    for reason, pairs in (
        ("chunks-not-covered", found.missing),
        ("chunks-covered-twice", found.doubled),
        ("chunks-that-do-not-exist", found.foreign),
    ):
        if pairs:
            row, chunk = pairs[0]
            where: dict[str, int | str] = {
                "row": row,
                "sequence": int(tensors_of(case).seq[row]),
                "chunk": chunk,
            }
            wrong = Difference("mask", reason, scores.NO_CELLS, count=len(pairs), total=len(entries))
            return book.differ(wrong, Grade.EXACT, where=where, step=step)
    if found.wrong:
        entry = found.wrong[0]
        count = len(found.wrong)
        wrong = Difference(
            "bits", "entries-contradict-their-row", scores.NO_CELLS, count=count, total=len(entries)
        )
        where = {"entry": entry, "holds": str(tuple(entries[entry].tolist()))}
        return book.differ(wrong, Grade.EXACT, where=where, step=step)
    return None


def _logits(book: Book, inputs: Inputs, want: Wanted, logits: Tensor) -> tuple[Grade, Verdict | None]:
    """Bits inside the windows; where a device may round its dots otherwise, the bound."""
    step = "about the captured logits"
    wrong = want.compare(logits, inputs, None)
    if wrong is not None and want.over_budget and want.grade is not Grade.BOUNDED:
        book.note(BY_BOUND.format(over=want.over_budget, dots=inputs.visible * inputs.case.h))
        want = bounded(inputs, want, logits)
        wrong = want.compare(logits, inputs, None)
    book.total += inputs.visible
    if wrong is None:
        return want.grade, None
    scores.name(book, inputs, want, logits, wrong)
    return want.grade, book.differ_on(wrong, want.grade, inputs.grid, step=step)


def bounded(inputs: Inputs, want: Wanted, logits: Tensor) -> Wanted:
    """``want`` at grade bounded; cells of ``logits`` that have its bits are right whatever the bound says.

    Sums that overflow on their way have no bound.
    """
    loose = wanted.want(replace(inputs, filled=replace(inputs.filled, exactable=False)), None)
    assert loose.exact is not None
    met = bits.same(logits, want.value)
    return replace(loose, exact=torch.where(met, logits.double(), loose.exact))
