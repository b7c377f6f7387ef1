"""The answer to one case: a status from a closed list, a grade, and where it went wrong.

Only ``agree`` is green. ``mistrusted`` ran and agreed but proves little, and a case that
compared nothing ends there and never in ``agree``. Fails silently if a status is tested
by truth value instead of by `Verdict.green`: every status is a non-empty string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.findings import Finding


class Status(StrEnum):
    """What became of a case."""

    AGREE = "agree"
    DIFFER = "differ"
    MISTRUSTED = "mistrusted"
    UNSUPPORTED = "unsupported"
    ERROR = "error"


class Grade(StrEnum):
    """How strong the comparison was (spec numerics, "Three grades of agreement").

    exact: any summation order gives these bits. ordered: bits required under the declared
    tree. bounded: within the rounding bound of the longest chain. none: nothing compared.
    """

    EXACT = "exact"
    ORDERED = "ordered"
    BOUNDED = "bounded"
    NONE = "none"


OUT_OF_SCOPE = "out of scope"
"""Key of `Verdict.facts`: the case was never asked of this path, so that it is unsupported proves nothing."""

SUBJECTS = "subjects"
"""Key of `Verdict.facts`: request to who answered it and how it ran, ``aiter (emulated)``."""

FAULTS = "faults"
"""Key of `Verdict.facts`: name of each fault that was planted on purpose to whether a request reached it."""

WITH_FAULT = " with fault "


def faulty(subject: str, faults: Iterable[str]) -> str:
    """What ``subject`` (a path) is called with ``faults`` planted: ``flydsl with fault tie-away``."""
    return "".join((subject, *(f"{WITH_FAULT}{name}" for name in faults)))


def without_faults(subject: str) -> str:
    """Inverse of `faulty`: the path's own name."""
    return subject.partition(WITH_FAULT)[0]


LAYERS = ("shape", "mask", "bits", "bound", "refusal", "finding")
"""Comparison layers in the order they are tried; a verdict names the first that failed.

shape: shape, type or arity. mask: a cell written that must not be, or missing. bits: a
value or integer differs. bound: outside the rounding bound (grade bounded). refusal: the
path accepted what it must refuse. finding: results agree, but a new finding came with them.
"""

HEADS = {
    Status.AGREE: "PASSED",
    Status.DIFFER: "FAILED",
    Status.MISTRUSTED: "MISTRUSTED",
    Status.UNSUPPORTED: "UNSUPPORTED",
    Status.ERROR: "ERROR",
}


@dataclass(frozen=True)
class Verdict:
    """One case on one path.

    ``reason`` is one sentence (or one hyphenated word for a difference). ``where`` holds the
    coordinates of the first differing cell, outermost first (row, column, sequence, token,
    page, page row, ...). ``got`` and ``want`` are hex and decimal of that cell. ``count`` of
    ``total`` compared cells differ; for a green verdict ``total`` is what was compared.
    ``heat`` is at most 32 x 64 counts of differing cells over (row, column) of the result.
    ``facts`` are JSON-able figures (codes seen, dots outside the budget, launches, ...).
    """

    case: str
    suite: str
    path: str
    executor: str
    status: Status
    grade: Grade = Grade.NONE
    reason: str = ""
    layer: str = ""
    where: Mapping[str, int | str] = field(default_factory=dict)
    got: str = ""
    want: str = ""
    ulps: int | None = None
    count: int = 0
    total: int = 0
    pattern: str = ""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    rerun: str = ""
    heat: tuple[tuple[int, ...], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.layer and self.layer not in LAYERS:
            raise ValueError(f"layer is {self.layer!r}, allowed are {', '.join(LAYERS)}")
        if self.status is Status.AGREE and (self.total <= 0 or self.grade is Grade.NONE):
            raise ValueError(
                f"case {self.case} agrees on {self.total} cells at grade {self.grade}: not a pass"
            )

    @property
    def green(self) -> bool:
        return self.status is Status.AGREE

    def but(self, **changes: Any) -> Verdict:
        """A copy with ``changes``."""
        return replace(self, **changes)

    def to_record(self) -> dict[str, Any]:
        """JSON-able dict: strings, numbers, lists and dicts only."""
        record = asdict(self)
        record.update(status=str(self.status), grade=str(self.grade), where=dict(self.where))
        record["findings"] = [finding.to_record() for finding in self.findings]
        record["notes"] = list(self.notes)
        record["heat"] = [list(row) for row in self.heat]
        record["facts"] = dict(self.facts)
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Verdict:
        """Inverse of `to_record`; unknown keys are ignored so that old readers open newer runs."""
        known = {key: record[key] for key in cls.__dataclass_fields__ if key in record}
        known["status"] = Status(known["status"])
        known["grade"] = Grade(known["grade"])
        known["findings"] = tuple(Finding(**finding) for finding in known.get("findings", ()))
        known["notes"] = tuple(known.get("notes", ()))
        known["heat"] = tuple(tuple(row) for row in known.get("heat", ()))
        return cls(**known)

    def text(self) -> str:
        """The verdict as people read it: a headline, then one labelled line per thing known."""
        lines = [self._headline()]
        for label, content in self._lines():
            lines.append(f"  {label:<8}{content}")
        return "\n".join(lines)

    def _headline(self) -> str:
        head = f"{HEADS[self.status]}  {self.case}   {self.path} ({self.executor}) vs oracle"
        if self.status is Status.AGREE:
            return f"{head}   {self.grade}, {self.total} cells, {self.seconds:.2f} s"
        return f"{head}   reason: {self.reason or 'not given'}"

    def _lines(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        if self.layer:
            lines.append(("layer", f"{self.layer}{_passed_layers(self.layer, self.grade)}"))
        if self.where:
            lines.append(("where", _coordinates(self.where)))
        if self.got or self.want:
            lines.append(("value", f"got {self.got}  want {self.want}{self._distance()}"))
        if self.status is Status.DIFFER and self.total:
            shared = f", {self.pattern}" if self.pattern else ""
            lines.append(("count", f"{self.count} of {self.total}{shared}"))
        lines.extend(("finding", finding.text()) for finding in self.findings)
        lines.extend(("note", note) for note in self.notes)
        if self.rerun and self.status is not Status.AGREE:
            lines.append(("rerun", self.rerun))
        return lines

    def _distance(self) -> str:
        if self.ulps is None:
            return ""
        return (
            f"  {self.ulps} ulp apart, 0 allowed ({self.grade})"
            if self.layer == "bits"
            else f"  {self.ulps} ulp apart"
        )


def _passed_layers(layer: str, grade: Grade) -> str:
    """The layers that held before ``layer`` failed, as the parenthesis after its name."""
    passed = {
        "mask": "shape ok",
        "bits": f"shape ok, mask ok, bits differ; grade {grade}",
        "bound": "shape ok, mask ok, outside the rounding bound",
        "finding": "shape ok, mask ok, bits ok",
    }.get(layer)
    return f" ({passed})" if passed else ""


def _coordinates(where: Mapping[str, int | str]) -> str:
    """``row 11, column 2047: sequence 5, token 1, ...``: result coordinates, then what they mean."""
    parts = [f"{key} {value}" for key, value in where.items()]
    lead = sum(1 for key in where if key in ("row", "column", "entry", "field", "tensor"))
    head, rest = ", ".join(parts[:lead]), ", ".join(parts[lead:])
    return f"{head}: {rest}" if head and rest else head or rest
