"""Reported measurements: times, counts of lines, ranges. Arithmetic cannot tell whether they are right.

Contract: each is kept as it was printed, with its unit and under what it was measured, and gives one remark,
so that nobody takes silence for a check. What can be told is told: its ratio to the measurement that the
report sets beside it, and whether a range holds the value that the report says it confirms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from harness.legs.claims.arithmetic import Printed
from harness.legs.claims.entries import ReportError, checked, figure_of, standing

KIND = "measured"
FIELDS = {
    "id": str, "is": str, "to": str, "unit": str, "at": dict, "against": str, "around": str, "says": str,
    "but": str, "standing": str, "why": str, "superseded_by": str, "source": str,
}  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """``shown`` (to ``upto``, where it is a range) in ``unit``, measured ``at``.

    ``against``: the measurement that the report sets beside it; ``around``: the figure that its range is
    said to confirm. ``but``: what the report itself says it does not show.
    """

    id: str
    shown: Printed
    unit: str
    says: str
    source: str
    standing: str
    upto: Printed | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    against: str = ""
    around: str = ""
    but: str = ""
    why: str = ""
    superseded_by: str = ""

    @property
    def text(self) -> str:
        """As the report has it: ``0.41 to 0.52``, ``8.75 us (units 4096)``."""
        span = self.shown.text + (f" to {self.upto.text}" if self.upto else "")
        under = ", ".join(f"{name} {value}" for name, value in self.at.items())
        return " ".join(filter(None, (span, self.unit))) + (f" ({under})" if under else "")

    def spans(self, exact: Fraction) -> bool:
        """Whether ``exact`` lies within the range, ends as they may have been rounded."""
        return self.shown.low <= exact <= (self.upto or self.shown).high


def read(records: Sequence[Any]) -> dict[str, Measurement]:
    """The entries ``[[measured]]`` by id. Raises `ReportError`."""
    made = [_one(record, number) for number, record in enumerate(records, 1)]
    found = {one.id: one for one in made}
    if len(found) < len(made):
        ids = [one.id for one in made]
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ReportError(f"{KIND} lists {twice} twice, allowed is once")
    for one in made:
        if one.against and one.against not in found:
            raise ReportError(f"{KIND} {one.id} has against {one.against!r}, allowed are {', '.join(found)}")
        if one.against and not found[one.against].shown.value:
            raise ReportError(f"{KIND} {one.id} has against {one.against!r}, which is 0: no ratio to it is")
    return found


def _one(record: Any, number: int) -> Measurement:
    found = checked(record, number, KIND, FIELDS)
    name = found["id"]
    for lacking in ("is", "says"):
        if not found.get(lacking):
            raise ReportError(f"{KIND} {name} lacks field {lacking}")
    shown = figure_of(name, "is", found["is"])
    upto = figure_of(name, "to", found["to"]) if "to" in found else None
    if upto is not None and upto.value < shown.value:
        raise ReportError(f"{KIND} {name} has to {upto.text}, allowed is {shown.text} or more")
    for condition, value in found.get("at", {}).items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ReportError(f"{KIND} {name} has at.{condition} {value!r}, allowed are numbers and texts")
    word = standing(found, KIND)
    same = ("at", "against", "around", "but", "why", "superseded_by")
    as_said = {key: found[key] for key in same if key in found}
    return Measurement(
        name, shown, found.get("unit", ""), found["says"], found["source"], word, upto, **as_said
    )
