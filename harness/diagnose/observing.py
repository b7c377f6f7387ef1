"""A path that keeps what it answers, and what one case came to on it.

Contract: `observe` runs the check of a case as `harness check` does, so that what is observed is what was
judged; answers are kept in the form in which they are compared (`comparing`), since tensors are used again.
Ranks answer in processes of their own, so what they were asked comes back with their answers. It would fail
silently if a part of the answers were not kept: two faults that differ in that part would look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harness import runner
from harness.ab.tape import outputs
from harness.case.cases import Case
from harness.diagnose import cells, comparing, roundings
from harness.diagnose.answers import LAUNCHED, RAISED, UNSUPPORTED, VALUE, Answered, Observed
from harness.diagnose.cells import Compared
from harness.faults.fault import Fault
from harness.judge.ledger import Ledger
from harness.paths import base
from harness.paths.base import Outcome, Unsupported
from harness.paths.requests.publishing import DraftLoop, Launched
from harness.paths.wrapped import Wrapped
from harness.ranks import pool
from harness.ranks.group import Group

Around = Callable[[base.Path], base.Path]
"""What stands around a path; pickled with the share of a rank, so that it is made once more there."""


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
            kind, earlier = type(request).__name__, roundings.before(request)
            try:
                outcome = self.inner.run(self._heard(request))
            except Unsupported:
                self.kept.append(Answered(kind, UNSUPPORTED))
                raise
            except Exception:
                self.kept.append(Answered(kind, RAISED))
                raise
            given = {name: tensor.cpu() for name, tensor in outputs(request, outcome.value)}
            found = {name: part.clone() for name, part in compared(request, given, earlier).items()}
            raw = {name: tensor.clone() for name, tensor in given.items() if cells.kept(tensor)}
            asked = deepcopy(request) if type(request) in comparing.DEPENDING else request
            self.kept.append(Answered(kind, VALUE, found, asked, raw))
            return outcome

        return run

    def _heard(self, request: Any) -> Any:
        """``request``, its launches kept as answers of their own."""
        if not isinstance(request, DraftLoop):
            return request

        def launch(launched: Launched) -> None:
            place = torch.tensor([launched.step, launched.part, launched.next_n])
            found = {"launch": place, "schedule": launched.schedule.long().clone()}
            found["lengths"] = launched.context_lens.long().clone()
            self.kept.append(Answered(LAUNCHED, VALUE, found))
            request.launch(launched)

        return replace(request, launch=launch)


class Defect(Exception):
    """Observing itself failed; taken for the path's doing, every fault would seem to do the same."""


def compared(request: Any, given: dict[str, Tensor], earlier: list[Tensor]) -> Compared:
    """What is compared of an answer; of one that has not the form it should have, every bit."""
    try:
        return comparing.compared(request, given, earlier)
    except (IndexError, KeyError, RuntimeError, ValueError):
        return {name: cells.bits(tensor) for name, tensor in given.items() if cells.kept(tensor)}
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
