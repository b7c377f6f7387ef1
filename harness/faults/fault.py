"""A named fault: one rule of the path, made wrong on purpose.

Contract: a fault says which requests it touches and what is answered to them instead, given the right
answer of whatever path it is planted in; so the same fault can be planted in a path under test (is it
seen?) and in the oracle path (what bytes would it give?). It would fail silently as a fault that changes
nothing, which is why each names a case, and the catalogue's own run shows that case red.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.paths.base import Outcome

Answer = Callable[[Any], Outcome]
Wrong = Callable[[Any, Answer], Outcome]
"""Given a request and the right answer's function: what the faulty path answers."""

Plant = Callable[[], Mapping[type, Wrong]]
"""Makes the wrong answers by request type; called once a case, so that what they remember begins empty."""


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    ``wrong``: what is wrong, one sentence. ``seen``: where it was seen (repository and number, or the
    catalogue that names it). ``weak``: the check in use elsewhere that misses it. ``case``: id of the
    smallest case that exposes it. ``source``: where in production such a rule lives (file: function).
    ``twin``: the fault that gives the same answers to every request; ``wrong`` says why. ``lowered``: it is
    an edit of a kernel's program, so that the oracle cannot have it.
    """

    name: str
    stage: str
    wrong: str
    seen: str
    weak: str
    case: str
    source: str
    plant: Plant
    twin: str = ""
    lowered: bool = False

    @property
    def twins(self) -> frozenset[str]:
        """The names under which the catalogue has these wrong answers."""
        return frozenset({self.name, self.twin} - {""})
