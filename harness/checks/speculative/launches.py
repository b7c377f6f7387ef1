"""The launches of a draft loop, judged one by one as they come."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.replay import publish as replay_publish
from harness.fill import inputs as made
from harness.fill.inputs import Inputs
from harness.judge import compare, wanted
from harness.judge.bits import SENTINEL
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.paths.requests.publishing import Launched
from harness.paths.requests.scoring import DecodeScores
from oracles import publish, schedule
from oracles.publish import Launch
from oracles.windows import decode_windows


def width(case: Case) -> int:
    """max_seq_len of the loop: the largest length it reaches, no column more."""
    return max(1, case.longest + case.steps)


class Launches:
    """Called once a launch. After the first one that is wrong the others are only counted."""

    def __init__(self, book: Book, case: Case, buffers: Tensor) -> None:
        self._book, self._case, self._buffers = book, case, buffers
        self._want = publish.launches(torch.tensor(case.ctx, dtype=torch.int32), case.n, case.steps, case.ub)
        self._kept = buffers.clone()
        self._homes: dict[int, int] = {}
        self._seen = 0
        self._wrong: Verdict | None = None
        self._scored: tuple[Inputs, wanted.Wanted] | None = None
        grown = tuple(length + case.steps for length in case.ctx)
        self._whole = made.build(_decode_case(case, case.n, grown))

    def __call__(self, launched: Launched) -> None:
        number, self._seen = self._seen, self._seen + 1
        if self._wrong is None and number < len(self._want):
            self._wrong = self._judged(launched, self._want[number])

    def ended(self) -> Verdict | None:
        """What was wrong, also if there were too few launches or too many."""
        if self._wrong is None and self._seen != len(self._want):
            count = Difference(
                "shape", "launches", scores.NO_CELLS, str(self._seen), str(len(self._want)), count=1, total=1
            )
            return self._book.differ(count, Grade.EXACT)
        self._book.facts["launches judged"] = self._seen
        return self._wrong

    def doubted(self) -> Verdict:
        """The verdict of a loop in which nothing was wrong."""
        assert self._scored is not None
        inputs, want = self._scored
        same = self._case.n == 1
        self._book.doubt(
            same, "verify and draft steps have one row a sequence: what one leaves suits the other"
        )
        values = want.value[inputs.expected]
        zeros = int((values == 0).sum())
        self._book.doubt(not len(values), "the scored launch sees no key")
        self._book.doubt(2 * zeros > len(values), f"{zeros} of {len(values)} scores are zero")
        self._book.doubt(self._case.t == "identity", "the page table is the identity")
        return self._book.agree(want.grade)

    def _judged(self, launched: Launched, want: Launch) -> Verdict | None:
        text = f"at {_step(want, self._case)}, micro-batch {want.part}"
        if (launched.step, launched.part) != (want.step, want.part):
            came = f"step {launched.step}, micro-batch {launched.part}"
            other = Difference("shape", "other-launch", scores.NO_CELLS, came, text, count=1, total=1)
            return self._book.differ(other, Grade.EXACT, step=text)
        return (
            self._placed(launched, want, text)
            or self._lengths(launched, want, text)
            or self._covered(launched, want, text)
            or (self._scores(launched, want, text) if want.step == self._case.steps else None)
        )

    def _placed(self, launched: Launched, want: Launch, text: str) -> Verdict | None:
        """The schedule lies where the part's first one lay, large enough; past it nothing is written."""
        entries, whole = launched.schedule, self._buffers
        reach = range(whole.data_ptr(), whole.data_ptr() + whole.numel() * whole.element_size())
        home = self._homes.setdefault(want.part, entries.data_ptr())
        fixed = entries.data_ptr() == home and home in reach and entries.is_contiguous()
        if not fixed or entries.dim() != 2 or entries.shape[1] != 4 or entries.dtype != torch.int32:
            moved = Difference("shape", "schedule-elsewhere", scores.NO_CELLS, count=1, total=1)
            return self._book.differ(moved, Grade.EXACT, step=text)
        floor = max(schedule.DECODE_UNITS_FLOOR, want.windows.rows)
        if len(entries) < floor or len(entries) % launched.next_n:
            few = Difference(
                "shape", "units", scores.NO_CELLS, str(len(entries)), f"{floor} and above", count=1, total=1
            )
            return self._book.differ(few, Grade.EXACT, step=text)
        rest = whole[want.part][len(entries) :]
        if not torch.equal(rest, self._kept[want.part][len(entries) :]):
            past = Difference("mask", "written-past-the-schedule", scores.NO_CELLS, count=1, total=1)
            return self._book.differ(past, Grade.EXACT, step=text)
        self._kept[want.part] = whole[want.part]
        return None

    def _lengths(self, launched: Launched, want: Launch, text: str) -> Verdict | None:
        """The lengths at the launch's address give its rows the windows they have by definition."""
        got = decode_windows(launched.context_lens, launched.next_n).end
        wrong = compare.integers(got, want.windows.end)
        self._book.total += want.windows.rows
        if wrong is None:
            return None
        where: dict[str, int | str] = {"tensor": "lengths", "lengths": str(launched.context_lens.tolist())}
        where |= {"rows a sequence": launched.next_n, "want lengths": str(want.lengths.tolist())}
        return self._book.differ(wrong, Grade.EXACT, where=where, step=text)

    def _covered(self, launched: Launched, want: Launch, text: str) -> Verdict | None:
        """The schedule covers those windows, and its entries are those of the definition."""
        lengths, rows = want.lengths, want.next_n
        if launched.next_n != rows:  # every row is a sequence of its own
            lengths, rows = want.windows.end.to(torch.int32), 1
        right = schedule.decode_schedule(
            lengths, units=len(launched.schedule), next_n=rows, max_seq_len=width(self._case)
        )
        wrong = compare.integers(launched.schedule, right)
        self._book.total += right.numel()
        if wrong is None:
            return None
        found = schedule.decode_coverage(launched.schedule, lengths, rows)
        where = replay_publish.entry_text(wrong, launched.schedule, right)
        return self._book.differ(
            wrong, Grade.EXACT, where=where, shared=replay_publish.coverage_text(found), step=text
        )

    def _scores(self, launched: Launched, want: Launch, text: str) -> Verdict | None:
        inputs = self._part(want)
        out = inputs.buffer()
        request = DecodeScores(
            inputs.planes,
            launched.context_lens,
            launched.next_n,
            inputs.filled.weight_scale,
            inputs.width,
            schedule=launched.schedule,
            out=out,
            expected=inputs.expected,
        )
        value = scores.placed(out, self._book.stage(request))
        right = wanted.want(inputs, self._book.path.tree(request) or "decode")
        self._scored = (inputs, right)
        wrong = right.compare(value, inputs, SENTINEL)
        if wrong is not None:
            scores.comparable(self._book, inputs, right, wrong)
            return self._book.differ_on(wrong, right.grade, inputs.grid, step=text)
        self._book.total += inputs.visible
        return None

    def _part(self, want: Launch) -> Inputs:
        """Rows and tables of a launch out of those of the loop: its sequences, the newest of their rows."""
        whole, rows = self._whole, want.windows
        sequence = want.first + rows.seq
        token = torch.arange(rows.rows) % want.next_n + self._case.n - want.next_n
        chosen = sequence * self._case.n + token
        filled = replace(
            whole.filled,
            q_codes=whole.filled.q_codes[chosen],
            q_scales=whole.filled.q_scales[chosen],
            weights=whole.filled.weights[chosen],
        )
        planes = made.rows_of(whole.planes, chosen)
        planes = replace(planes, block_tables=whole.planes.block_tables[want.first :][: len(want.lengths)])
        lengths = tuple(want.lengths.tolist())
        return replace(
            whole,
            case=_decode_case(self._case, want.next_n, lengths),
            filled=filled,
            planes=planes,
            seq=rows.seq,
            start=rows.start,
            end=rows.end,
            context_lens=want.lengths,
        )


def _decode_case(case: Case, next_n: int, lengths: tuple[int, ...]) -> Case:
    """The case of suite decode that has these rows."""
    geometry = {"h": case.h, "d": case.d, "t": case.t, "f": case.f, "s": case.s}
    return Case("decode", n=next_n, ctx=lengths, u=(0,), l=width(case), **geometry)  # type: ignore[arg-type]


def _step(want: Launch, case: Case) -> str:
    if want.step == 0:
        return "the verify step"
    return "the next verify step" if want.step > case.steps else f"draft step {want.step - 1}"
