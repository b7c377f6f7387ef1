"""A path with faults planted: it answers as its inner path does, but for the requests the faults touch.

Contract: one `Planted` serves one case, since a fault may remember what it was asked before. A path that does
not answer a request of a fault has no such fault: `touches` says so, and it must be asked. What came out of a
faulty path never passes for what the path gave: the verdict's path, its facts and its rerun line name the
faults (`marked`), and so does each answer's subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from harness.faults.fault import Fault, Wrong
from harness.judge.verdict import FAULTS, SUBJECTS, Verdict, faulty
from harness.paths import base
from harness.paths.wrapped import Wrapped


class Planted(Wrapped):
    """``inner`` with ``faults``, the first nearest to it."""

    def __init__(self, inner: base.Path, faults: Sequence[Fault]) -> None:
        super().__init__(inner)
        self.faults = tuple(faults)
        self.asked: set[str] = set()
        """Names of the faults that a request has reached in this process."""

    @property
    def rerun_args(self) -> tuple[str, ...]:
        """The inner path's words of a command line, and one ``--fault`` a fault."""
        own: tuple[str, ...] = getattr(self.inner, "rerun_args", ())
        return (*own, *(word for fault in self.faults for word in ("--fault", fault.name)))

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        return method

    @cached_property
    def table(self) -> base.Answers:
        table = dict(self.inner.table)
        for fault in self.faults:
            for kind, wrong in fault.plant().items():
                if kind in table:
                    table[kind] = self._with(fault.name, wrong, table[kind])
        return table

    def touches(self, fault: Fault) -> bool:
        """Whether the inner path answers any request that ``fault`` changes."""
        return any(kind in self.inner.table for kind in fault.plant())

    def _with(self, name: str, wrong: Wrong, right: Callable[[Any], base.Outcome]) -> Any:
        def answer(request: Any) -> base.Outcome:
            self.asked.add(name)
            outcome = wrong(request, right)
            subject = faulty(str(outcome.facts.get("subject", self.inner.name)), [name])
            return replace(outcome, facts={**outcome.facts, "subject": subject})

        return answer


def planted(path: base.Path, faults: Sequence[Fault]) -> base.Path:
    """``path`` with ``faults`` for one case; the path itself where there are none."""
    return Planted(path, faults) if faults else path


def marked(verdict: Verdict, path: base.Path) -> Verdict:
    """``verdict`` of ``path`` such that it says which faults were planted and which of them were reached.

    ``facts[FAULTS]`` maps each fault's name to whether a request reached it, in whatever process.
    """
    faults: Sequence[Fault] = getattr(path, "faults", ())
    if not faults:
        return verdict
    names = [fault.name for fault in faults]
    asked: set[str] = set(getattr(path, "asked", ()))
    for subject in dict(verdict.facts.get(SUBJECTS, {})).values():
        asked.update(name for name in names if name in str(subject).replace("(", " ").split())
    missed = [name for name in names if name not in asked]
    notes = tuple(
        f"fault {name} was not reached: nothing it touches was asked of the path" for name in missed
    )
    return verdict.but(
        path=faulty(verdict.path, names),
        notes=(*notes, *verdict.notes),
        facts={**verdict.facts, FAULTS: {name: name in asked for name in names}},
    )
