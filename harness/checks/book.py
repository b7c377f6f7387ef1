"""What a check keeps while it asks a path one question after another, and the verdict it ends in.

Findings and facts of every request end up in the verdict, also of those after which the
check went on. `agree` turns into ``mistrusted`` here, in one place, when what ran proves
little; a check that makes its own green verdict would escape that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from harness.case.cases import Case
from harness.checks import untouched
from harness.findings import Finding
from harness.judge.compare import Difference
from harness.judge.coordinates import Grid, pattern
from harness.judge.verdict import SUBJECTS, Grade, Status, Verdict
from harness.paths.base import Outcome, OutOfScope, Path
from harness.paths.oracle import OraclePath

STRENGTH = (Grade.EXACT, Grade.ORDERED, Grade.BOUNDED, Grade.NONE)
ADDED = ("over_budget", "launches", "loads", "stores")
"""Facts of outcomes that are summed over the requests of a case; of the others the last one stays."""


@dataclass
class Book:
    """Running account of one case on one path."""

    case: Case
    path: Path
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    stood_in: set[str] = field(default_factory=set)
    """Requests that the oracle answered in the path's stead."""
    total: int = 0
    others: tuple[Any, ...] = ()
    """What the path may as well have given for the last request (`Outcome.others`)."""

    def ask(self, request: Any) -> Any:
        """The path's answer to ``request``; its findings and facts are kept. Raises `Unsupported`."""
        return self._asked(self.path, request).value

    def stage(self, request: Any) -> Any:
        """The value of `staged`, for suites that need more stages than they are about."""
        return self.staged(request).value

    def staged(self, request: Any) -> Outcome:
        """The path's outcome, or the oracle's where the path has no such operation or cannot run it here.

        ``facts[SUBJECTS]`` says who answered, and a note why. Raises `Unsupported` when the path should have
        the operation and has not.
        """
        try:
            return self._asked(self.path, request)
        except OutOfScope as refusal:
            name = type(request).__name__
            self.stood_in.add(name)
            if type(request) in self.path.table:
                self.note(f"{name} stood in for by the oracle: {refusal}")
            return self._asked(OraclePath(), request)

    def _asked(self, path: Path, request: Any) -> Outcome:
        before = untouched.digests(request)
        outcome: Outcome = path.run(request)
        subject, executor = (
            outcome.facts.get("subject", path.name),
            outcome.facts.get("executor", path.executor),
        )
        self.facts.setdefault(SUBJECTS, {})[type(request).__name__] = f"{subject} ({executor})"
        self.findings.extend((*outcome.findings, *untouched.changed(request, before)))
        for key, value in outcome.facts.items():
            if key in ADDED and isinstance(value, int):
                self.facts[key] = self.facts.get(key, 0) + value
            elif isinstance(value, str | int | float | bool | list | dict):
                self.facts[key] = value
        self.others = tuple(map(at_home, outcome.others))
        return replace(outcome, value=at_home(outcome.value), others=self.others)

    def doubt(self, condition: bool, reason: str) -> None:
        """Mistrust the case for ``reason`` if ``condition`` holds, should it agree."""
        if condition and reason not in self.doubts:
            self.doubts.append(reason)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def differ(
        self,
        difference: Difference,
        grade: Grade,
        *,
        where: dict[str, int | str] | None = None,
        shared: str = "",
        step: str = "",
    ) -> Verdict:
        """The case differs. ``step`` says which of its questions it was."""
        return self._verdict(
            Status.DIFFER,
            grade,
            reason=difference.reason,
            layer=difference.layer,
            where=where or {},
            got=difference.got,
            want=difference.want,
            ulps=difference.ulps,
            count=difference.count,
            total=difference.total,
            pattern=shared,
            notes=(*([f"asked {step}"] if step else []), *self.notes),
            heat=difference.heat,
        )

    def differ_on(self, difference: Difference, grade: Grade, grid: Grid, *, step: str = "") -> Verdict:
        """The case differs in a score matrix; coordinates and pattern come from ``grid``."""
        where = grid.where(*difference.first) if len(difference.cells) else {}
        return self.differ(difference, grade, where=where, shared=pattern(difference, grid), step=step)

    def refuse(self, what: str, step: str) -> Verdict:
        """The path took what it must refuse."""
        return self._verdict(
            Status.DIFFER,
            Grade.NONE,
            reason=f"accepted {what}",
            layer="refusal",
            count=1,
            total=1,
            notes=(f"asked {step}", *self.notes),
        )

    def agree(self, grade: Grade) -> Verdict:
        """Everything agreed at ``grade``: green, or mistrusted with the reasons."""
        self.doubt(self.total == 0, "nothing was compared")
        if self.doubts:
            return self._verdict(Status.MISTRUSTED, grade, reason="; ".join(self.doubts), total=self.total)
        return self._verdict(Status.AGREE, grade, total=self.total)

    def _verdict(self, status: Status, grade: Grade, **more: Any) -> Verdict:
        more.setdefault("notes", tuple(self.notes))
        return Verdict(
            case=self.case.id,
            suite=self.case.suite,
            path=self.path.name,
            executor=self.path.executor,
            status=status,
            grade=grade,
            findings=merged(self.findings),
            facts=dict(self.facts),
            **more,
        )


def at_home(value: Any) -> Any:
    """``value`` with its tensors on the CPU, where everything is compared."""
    if isinstance(value, Tensor):
        return value.cpu()
    return tuple(map(at_home, value)) if isinstance(value, tuple) else value


def merged(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding a kind, kernel, operand and place; counts added, the first example kept."""
    kept: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        key = (one.kind, one.kernel, one.operand, one.location)
        before = kept.get(key)
        kept[key] = (
            one if before is None else Finding(*key, count=before.count + one.count, first=before.first)
        )
    return tuple(kept.values())


def weakest(grades: list[Grade]) -> Grade:
    """The weakest of ``grades``; none when there is none."""
    return max(grades, key=STRENGTH.index, default=Grade.NONE)
