"""What a path answered to the requests of one case, and when two such observations are the same.

Contract: answers are held side by side by what is compared of them (`comparing`); where two were asked about
different choices of what is open, one side is asked again about the other's. The verdict counts beside them:
wholly where it is about something that no compared answer shows, else by status, layer and reason, since its
numbers are then those of cells that are compared already. How this would fail silently: a part of the
answers that is not kept, so that two faults which differ in it look alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.diagnose import comparing
from harness.diagnose.cells import ASKED, Compared
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths.requests.publishing import DraftLoop

LAUNCHED = "Launched"
VALUE, UNSUPPORTED, RAISED = "value", "unsupported", "raised"
_RANK = re.compile(r"rank [0-9]+ of")
_NAN = re.compile(r"0x[0-9a-f]{8} nan")


@dataclass(frozen=True, eq=False)
class Answered:
    """One answer: type of the request, what became of it, and what is compared.

    ``request`` and ``raw`` (outputs by name) are what the answer was made from and what it was; they are
    kept for describing a difference. Between processes only requests that depend on a choice are handed over.
    """

    kind: str
    word: str
    cells: Compared = field(default_factory=dict)
    request: Any = None
    raw: dict[str, Tensor] = field(default_factory=dict)

    def same(self, other: Answered, again: Again | None = None) -> bool:
        """Whether nothing that is compared differs; ``again`` answers a request as ``other`` was answered."""
        if (self.kind, self.word) != (other.kind, other.word):
            return False
        if self.apart(other):
            return again is None or self.request is None or self.same(again(self.request))
        return self.cells.keys() == other.cells.keys() and all(
            equal(self.cells[name], other.cells[name]) for name in self.cells
        )

    def apart(self, other: Answered) -> bool:
        """Whether the two were asked about other choices of what is open."""
        mine, theirs = (one.cells.get(ASKED) for one in (self, other))
        return mine is not None and theirs is not None and not equal(mine, theirs)

    def bare(self) -> Answered:
        return replace(self, request=self.request if ASKED in self.cells else None, raw={})


Again = Callable[[Any], Answered]
"""From a request to what a path answers to it alone."""


def equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one, other))


@dataclass(frozen=True)
class Observed:
    """One case on one path: its verdict and every answer, in the order they were given."""

    case: Case
    verdict: Verdict
    answers: tuple[Answered, ...]

    @property
    def differs(self) -> bool:
        return self.verdict.status in (Status.DIFFER, Status.ERROR)

    @property
    def told(self) -> bool:
        """Whether there is a verdict about the path at all."""
        return self.verdict.status is not Status.UNSUPPORTED

    def same(
        self, other: Observed, kinds: frozenset[str], *, values: bool = True, again: Again | None = None
    ) -> bool:
        """Whether verdict and answers are the same; only requests in ``kinds`` are held side by side.

        ``values``: with the numbers of the verdict. ``again`` is as in `Answered.same`.
        """
        mine, theirs = ([one for one in side.answers if one.kind in kinds] for side in (self, other))
        if len(mine) != len(theirs):
            return False
        if not all(one.same(another, again) for one, another in zip(mine, theirs, strict=True)):
            return False
        values = values and not any(map(Answered.apart, mine, theirs))
        return summary(self.verdict, values) == summary(other.verdict, values)

    def differing(self, other: Observed, again: Again | None = None) -> frozenset[str]:
        """Kinds of requests that are answered otherwise in what is compared.

        That one side was asked more is no difference, since a check ends at the first wrong answer.
        """
        kinds = {one.kind for one in (*self.answers, *other.answers)}
        return frozenset(
            kind
            for kind in kinds
            if not all(
                one.same(another, again) for one, another in zip(self.of(kind), other.of(kind), strict=False)
            )
        )

    def parted(self, other: Observed, again: Again | None = None) -> frozenset[str]:
        """Kinds of requests that are answered otherwise, or may be, where answers are not compared.

        All kinds where no answer differs in what is compared: the verdict is about something else then.
        """
        kinds = {one.kind for one in (*self.answers, *other.answers)}
        found = self.differing(other, again)
        open_ = {kind.__name__ for kind in (*comparing.OPEN, *comparing.CHOSEN)}
        found = found | open_ & kinds if found else frozenset(kinds)
        return frozenset(DraftLoop.__name__ if kind == LAUNCHED else kind for kind in found)

    def of(self, kind: str) -> list[Answered]:
        return [one for one in self.answers if one.kind == kind]

    def bare(self) -> Observed:
        return replace(self, answers=tuple(map(Answered.bare, self.answers)))

    def refused(self) -> frozenset[str]:
        """Kinds of requests that the path never answered."""
        words: dict[str, set[str]] = {}
        for one in self.answers:
            words.setdefault(one.kind, set()).add(one.word)
        return frozenset(kind for kind, met in words.items() if met == {UNSUPPORTED})


def summary(verdict: Verdict, values: bool) -> tuple[object, ...]:
    """What two verdicts about the same bytes have in common; values within a bound need not be the same.

    ``values``: with the count and the first value, but for what is in the path's own terms. Which rank was
    the first to break, and which of all NaNs a cell holds, is chance.
    """
    asked = next((note for note in verdict.notes if note.startswith("asked ")), "")
    if verdict.status is Status.ERROR:
        return (verdict.status, verdict.reason.partition(":")[0])
    head = (verdict.status, verdict.layer, verdict.reason, asked)
    if not values or verdict.status is not Status.DIFFER or verdict.grade is Grade.BOUNDED:
        return head
    got = _NAN.sub("nan", _RANK.sub("rank of", str(verdict.got)))
    if verdict.reason in comparing.OWN_TERMS:
        return (*head, got)
    return (*head, got, verdict.count, verdict.want)
