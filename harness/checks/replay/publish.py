"""Publishing at fixed addresses: sizes, refusals, and what lies in the caller's buffers afterwards.

A builder that returns a right schedule and leaves the caller's buffer as it was passes every test of its
result; a captured launch then reads the old one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.replay import contents as replay_contents
from harness.fill.inputs import Inputs
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Unsupported
from harness.paths.requests.publishing import Publish, PublishPrefill, PublishWindows, Units
from harness.paths.requests.replaying import Step
from oracles import schedule, windows
from oracles.schedule import Coverage

NO_CELLS = torch.empty(0, 2, dtype=torch.int64)
EXTRA = 5
"""Cells of a windows buffer past those that belong to the step."""
UNWRITTEN = -9
DECODE_FIELDS = ("row", "first chunk", "chunk count", "context length")


def check(book: Book, case: Case, replays: list[Inputs]) -> Verdict | None:
    """Units, refusals, then decode, windows and prefill buffers over all contents in turn."""
    wrong = units_differ(book, case.n, case.bucket) or _refusals(book, case)
    if wrong is not None:
        return wrong
    units = schedule.decode_units(case.n, case.bucket)
    whole = replay_contents.poisoned_entries(units + replay_contents.GUARD)
    ragged = _Ragged(case, units)
    wrong = ragged.refused(book)
    if wrong is not None:
        return wrong
    for one in replays:
        text = f"to publish {','.join(map(str, one.context_lens.tolist()))}"
        entries = whole[:units]
        book.ask(Publish(one.context_lens, case.n, one.width, entries))
        step = _Published(one.context_lens, case.n, one.width, entries)
        wrong = entries_differ(book, step, text) or _past(book, whole[units:], text)
        wrong = wrong or _smallest(book, case, one, text) or ragged.differ(book, one, text)
        if wrong is not None:
            return wrong
    return None


def _smallest(book: Book, case: Case, one: Inputs, text: str) -> Verdict | None:
    """One entry a row: the chunks of a row must be folded into it, and none may be cut off.

    Also where max_seq_len is one chunk, so that no size up to its width holds a longer row.
    """
    for width in (one.width, 1):
        entries = replay_contents.poisoned_entries(case.rows)
        book.ask(Publish(one.context_lens, case.n, width, entries))
        step = _Published(one.context_lens, case.n, width, entries)
        wrong = entries_differ(book, step, f"{text} to one entry a row, at a width of {width}")
        if wrong is not None:
            return wrong
    return None


def units_differ(book: Book, next_n: int, max_bs: int) -> Verdict | None:
    """f(N) and f(1): the formula, a multiple of N, room for every sequence, and f(N) >= f(1)."""
    made = {n: book.stage(Units(n, max_bs)) for n in (next_n, 1)}
    for n, value in made.items():
        wrong = compare.integers(value, torch.tensor([schedule.decode_units(n, max_bs)]))
        if wrong is not None:
            where: dict[str, int | str] = {"tensor": "units", "rows a sequence": n, "sequences": max_bs}
            return book.differ(wrong, Grade.EXACT, where=where, shared=_no_multiple(value, n))
    if int(made[next_n]) < int(made[1]):
        raise AssertionError(f"f({next_n}) < f(1) for {max_bs} sequences, so the formula itself is wrong")
    book.total += 2
    return None


def _no_multiple(value: Any, n: int) -> str:
    return f"no multiple of {n}" if isinstance(value, Tensor) and int(value) % n else ""


def _refusals(book: Book, case: Case) -> Verdict | None:
    """Buffers that cannot hold the work must be refused: the rest would be cut off silently."""
    lengths = torch.ones(case.bucket, dtype=torch.int32)
    sizes = {}
    if case.n > 1:
        sizes[case.n * (case.bucket + 1) + 1] = f"no multiple of {case.n}"
    if case.bucket > 1:
        sizes[case.n * (case.bucket - 1)] = f"fewer than {case.n} for each of {case.bucket} sequences"
    for size, why in sizes.items():
        try:
            book.ask(Publish(lengths, case.n, 256, replay_contents.poisoned_entries(size)))
        except Unsupported:
            raise
        except Exception:  # whatever it raises, it did not go on
            book.total += 1
        else:
            return book.refuse(f"a buffer of {size} entries, {why}", "what must be refused")
    return None


class _Published:
    """What was published: lengths, rows a sequence, width, entries."""

    def __init__(self, context_lens: Tensor, next_n: int, max_seq_len: int, entries: Tensor) -> None:
        self.context_lens, self.next_n = context_lens, next_n
        self.max_seq_len, self.schedule = max_seq_len, entries


def entries_differ(book: Book, step: Step | _Published, text: str) -> Verdict | None:
    """The schedule buffer, entry for entry, and what its coverage lacks for the windows of the lengths."""
    want = schedule.decode_schedule(
        step.context_lens, units=len(step.schedule), next_n=step.next_n, max_seq_len=step.max_seq_len
    )
    wrong = compare.integers(step.schedule, want)
    book.total += want.numel()
    if wrong is None:
        return None
    where = entry_text(wrong, step.schedule, want)
    found = schedule.decode_coverage(step.schedule, step.context_lens, step.next_n)
    return book.differ(wrong, Grade.EXACT, where=where, shared=coverage_text(found), step=text)


def entry_text(wrong: Difference, got: Tensor, want: Tensor) -> dict[str, int | str]:
    """Where the first wrong entry is, and both versions of it."""
    if len(wrong.first) != 2:
        return {"tensor": "schedule"}
    entry, field = wrong.first
    return {
        "tensor": "schedule",
        "entry": entry,
        "field": DECODE_FIELDS[field],
        "got entry": str(tuple(got[entry].tolist())),
        "want entry": str(tuple(want[entry].tolist())),
    }


def coverage_text(found: Coverage) -> str:
    """What a schedule gets wrong, in words."""
    said = [
        f"{len(pairs)} {name} (row, chunk), first {pairs[0]}"
        for name in ("missing", "doubled", "foreign")
        if (pairs := getattr(found, name))
    ]
    if found.wrong:
        said.append(f"{len(found.wrong)} entries with another length, first entry {found.wrong[0]}")
    return "; ".join(said) or "yet every visible chunk is covered once"


def _past(book: Book, guard: Tensor, text: str) -> Verdict | None:
    if torch.equal(guard, replay_contents.poisoned_entries(len(guard))):
        return None
    wrong = Difference("mask", "written-past-the-schedule", NO_CELLS, count=1, total=1)
    return book.differ(wrong, Grade.EXACT, step=text)


class _Ragged:
    """Windows and prefill schedule of a ragged decode step, in buffers that stay."""

    def __init__(self, case: Case, units: int) -> None:
        self._rows = case.rows
        self._next_n = case.n
        self._buffers = [torch.full((case.rows + EXTRA,), UNWRITTEN, dtype=torch.int32) for _ in range(3)]
        self._units = max(units, case.rows)
        self._whole = torch.full((self._units + replay_contents.GUARD, 6), UNWRITTEN, dtype=torch.int32)

    def differ(self, book: Book, one: Inputs, text: str) -> Verdict | None:
        """Sequence b has N - b % N rows, a dead one none; the rest of the bucket's rows is padding."""
        sequence = torch.arange(len(one.context_lens))
        counts = torch.where(one.context_lens > 0, self._next_n - sequence % self._next_n, 0)
        bounds = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32)
        book.ask(PublishWindows(bounds, one.context_lens, self._rows, *self._buffers))
        want = windows.varqlen_windows(bounds, one.context_lens, self._rows)
        for name, buffer in zip(("seq", "start", "end"), self._buffers, strict=True):
            right = torch.full_like(buffer, UNWRITTEN)
            right[: self._rows] = getattr(want, name)
            wrong = compare.integers(buffer, right)
            if wrong is not None:
                return book.differ(wrong, Grade.EXACT, where={"tensor": f"window {name}"}, step=text)
            book.total += right.numel()
        late = windows.Windows(want.seq, want.end * 2 // 3, want.end)
        return self._scheduled(book, one, want, text) or self._scheduled(
            book, one, late, f"{text}, with windows that start late"
        )

    def refused(self, book: Book) -> Verdict | None:
        """Fewer entries than rows, of which some would never be scored."""
        rows = torch.zeros(self._rows, dtype=torch.int32)
        if self._rows == 1:
            return None
        try:
            book.ask(PublishPrefill(rows, rows, rows + 1, 256, self._whole[: self._rows - 1]))
        except Unsupported:
            raise
        except Exception:  # whatever it raises, it did not go on
            book.total += 1
            return None
        return book.refuse(f"a buffer of {self._rows - 1} entries for {self._rows} rows", "to be refused")

    def _scheduled(self, book: Book, one: Inputs, rows: windows.Windows, text: str) -> Verdict | None:
        """The prefill schedule of ``rows``; windows of a decode step all start at 0, others need not."""
        for units, width in ((self._units, one.width), (self._rows, one.width), (self._rows, 1)):
            step = f"{text} to {units} entries, at a width of {width}"
            wrong = self._filled(book, rows, units, width, step)
            if wrong is not None:
                return wrong
        return None

    def _filled(self, book: Book, rows: windows.Windows, units: int, width: int, text: str) -> Verdict | None:
        seq, start, end = (part.to(torch.int32).contiguous() for part in (rows.seq, rows.start, rows.end))
        right = self._whole.clone()
        book.ask(PublishPrefill(seq, start, end, width, self._whole[:units]))
        right[:units] = schedule.prefill_schedule(rows, units=units, max_seq_len=width)
        wrong = compare.integers(self._whole, right)
        book.total += right.numel()
        if wrong is None:
            return None
        shared = coverage_text(schedule.prefill_coverage(self._whole[:units], rows))
        return book.differ(wrong, Grade.EXACT, where={"tensor": "prefill schedule"}, shared=shared, step=text)
