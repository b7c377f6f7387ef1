"""A certificate: one verdict for each point that must hold before a leg's accuracy means anything.

Contract: a leg with a point that fails is not measured, whatever its accuracy. A point that nobody can tell
is never taken as held; the leg is then not certified, and what is said of it carries the reason. A point
that the campaign gives nobody the means to show (which path ran, without a pattern) leaves the leg certified
except that point, and every place that names the leg's certificate says so. The failure to fear is a point
that holds because nothing was looked at, so a verdict without figures is ``cannot tell``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What is known of a point. ``not asked``: it does not apply; ``not shown``: it does, and nothing was
    looked for."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "cannot tell"
    NOT_ASKED = "not asked"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Point:
    """One point: ``name`` in a closed list, ``said`` one sentence, ``figures`` what it is derived from.

    ``binding``: a leg that fails it is not measured. A point that is not binding only limits what may be
    said (does text diffing have power, how large is the run-to-run flip rate).
    """

    name: str
    verdict: Verdict
    said: str
    binding: bool = True
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "said": self.said,
            "binding": self.binding,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True)
class Certificate:
    """All points of one leg, in the order in which they are shown."""

    leg: str
    points: tuple[Point, ...]
    known_bad: bool = False

    @property
    def fails(self) -> tuple[Point, ...]:
        """The points for which the leg is not measured."""
        return tuple(one for one in self.points if one.binding and one.verdict is Verdict.FAILS)

    @property
    def unknown(self) -> tuple[Point, ...]:
        """The points that nobody can tell."""
        return tuple(one for one in self.points if one.binding and one.verdict is Verdict.UNKNOWN)

    @property
    def unshown(self) -> tuple[Point, ...]:
        """The points that the certificate leaves out, since nothing was looked for."""
        return tuple(one for one in self.points if one.binding and one.verdict is Verdict.NOT_SHOWN)

    @property
    def certified(self) -> bool:
        """Whether no binding point fails or is one that nobody can tell; `unshown` are left out."""
        return not self.fails and not self.unknown

    @property
    def reason(self) -> str:
        """Why the leg is not measured; empty when it is."""
        return "; ".join(one.said for one in self.fails)

    @property
    def word(self) -> str:
        """What it comes to: ``certified``, ``certified except`` what is not shown, ``not measured``, or ``not
        certified`` where nobody can tell."""
        if self.fails or self.unknown:
            return "not measured" if self.fails else "not certified"
        names = ", ".join(one.name for one in self.unshown)
        return f"certified except {names}" if names else "certified"

    def to_record(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "leg": self.leg,
            "known_bad": self.known_bad,
            "certified": self.certified,
            "except": [one.name for one in self.unshown],
            "word": self.word,
            "reason": self.reason,
            "points": [one.to_record() for one in self.points],
        }
