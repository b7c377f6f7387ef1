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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.case import case_lists
from harness.case.cases import Case, parse
from harness.diagnose.observing import LAUNCHED, VALUE, Answered, Around, Observed, Observing, observe
from harness.diagnose.suspects import Planting, Suspecting
from harness.exits import CannotRun
from harness.faults.fault import Fault
from harness.judge.ledger import Ledger
from harness.paths import base
from harness.paths.requests.publishing import DraftLoop

FRESH = 2
"""Cases like the one in question on which a fault must fit as well."""
STEP = 1000003
"""From a seed to the next fresh one."""
OTHERS = 3
"""Cases of other shapes on which one fault that is left must fit."""
SEEDS = 1 << 31
HEAVY = ("far", "vast")

Tell = Callable[[str], None]


@dataclass
class Candidate:
    """One fault, or two, that fit the case in question. ``fits`` and ``fails``: cases on which held."""

    faults: tuple[Fault, ...]
    fits: list[str] = field(default_factory=list)
    fails: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return " + ".join(fault.name for fault in self.faults)

    @property
    def stands(self) -> bool:
        return not self.fails


@dataclass(frozen=True)
class Diagnosis:
    """What was found. ``candidates``: best first. ``seen``, ``clean``: the case on the path and the oracle.

    ``tried``: faults that touch a request whose answers differ; ``altering``: how many of them change an
    answer, and ``pairs`` of these that were tried, where no single fault fits. ``whole`` is false when time
    ran out before every pair was.
    ``differing``: how many of the cases that were run on the path differ. ``read``: where nothing fits, the
    case in fill address, on the path and on the oracle.
    """

    seen: Observed
    clean: Observed
    candidates: tuple[Candidate, ...]
    tried: int
    altering: int
    pairs: int = 0
    whole: bool = True
    cases: int = 1
    differing: int = 1
    read: tuple[Observed, Observed] | None = None

    @property
    def standing(self) -> tuple[Candidate, ...]:
        """Those that fit every case that was tried."""
        return tuple(one for one in self.candidates if one.stands)

    @property
    def certain(self) -> bool:
        """Whether one fault, or one pair, and no other fits everywhere."""
        return len(self.standing) == 1 and self.whole and len(self.standing[0].fits) > FRESH


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

    def run(self, case: Case, leaving_out: Fault | None = None) -> Diagnosis:
        """Diagnose ``case``; without candidates where it does not differ.

        Raises `CannotRun` where the oracle fails as the path does, since every fault would then fit.
        """
        seen = self.observed(case)
        clean = self._suspected(case, ())
        if not seen.differs:
            return Diagnosis(seen, clean, (), 0, 0)
        if clean.same(seen, self._kinds(seen)):
            raise CannotRun(f"ID {case.id} fails on the oracle in the same way: {seen.verdict.reason}")
        known = [fault for fault in self._faults if fault is not leaving_out]
        parted = seen.parted(clean)
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
        first = alone(seen)
        if first is not None and not self._first(first, seen, faults).same(first):
            return False
        return self._suspected(case, faults).same(seen, self._kinds(seen))

    def _alters(self, case: Case, seen: Observed, clean: Observed, fault: Fault) -> bool:
        """Whether ``fault`` changes any answer of ``case``."""
        first = alone(clean)
        if first is not None and not self._first(first, seen, (fault,)).same(first):
            return True
        return not self._suspected(case, (fault,)).same(clean, self._kinds(seen))

    def _first(self, first: Answered, seen: Observed, faults: tuple[Fault, ...]) -> Answered:
        """What the oracle with ``faults`` answers to the first request of a case."""
        watched = Observing(self._path, Suspecting(faults, seen.refused()))
        with contextlib.suppress(Exception):  # a fault may raise, which is kept as its answer
            watched.run(first.request)
        return watched.kept[-1] if watched.kept else first.bare()

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
            kinds = self._kinds(seen)
            for one in standing:
                fits = self._suspected(other, one.faults).same(seen, kinds)
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


def fresh(case: Case) -> Iterator[Case]:
    """Cases like ``case``: its own with other seeds, else listed ones of its kind."""
    if "s" in case.names:
        for number in range(1, FRESH + 1):
            yield case.but(s=(case.s + number * STEP) % SEEDS)
        return
    yield from itertools.islice(_alike(case), FRESH)


def shapes(case: Case) -> tuple[Case, ...]:
    """Listed cases of the suite and kind of ``case``, small, middling and large."""
    listed = sorted(_alike(case), key=_cost)
    places = (len(listed) * part // (OTHERS + 1) for part in range(1, OTHERS + 1))
    return tuple(dict.fromkeys(listed[place] for place in places)) if listed else ()


def _alike(case: Case) -> Iterator[Case]:
    for other in case_lists.listed(case.suite, "smoke"):
        if other.kind == case.kind and other != case and other.t not in HEAVY:
            yield other


def _cost(case: Case) -> int:
    return max(1, case.rows) * max(case.longest, case.r, 1) * max(1, case.h)
