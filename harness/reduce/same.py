"""What "fails in the same way" means, in one place; everything is held against the first failure.

Contract: two verdicts are the same failure if suite, status, layer and reason are, the question that was
asked (the step), the stage or tensor that is named, the first new finding, the hints about the wrong value
and where in its row it lies. Numbers are left out of texts, since they change with the size of a case. How
this would fail silently: a rule that is too wide lets the reduction slide to another bug, which is then
reported in the first one's name; so where a part is in doubt, the case counts as another failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.judge.coordinates import EDGES
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict

NAMED = ("stage", "tensor", "field", "map", "plane", "backend")
"""Coordinates whose words say what is wrong; the others say where in it."""
RULE = "the value is right "
"""Head of the notes that name a wrong rule; other notes about a value may be chance."""
HINT = "the value "
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:, [0-9]+(?:\.[0-9]+)?)*")


@dataclass(frozen=True)
class Failure:
    """A failure without its numbers.

    ``rules``: wrong rules that would give the value; ``hints``: other places that hold it; ``edge``: the
    column of its row that all differing cells are, if they are one.
    """

    suite: str
    status: str
    layer: str
    reason: str
    step: str
    named: tuple[str, ...]
    finding: str
    rules: frozenset[str]
    hints: frozenset[str]
    edge: str

    def same(self, other: Failure | None) -> bool:
        """Whether ``other``, of a smaller case, is this failure."""
        if other is None or self._plain() != other._plain():
            return False
        if (self.layer == "mask" or self.edge) and self.edge != other.edge:
            return False
        if self.rules or other.rules:
            return bool(self.rules & other.rules)
        return not self.hints or bool(self.hints & other.hints)

    def _plain(self) -> tuple[object, ...]:
        return (self.suite, self.status, self.layer, self.reason, self.step, self.named, self.finding)


def failure(verdict: Verdict, ledger: Ledger) -> Failure | None:
    """How ``verdict`` fails; None when it does not (agree, mistrusted) or was not asked (unsupported)."""
    if verdict.status not in (Status.DIFFER, Status.ERROR):
        return None
    about = [without_numbers(note) for note in verdict.notes if note.startswith(HINT)]
    _, new = ledger.split(verdict.findings, verdict.path)
    return Failure(
        verdict.suite,
        str(verdict.status),
        verdict.layer,
        without_numbers(verdict.reason),
        _step(verdict),
        _named(verdict.where),
        without_numbers(f"{new[0].what} in {new[0].kernel} at {new[0].file}") if new else "",
        frozenset(one for one in about if one.startswith(RULE)),
        frozenset(one for one in about if not one.startswith(RULE)),
        next((edge for edge in EDGES if f"is {edge}" in verdict.pattern), ""),
    )


def without_numbers(text: str) -> str:
    """``text`` with ``#`` for every number and for every list of numbers."""
    return _NUMBERS.sub("#", text)


def _step(verdict: Verdict) -> str:
    """The question that was asked, or the place that raised."""
    notes = (note for note in verdict.notes if note.startswith(("asked ", "raised at ")))
    return without_numbers(next(notes, ""))


def _named(where: Mapping[str, int | str]) -> tuple[str, ...]:
    """Names of all coordinates, and the words of those that say what is wrong."""
    words = (f"{key} {without_numbers(str(where[key]))}" for key in NAMED if key in where)
    return (*where, *words)
