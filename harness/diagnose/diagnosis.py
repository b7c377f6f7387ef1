"""What a search found: faults that fit, what they were held against, and whether one is certain.

Contract: ``certain`` holds only where one fault (or one pair) and no other fits every case that was tried,
and more than the case and its fresh seeds were. Faults that the catalogue calls twins give the same answers
to every request, so they count as one, and all are named. It fails silently where two are called twins that
some request tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.diagnose.answers import Observed
from harness.faults.fault import Fault

FRESH = 2
"""Cases like the one in question on which a fault must fit as well."""


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
        """Whether one fault (with its twins), or one pair, and no other fits everywhere."""
        standing = self.standing
        return (
            bool(standing)
            and self.whole
            and all(twins(standing[0], other) and len(other.fits) > FRESH for other in standing)
        )


def twins(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates are the same but for faults that are twins."""
    return {fault.twins for fault in one.faults} == {fault.twins for fault in other.faults}
