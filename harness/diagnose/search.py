"""The search for the faults of the catalogue that give the very answers a path gave.

Contract: a fault fits a case if the oracle with it planted answers every request of the case as the path did,
and gets the same verdict. It is called certain only if it alone fits the case, two more like it (fresh seeds)
and a few cases of other shapes, its own smallest one among them. How this would fail silently: two faults
that do the same in the cases at hand, of which one is called certain; so every fault of the catalogue that
touches a request of the case is tried, and where several fit, a case is looked for in which they part.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from harness.case.cases import Case, parse
from harness.diagnose.answers import LAUNCHED, VALUE, Answered, Observed
from harness.diagnose.diagnosis import Candidate, Diagnosis
from harness.diagnose.neighbours import fresh, shapes
from harness.diagnose.observing import Around, Observing, observe
from harness.diagnose.suspects import Planting, Suspecting
from harness.exits import CannotRun
from harness.faults.fault import Fault
from harness.judge.ledger import Ledger
from harness.paths import base
from harness.paths.requests.publishing import DraftLoop

Tell = Callable[[str], None]


class Search:
    """One diagnosis that is going on."""

    def __init__(
        self,
        path: base.Path,
        faults: Sequence[Fault],
        ledger: Ledger,
        *,
        planted: tuple[Fault, ...] = (),
        seconds: float = 120.0,
        tell: Tell = lambda said: None,
    ) -> None:
        self._path, self._faults, self._ledger = path, tuple(faults), ledger
        self._around: Around = Planting(planted)
        self._seconds, self._tell = seconds, tell
        self._seen: dict[str, Observed] = {}
        self._said: dict[tuple[str, ...], Observed] = {}
        self._beside: dict[str, bool] = {}

    def run(self, case: Case, leaving_out: Fault | None = None) -> Diagnosis:
        """Diagnose ``case``, without ``leaving_out`` and its twins; no candidates where it does not differ.

        Raises `CannotRun` where the oracle fails as the path does, since every fault would then fit.
        """
        seen = self.observed(case)
        clean = self._suspected(case, ())
        if not seen.differs:
            return Diagnosis(seen, clean, (), 0, 0)
        if seen.same(clean, self._kinds(seen)):
            raise CannotRun(f"ID {case.id} fails on the oracle in the same way: {seen.verdict.reason}")
        known = [fault for fault in self._faults if leaving_out is None or fault.twins != leaving_out.twins]
        parted = seen.parted(clean, self._again(seen, ()))
        touching = [fault for fault in known if touches(fault, parted)]
        found: list[Candidate] = []
        for number, fault in enumerate(touching, 1):
            self._tell(f"{number} of {len(touching)} faults tried, {len(found)} fit")
            if self._fits(case, seen, (fault,)):
                found.append(Candidate((fault,), [case.id]))
        altering, pairs, whole = 0, 0, True
        if not found:
            able = [fault for fault in touching if self._alters(case, seen, clean, fault)]
            altering, (found, pairs, whole) = len(able), self._pairs(case, seen, able)
        held = [case.id, *self._narrow(case, found)]
        found.sort(key=lambda one: (len(one.fails), -len(one.fits)))
        read = None if found else self._addressed(case)
        differing = sum(self._seen[name].differs for name in held)
        return Diagnosis(
            seen, clean, tuple(found), len(touching), altering, pairs, whole, len(held), differing, read
        )

    def observed(self, case: Case) -> Observed:
        """``case`` on the path, run once."""
        if case.id not in self._seen:
            self._seen[case.id] = observe(case, self._path, self._around, self._ledger)
        return self._seen[case.id]

    def _suspected(self, case: Case, faults: tuple[Fault, ...]) -> Observed:
        key = (case.id, *(fault.name for fault in faults))
        if key not in self._said:
            refused = self.observed(case).refused()
            said = observe(case, self._path, Suspecting(faults, refused), self._ledger)
            self._said[key] = said if not faults else said.bare()
        return self._said[key]

    def _fits(self, case: Case, seen: Observed, faults: tuple[Fault, ...]) -> bool:
        """Whether ``faults`` give what was ``seen``; by the first answer alone where that rules them out."""
        again = self._again(seen, faults)
        first = alone(seen)
        if first is not None and not first.same(again(first.request)):
            return False
        said = self._suspected(case, faults)
        return seen.same(said, self._kinds(seen), values=self._aside(case), again=again)

    def _aside(self, case: Case) -> bool:
        """Whether the verdict about ``case`` is about something that no compared answer shows."""
        if case.id not in self._beside:
            seen, clean = self.observed(case), self._suspected(case, ())
            self._beside[case.id] = not seen.differing(clean, self._again(seen, ()))
        return self._beside[case.id]

    def _alters(self, case: Case, seen: Observed, clean: Observed, fault: Fault) -> bool:
        """Whether ``fault`` changes any answer of ``case``."""
        first = alone(clean)
        if first is not None and not first.same(self._again(seen, (fault,))(first.request)):
            return True
        return not clean.same(self._suspected(case, (fault,)), self._kinds(seen))

    def _again(self, seen: Observed, faults: tuple[Fault, ...]) -> Callable[[Any], Answered]:
        """What the oracle with ``faults`` answers to one request that a path was asked."""

        def answer(request: Any) -> Answered:
            watched = Observing(self._path, Suspecting(faults, seen.refused()))
            with contextlib.suppress(Exception):  # a fault may raise, which is kept as its answer
                watched.run(request)
            return watched.kept[-1] if watched.kept else Answered(type(request).__name__, VALUE)

        return answer

    def _addressed(self, case: Case) -> tuple[Observed, Observed] | None:
        """The case in the fill whose wrong values say what was read: on the path, on the oracle."""
        if case.f == "address" or "address" not in case.declared.fills or "f" not in case.names:
            return None
        other = case.but(f="address")
        self._tell(f"nothing fits; {other.id} says what is read")
        return self.observed(other), self._suspected(other, ())

    def _kinds(self, seen: Observed) -> frozenset[str]:
        """Requests that both the path and the oracle answer."""
        suspect = Suspecting((), seen.refused())(self._path)
        return frozenset({kind.__name__ for kind in suspect.table} | {LAUNCHED})

    def _pairs(
        self, case: Case, seen: Observed, altering: Sequence[Fault]
    ) -> tuple[list[Candidate], int, bool]:
        """Pairs that fit, in either order; (found, tried, whether all were tried)."""
        found: list[Candidate] = []
        until = time.monotonic() + self._seconds
        together = list(itertools.combinations(altering, 2))
        for number, (one, other) in enumerate(together):
            if time.monotonic() > until:
                return found, number, False
            self._tell(f"{number} of {len(together)} pairs tried, {len(found)} fit")
            for pair in ((one, other), (other, one)):
                if self._fits(case, seen, pair):
                    found.append(Candidate(pair, [case.id]))
                    break
        return found, len(together), True

    def _narrow(self, case: Case, found: Sequence[Candidate]) -> list[str]:
        """Fresh cases like this one; then, for those that fit them all, cases in which they might part.

        Returns the cases that were run on the path.
        """
        asked = {case.id: False}
        for other in fresh(case):
            asked[other.id] = self._held(case, other, found)
        left = [one for one in found if one.stands]
        own = (parse(fault.case) for one in left for fault in one.faults)
        for other in (*own, *shapes(case)):
            if other.id not in asked:
                asked[other.id] = self._held(case, other, left)
        return [name for name, ran in asked.items() if ran]

    def _held(self, case: Case, other: Case, found: Sequence[Candidate]) -> bool:
        """Hold every candidate that still stands against the path on ``other``; whether there was one.

        Another suite asks other kernels too, so that a path which is right there says nothing.
        """
        standing = [one for one in found if one.stands]
        if not standing:
            return False
        self._tell(f"{len(standing)} that fit, held against {other.id}")
        seen = self.observed(other)
        if seen.told and (other.suite == case.suite or seen.differs):
            for one in standing:
                fits = self._fits(other, seen, one.faults)
                (one.fits if fits else one.fails).append(other.id)
        return True


def touches(fault: Fault, kinds: frozenset[str]) -> bool:
    """Whether ``fault`` changes a request of ``kinds``, those that are answered otherwise than by the oracle.

    One that does not cannot be the cause: what it leaves as it is differs, and nothing before that does.
    """
    return any(kind.__name__ in kinds for kind in fault.plant())


def alone(seen: Observed) -> Answered | None:
    """The first answer, if its request can be asked once more by itself: nothing of it was written.

    Nothing came before it, so a fault that remembers what it was asked answers as it did in the case.
    """
    first = seen.answers[0] if seen.answers else None
    if first is None or first.request is None or first.word != VALUE:
        return None
    kept = any(getattr(first.request, name, None) is not None for name in first.request.written)
    return None if kept or isinstance(first.request, DraftLoop) else first
