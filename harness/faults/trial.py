"""One fault on its own case: green without it, red with it, and what others' acceptance rules say.

Contract: a fault is red only where the same case is green without it and a comparison, not a breakdown, is
what failed. A case whose path was never asked what the fault touches shows nothing and says so. Scores are
those of answers that come back whole (no buffer or schedule of the caller's), in the order they were asked
for; where none of them is wrong others' rules have nothing to judge, and the fault's own words stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness import runner
from harness.case import cases
from harness.faults.fault import Fault
from harness.faults.planted import Planted
from harness.faults.scored import SCORERS
from harness.judge import bits
from harness.judge.ledger import Ledger
from harness.judge.verdict import FAULTS, Status, Verdict
from harness.paths import base
from harness.paths.requests.eightbit import FlatScores8
from harness.power import acceptance

RED, MISSED, UNREACHED, OUTSIDE, BROKEN = "red", "missed", "unreached", "out of scope", "broken"
OUTCOMES = {
    RED: "the case differs with the fault",
    MISSED: "the case does not differ although a request reached the fault",
    UNREACHED: "nothing that the fault touches was asked",
    OUTSIDE: "the path has not what the fault or its case needs",
    BROKEN: "the case is not green without the fault, or breaks with it",
}


@dataclass(frozen=True)
class Told:
    """What became of one fault.

    ``outcome`` is one of `OUTCOMES`, ``reason`` why it is not red. ``layer``: what was red. ``passing``: the
    acceptance rules that let the faulty scores pass, None where no score that they look at is wrong. Seconds
    are those of the case with the fault.
    """

    fault: str
    stage: str
    case: str
    outcome: str
    layer: str = ""
    reason: str = ""
    passing: tuple[str, ...] | None = None
    seconds: float = 0.0


class Watched(Planted):
    """Keeps the scores that came back whole, as they were when they came."""

    def __init__(self, inner: base.Path, faults: Sequence[Fault]) -> None:
        super().__init__(inner, faults)
        self.scores: list[Tensor] = []

    @cached_property
    def table(self) -> base.Answers:
        table = dict(super().table)
        return table | {kind: self._kept(table[kind]) for kind in (*SCORERS, FlatScores8) if kind in table}

    def _kept(self, method: Any) -> Any:
        def answer(request: Any) -> base.Outcome:
            outcome: base.Outcome = method(request)
            if whole(request) and isinstance(outcome.value, Tensor):
                self.scores.append(outcome.value.detach().clone())
            return outcome

        return answer


def whole(request: Any) -> bool:
    """Whether cells outside the windows come back as minus infinity, as the rules elsewhere have them."""
    if isinstance(request, FlatScores8):
        return request.clean
    return request.out is None and getattr(request, "schedule", None) is None


@dataclass
class Bench:
    """A path and what its cases come to without any fault, each run once."""

    path: base.Path
    ledger: Ledger
    sound: dict[str, tuple[Verdict, list[Tensor]]] = field(default_factory=dict)

    def trial(self, fault: Fault) -> Told:
        """Plant ``fault`` and run its case."""
        told = Told(fault.name, fault.stage, fault.case, OUTSIDE)
        if not Planted(self.path, [fault]).touches(fault):
            return replace(told, reason=f"path {self.path.name} answers nothing that the fault touches")
        verdict, right = self._sound(fault.case)
        if not verdict.green:
            outcome = OUTSIDE if verdict.status is Status.UNSUPPORTED else BROKEN
            reason = f"{verdict.status} without the fault: {verdict.reason}"
            return replace(told, outcome=outcome, reason=reason)
        path = Watched(self.path, [fault])
        wrong = runner.run(cases.parse(fault.case), path, self.ledger)
        passing = passed(path.scores, right)
        return replace(told, **judged(wrong, fault.name), passing=passing, seconds=wrong.seconds)

    def _sound(self, case: str) -> tuple[Verdict, list[Tensor]]:
        if case not in self.sound:
            path = Watched(self.path, [])
            self.sound[case] = runner.run(cases.parse(case), path, self.ledger), path.scores
        return self.sound[case]


def judged(verdict: Verdict, name: str) -> dict[str, str]:
    """Outcome, layer and reason of a verdict with fault ``name`` planted."""
    if verdict.status is Status.DIFFER:
        return {"outcome": RED, "layer": verdict.layer}
    if verdict.status is Status.UNSUPPORTED:
        return {"outcome": OUTSIDE, "reason": verdict.reason}
    if verdict.status is Status.ERROR:
        return {"outcome": BROKEN, "reason": f"error with the fault: {verdict.reason}"}
    reached = dict(verdict.facts[FAULTS])[name]
    return {"outcome": MISSED if reached else UNREACHED, "reason": verdict.reason or "the case agrees"}


def passed(got: Sequence[Tensor], want: Sequence[Tensor]) -> tuple[str, ...] | None:
    """Acceptance rules that let all of ``got`` pass against ``want``, answer by answer.

    None where there is nothing to judge: no answer, or none that differs.
    """
    pairs = list(zip(got, want, strict=False))
    if any(one.shape != other.shape for one, other in pairs):
        return ()
    if all(bool(bits.same(one, other).all()) for one, other in pairs):
        return None
    rows = [(one[some], other[some]) for one, other in pairs for some in [seen(other)] if bool(some.any())]
    return tuple(name for name, rule in acceptance.RULES.items() if all(rule(*pair) for pair in rows))


def seen(want: Tensor) -> Tensor:
    """bool [T]: rows that see a key, and in which every score is a number."""
    return (want != -torch.inf).any(1) & ~want.isnan().any(1)
