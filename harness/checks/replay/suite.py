"""Suite replay: a captured decode step over changing contents at fixed addresses.

One recording holds publish, scores and selection, a second one scores and selection only, its schedule
being published before each replay as a server does. Each replay is compared with the oracle and with a run
without a recording on tensors elsewhere. A number of the captured step that was baked in, or a schedule
that was not refreshed, leaves everything in bounds: only other lengths show it, so the captured contents
come first and last.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.case.cases import Case
from harness.checks import scores
from harness.checks.book import Book
from harness.checks.replay import contents as replay_contents
from harness.checks.replay import publish as replay_publish
from harness.fill.inputs import Inputs
from harness.judge import compare, wanted
from harness.judge.bits import SENTINEL
from harness.judge.compare import Difference
from harness.judge.verdict import Grade, Verdict
from harness.judge.wanted import Wanted
from harness.paths.base import Path
from harness.paths.requests.publishing import Publish, Units
from harness.paths.requests.replaying import Capture, Eager, Replay, Step
from harness.replay.calls import CaptureRefused
from oracles import schedule, topk


def check(case: Case, path: Path) -> Verdict:
    """Compare every replay with the oracle and with an eager run."""
    book = Book(case, path)
    replays = replay_contents.contents(case)
    wrong = replay_publish.check(book, case, replays)
    if wrong is not None:
        return wrong
    try:
        return _Replays(book, case, replays).verdict()
    except CaptureRefused as refusal:
        refused = Difference("refusal", f"cannot be captured: {refusal}", scores.NO_CELLS, count=1, total=1)
        return book.differ(refused, Grade.NONE)


class _Replays:
    """The replays of one case, one after the other on the same tensors."""

    def __init__(self, book: Book, case: Case, replays: list[Inputs]) -> None:
        self.book, self.replays = book, replays
        units = int(book.stage(Units(case.n, case.bucket)))
        self.fixed = replay_contents.fixed(case, replays, units)
        self.want: dict[int, Wanted] = {}
        # Rows with equal scores on both sides of their cut, and those of them at minus infinity.
        self.tied, self.sunk = 0, 0

    def verdict(self) -> Verdict:
        everything, published = self._captured(published=False), self._captured(published=True)
        for number in range(len(self.replays)):
            wrong = self._replayed(
                everything, number, f"for replay {number} of {_lengths(self.replays[number])}"
            )
            if wrong is not None:
                return wrong
        for number in (0, len(self.replays) - 1):
            step = f"for lengths {_lengths(self.replays[number])} once more, the schedule published before"
            wrong = self._replayed(published, number, step, published=True)
            if wrong is not None:
                return wrong
        self._doubt_stale()
        self._doubt_ties()
        self._doubt_selection()
        richest = max(range(len(self.replays)), key=lambda number: self.replays[number].visible)
        self.book.facts["replays"] = len(self.replays) + 2
        return scores.doubted(self.book, self.replays[richest], self.want[richest])

    def _captured(self, *, published: bool) -> Any:
        step = self._step(0, published)
        if published:
            self._publish(step)
        return self.book.ask(Capture(step))

    def _step(self, number: int, published: bool) -> Step:
        step = self.fixed.put(self.replays[number])
        return step if not published else Step(**{**vars(step), "published": True})

    def _publish(self, step: Step) -> None:
        self.book.ask(Publish(step.context_lens, step.next_n, step.max_seq_len, step.schedule))

    def _replayed(self, recording: Any, number: int, text: str, *, published: bool = False) -> Verdict | None:
        inputs, step = self.replays[number], self._step(number, published)
        if published:
            self._publish(step)
        value = self.book.ask(Replay(step, recording))
        if not isinstance(value, tuple) or len(value) != 3:
            return self.book.differ(compare.arity(value, 3), Grade.EXACT, step=text)
        elsewhere = self.fixed.elsewhere(step)
        if published:
            self._publish(elsewhere)
        self.book.facts.pop("calls", None)
        self.book.ask(Eager(elsewhere))
        return self._judged(inputs, number, step, text) or self._as_eager(
            recording, inputs, step, elsewhere, text
        )

    def _judged(self, inputs: Inputs, number: int, step: Step, text: str) -> Verdict | None:
        """Schedule, scores and selection against the oracle."""
        wrong = replay_publish.entries_differ(self.book, step, text)
        if wrong is not None:
            return wrong
        if bool((self.fixed.guard != replay_contents.poisoned_entries(len(self.fixed.guard))).any()):
            past = Difference("mask", "written-past-the-schedule", scores.NO_CELLS, count=1, total=1)
            return self.book.differ(past, Grade.EXACT, step=text)
        if number not in self.want:
            self.want[number] = wanted.want(inputs, self.book.path.tree(inputs.decode()))
        want = self.want[number]
        found = want.compare(step.out, inputs, SENTINEL)
        if found is not None:
            scores.comparable(self.book, inputs, want, found)
            scores.name(self.book, inputs, want, step.out, found)
            return self.book.differ_on(found, want.grade, inputs.grid, step=text)
        if scores.spilled(step.out, inputs):
            spilled = Difference("mask", "written-past-the-row", scores.NO_CELLS, count=1, total=1)
            return self.book.differ(spilled, Grade.NONE, step=text)
        self.book.total += inputs.visible
        return self._selected(inputs, step, text)

    def _selected(self, inputs: Inputs, step: Step, text: str) -> Verdict | None:
        """The selection against the scores it was made from, which are right by now; ties by position."""
        k = step.selected.shape[1]
        right, open_ = (topk.topk(step.out, inputs.windows, k, stable=stable) for stable in (True, False))
        self.tied += int((open_.places > 0).sum())
        self.sunk += int(((open_.places > 0) & (open_.cut == -torch.inf)).sum())
        found = topk.check_selection(step.selected, right)
        strange = (step.selected < 0) & (step.selected != topk.PAD)
        bad = ~found.ok | strange.any(1)
        self.book.total += step.selected.numel()
        if not bool(bad.any()):
            return None
        row = int(bad.nonzero()[0])
        counts = ", ".join(
            f"{int(getattr(found, name)[row])} {name}" for name in ("missing", "foreign", "doubled")
        )
        differs = Difference(
            "bits", "selection-differs", scores.NO_CELLS, count=int(bad.sum()), total=len(bad)
        )
        where: dict[str, int | str] = {"row": row, "tensor": "selected", "keys": counts}
        return self.book.differ(differs, Grade.EXACT, where=where, step=text)

    def _as_eager(self, recording: Any, inputs: Inputs, step: Step, eager: Step, text: str) -> Verdict | None:
        """The same bits and the same calls as a run without a recording."""
        text = f"{text}, against a run without a recording"
        ran = self.book.facts.pop("calls", None)
        held = recording.calls
        if ran is not None and held is not None and ran != held:
            other = Difference(
                "shape", "captured-other-calls", scores.NO_CELLS, _short(held), _short(ran), count=1, total=1
            )
            return self.book.differ(other, Grade.EXACT, step=text)
        if held is not None:
            self.book.facts["captured"] = held
        found = compare.scores(step.out, eager.out, inputs.start, inputs.end, SENTINEL)
        if found is not None:
            return self.book.differ_on(found, Grade.EXACT, inputs.grid, step=text)
        for name in ("schedule", "selected"):
            differs = compare.integers(getattr(step, name), getattr(eager, name))
            if differs is not None:
                return self.book.differ(differs, Grade.EXACT, where={"tensor": name}, step=text)
        return None

    def _doubt_stale(self) -> None:
        """Mistrust vectors that one and the same schedule would cover."""
        n, units = self.fixed.step.next_n, len(self.fixed.step.schedule)
        made = [
            schedule.decode_schedule(one.context_lens, units=units, next_n=n, max_seq_len=one.width)
            for one in self.replays
        ]
        pairs = [(mine, one) for mine in made for one in self.replays]
        stale = [schedule.decode_coverage(mine, one.context_lens, n) for mine, one in pairs]
        short = sum(bool(found.missing) for found in stale)
        self.book.facts["stale pairs that leave a chunk out"] = short
        self.book.doubt(short == 0, "a schedule that is never refreshed covers every replay")

    def _doubt_selection(self) -> None:
        """Mistrust vectors of which none has a sequence that is longer than the selection."""
        longest = max(int(one.context_lens.max()) for one in self.replays)
        self.book.doubt(
            longest <= self.book.case.k, "no sequence has more than k keys, so nothing is selected"
        )

    def _doubt_ties(self) -> None:
        """Mistrust contents that are about ties and have none where it matters."""
        fill = self.book.case.f
        self.book.facts |= {"ties at a cut": self.tied, "ties at a cut of minus infinity": self.sunk}
        self.book.doubt(fill == "ties" and not self.tied, "no scores are equal across a cut")
        self.book.doubt(fill == "sunk" and not self.sunk, "no cut lies among scores of minus infinity")


def _lengths(inputs: Inputs) -> str:
    return ",".join(map(str, inputs.context_lens.tolist()))


def _short(calls: list[str]) -> str:
    return f"{len(calls)} calls: {' '.join(calls)[:160]}"
