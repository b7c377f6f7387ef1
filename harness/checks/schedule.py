"""Suite schedule: the path's builders, entry for entry, their coverage, and what they must refuse.

Entries are compared with the oracle's, and covered chunks with the windows, so that an oracle
and a builder that are wrong in the same way still meet a second opinion. Units that cannot
hold the work must be refused: a short schedule truncates without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Path, Unsupported
from harness.paths.requests.scoring import DecodeSchedule, PrefillSchedule
from oracles import schedule
from oracles.windows import Windows

DECODE_FIELDS = ("row", "first chunk", "chunk count", "context length")
PREFILL_FIELDS = ("row", "sequence", "first chunk", "chunk count", "start", "end")
PREFILL_FLOOR = 4096
"""Grid floor of the production prefill scorer (spec indexer.md 5)."""


def check(case: Case, path: Path) -> Verdict:
    """Compare the schedule builder of the path with the oracle, for every unit count of the case."""
    book = Book(case, path)
    for units in case.u:
        wrong = _compared(book, case, units or _floor(case))
        if wrong is not None:
            return wrong
    for units, why in _refused(case):
        wrong = _must_refuse(book, _request(case, units), f"{units} units, {why}")
        if wrong is not None:
            return wrong
    return book.agree(Grade.EXACT)


def _floor(case: Case) -> int:
    """Units of the production grid for this case."""
    if case.kind == "decode":
        return schedule.decode_units(case.n, case.batch)
    return max(PREFILL_FLOOR, case.rows)


def _request(case: Case, units: int) -> DecodeSchedule | PrefillSchedule:
    if case.kind == "decode":
        return DecodeSchedule(torch.tensor(case.ctx, dtype=torch.int32), case.n, units, case.width)
    seq, start, end = torch.tensor(case.w, dtype=torch.int32).unbind(1)
    return PrefillSchedule(seq.contiguous(), start.contiguous(), end.contiguous(), units, case.width)


def _compared(book: Book, case: Case, units: int) -> Verdict | None:
    """One unit count: entries, then coverage."""
    request = _request(case, units)
    got = book.ask(request)
    if isinstance(request, DecodeSchedule):
        fields: tuple[str, ...] = DECODE_FIELDS
        want = schedule.decode_schedule(
            request.context_lens, units=units, next_n=case.n, max_seq_len=case.width
        )
    else:
        fields = PREFILL_FIELDS
        want = schedule.prefill_schedule(_windows(request), units=units, max_seq_len=case.width)
    wrong = compare.integers(got, want)
    if wrong is not None:
        where = _where(wrong, got, want, fields)
        return book.differ(
            wrong,
            Grade.EXACT,
            where=where,
            shared=_coverage_text(request, got, wrong),
            step=f"for {units} units",
        )
    holes = _coverage(request, want)
    if holes:
        raise AssertionError(f"the oracle's own schedule for {units} units has {holes}")
    book.total += want.numel()
    return None


def _windows(request: PrefillSchedule) -> Windows:
    return Windows(request.row_seq.long(), request.row_start.long(), request.row_end.long())


def _where(wrong: Difference, got: Any, want: Tensor, fields: tuple[str, ...]) -> dict[str, int | str]:
    if not wrong.first:
        return {}
    entry, field = wrong.first
    return {
        "entry": entry,
        "field": fields[field],
        "got entry": str(tuple(got[entry].tolist())),
        "want entry": str(tuple(want[entry].tolist())),
    }


def _coverage(request: DecodeSchedule | PrefillSchedule, entries: Tensor) -> str:
    """What is wrong with the coverage of ``entries``, in words; empty if nothing."""
    if isinstance(request, DecodeSchedule):
        found = schedule.decode_coverage(entries, request.context_lens, request.next_n)
    else:
        found = schedule.prefill_coverage(entries, _windows(request))
    said = []
    for name in ("missing", "doubled", "foreign"):
        pairs = getattr(found, name)
        if pairs:
            said.append(f"{len(pairs)} {name} (row, chunk), first {pairs[0]}")
    if found.wrong:
        said.append(f"{len(found.wrong)} entries with false facts, first entry {found.wrong[0]}")
    return "; ".join(said)


def _coverage_text(request: DecodeSchedule | PrefillSchedule, got: Any, wrong: Difference) -> str:
    if wrong.layer != "bits":
        return ""
    return _coverage(request, got) or "yet every visible chunk is covered once"


def _refused(case: Case) -> Iterator[tuple[int, str]]:
    """Unit counts that must be refused, with the reason."""
    if case.kind == "prefill":
        if case.rows > 1:
            yield case.rows - 1, f"fewer than {case.rows} rows"
        return
    if case.n > 1:
        yield case.n * (case.batch + 1) + 1, f"no multiple of {case.n}"
    if case.batch > 1:
        yield case.n * (case.batch - 1), f"fewer than {case.batch} sequences times {case.n}"


def _must_refuse(book: Book, request: DecodeSchedule | PrefillSchedule, what: str) -> Verdict | None:
    """The path must raise. `Unsupported` is no refusal: it says that nothing was tried."""
    try:
        book.ask(request)
    except Unsupported:
        raise
    except Exception:  # whatever it raises, it did not go on
        book.total += 1
        return None
    return book.refuse(what, "what must be refused")
