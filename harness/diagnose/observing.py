"""A path that keeps what it answers, and what one case came to on it.

Contract: `observe` runs the check of a case as `harness check` does, so that what is observed is what was
judged; answers are kept in the form in which they are compared (`comparing`), since tensors are used again.
Ranks answer in processes of their own, so what they were asked comes back with their answers. It would fail
silently if a part of the answers were not kept: two faults that differ in that part would look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import ne
from typing import Any

import torch
from torch import Tensor

from harness import runner
from harness.ab.tape import outputs
from harness.case.cases import Case
from harness.diagnose import comparing
from harness.diagnose.comparing import Compared
from harness.faults.fault import Fault
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths import base
from harness.paths.base import Outcome, Unsupported
from harness.paths.requests.publishing import DraftLoop, Launched
from harness.paths.wrapped import Wrapped
from harness.ranks import pool
from harness.ranks.group import Group

LAUNCHED = "Launched"
VALUE, UNSUPPORTED, RAISED = "value", "unsupported", "raised"

Around = Callable[[base.Path], base.Path]
"""What stands around a path; pickled with the share of a rank, so that it is made once more there."""


@dataclass(frozen=True, eq=False)
class Answered:
    """One answer: type of the request, what became of it, and what is compared.

    ``request`` and ``raw`` (outputs by name) are what the answer was made from and what it was; they are
    kept for describing a difference, and not handed over between processes.
    """

    kind: str
    word: str
    cells: Compared = field(default_factory=dict)
    request: Any = None
    raw: dict[str, Tensor] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answered) and self.same(other)

    def same(self, other: Answered) -> bool:
        """Whether nothing that is compared differs."""
        if (self.kind, self.word) != (other.kind, other.word) or self.cells.keys() != other.cells.keys():
            return False
        return self.apart(other) or all(equal(self.cells[name], other.cells[name]) for name in self.cells)

    def apart(self, other: Answered) -> bool:
        """Whether the two were asked about other choices of what is open."""
        mine, theirs = (one.cells.get(comparing.ASKED) for one in (self, other))
        return mine is not None and theirs is not None and not equal(mine, theirs)

    def bare(self) -> Answered:
        return replace(self, request=None, raw={})


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

    def same(self, other: Observed, kinds: frozenset[str]) -> bool:
        """Whether verdict and answers are the same; only requests in ``kinds`` are held side by side."""
        mine, theirs = ([one for one in side.answers if one.kind in kinds] for side in (self, other))
        if len(mine) != len(theirs) or not all(map(Answered.same, mine, theirs)):
            return False
        values = not any(map(Answered.apart, mine, theirs))
        return summary(self.verdict, values) == summary(other.verdict, values)

    def parted(self, other: Observed) -> frozenset[str]:
        """Kinds of requests that are answered otherwise, or may be, where answers are not compared.

        All kinds where no answer differs in what is compared: the verdict is about something else then. That
        one side was asked more is no difference, since a check ends at the first wrong answer.
        """
        kinds = {one.kind for one in (*self.answers, *other.answers)}
        found = {kind for kind in kinds if any(map(ne, self.of(kind), other.of(kind)))}
        open_ = {kind.__name__ for kind in (*comparing.OPEN, *comparing.CHOSEN)}
        found = found | open_ & kinds if found else kinds
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

    ``values``: with the count and the first value, which an open choice may change.
    """
    asked = next((note for note in verdict.notes if note.startswith("asked ")), "")
    if verdict.status is Status.ERROR:
        return (verdict.status, verdict.reason.partition(":")[0])
    head = (verdict.status, verdict.layer, verdict.reason, asked)
    if not values or verdict.status is not Status.DIFFER or verdict.grade is Grade.BOUNDED:
        return head
    return (*head, verdict.count, verdict.got, verdict.want)


class Observing(Wrapped):
    """``around(path)``, with every answer kept in ``answers``."""

    def __init__(self, path: base.Path, around: Around) -> None:
        super().__init__(around(path))
        self.path, self.made = path, around
        self.rerun_args: tuple[str, ...] = getattr(self.inner, "rerun_args", ())
        self.kept: list[Answered] = []

    @property
    def faults(self) -> Sequence[Fault]:
        """What is planted in what is observed, so that its verdict says so."""
        return getattr(self.inner, "faults", ())

    @property
    def asked(self) -> set[str]:
        return getattr(self.inner, "asked", set())

    def around(self, method: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        def run(request: Any) -> Outcome:
            kind, earlier = type(request).__name__, comparing.before(request)
            try:
                outcome = self.inner.run(self._heard(request))
            except Unsupported:
                self.kept.append(Answered(kind, UNSUPPORTED))
                raise
            except Exception:
                self.kept.append(Answered(kind, RAISED))
                raise
            given = {name: tensor.cpu() for name, tensor in outputs(request, outcome.value)}
            cells = {name: part.clone() for name, part in compared(request, given, earlier).items()}
            raw = {name: tensor.clone() for name, tensor in given.items() if small(tensor)}
            self.kept.append(Answered(kind, VALUE, cells, request, raw))
            return outcome

        return run

    def _heard(self, request: Any) -> Any:
        """``request``, its launches kept as answers of their own."""
        if not isinstance(request, DraftLoop):
            return request

        def launch(launched: Launched) -> None:
            place = torch.tensor([launched.step, launched.part, launched.next_n])
            cells = {"launch": place, "schedule": launched.schedule.long().clone()}
            cells["lengths"] = launched.context_lens.long().clone()
            self.kept.append(Answered(LAUNCHED, VALUE, cells))
            request.launch(launched)

        return replace(request, launch=launch)


def small(tensor: Tensor) -> bool:
    return tensor.numel() <= comparing.LARGEST


class Defect(Exception):
    """Observing itself failed; taken for the path's doing, every fault would seem to do the same."""


def compared(request: Any, given: dict[str, Tensor], earlier: list[Tensor]) -> Compared:
    """What is compared of an answer; of one that has not the form it should have, every bit."""
    try:
        return comparing.compared(request, given, earlier)
    except (IndexError, KeyError, RuntimeError, ValueError):
        return {name: comparing.bits(tensor) for name, tensor in given.items() if small(tensor)}
    except Exception as problem:
        raise Defect(f"{type(request).__name__}: {type(problem).__name__}: {problem}") from problem


def observe(case: Case, path: base.Path, around: Around, ledger: Ledger) -> Observed:
    """Run ``case`` on ``around(path)``. ``path`` is registered, or can be pickled, if ranks are needed."""
    watched = Observing(path, around)
    with ranks_observed(watched):
        verdict = runner.run(case, watched, ledger)
    if Defect.__name__ in verdict.reason:
        raise AssertionError(verdict.reason)
    return Observed(case, verdict, tuple(watched.kept))


@dataclass(frozen=True)
class RankShare:
    """A rank's share, its job, and what stands around its path."""

    job: Any
    around: Around
    share: Any


def rank(path: base.Path, group: Group, share: RankShare) -> tuple[Any, list[Answered]]:
    """The job of a rank on an observed path: its answer, and what the path answered on the way."""
    watched = Observing(path, share.around)
    answer = share.job(watched, group, share.share)
    return answer, [one.bare() for one in watched.kept]


class _Ranks:
    """Stands for the pool of rank processes while one path is observed."""

    def __init__(self, watched: Observing, real: pool.Pool) -> None:
        self._watched, self._real = watched, real

    def run(self, job: Any, path: base.Path, shares: Sequence[Any]) -> list[Any]:
        mine = [RankShare(job, self._watched.made, share) for share in shares]
        answers = self._real.run(rank, self._watched.path, mine)
        for _, kept in answers:
            self._watched.kept.extend(kept)
        return [answer for answer, _ in answers]


@contextmanager
def ranks_observed(watched: Observing) -> Iterator[None]:
    """Rank processes observe as well until the block ends."""
    found = pool.shared
    real = found()
    setattr(pool, "shared", lambda: _Ranks(watched, real))  # noqa: B010 - an assignment would want its type
    try:
        yield
    finally:
        pool.shared = found
