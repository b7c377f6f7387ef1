"""One mutant through a list of cases, until one is red; what other acceptance rules say on the same data.

Contract: a mutant counts as seen only if the unchanged program passes the same case on the same path, which
`Bench` makes sure of when it is made. The mutated program runs wherever the original one would: a case
that does not launch it proves nothing and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from harness import runner
from harness.case.cases import Case
from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.fill import inputs
from harness.judge import wanted
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.paths.requests.scoring import DecodeScores, PrefillScores, VarqlenScores
from harness.paths.wrapped import Wrapped
from harness.power import acceptance
from harness.power.mutants import Mutant, digest, planted

SCORES = (DecodeScores, PrefillScores, VarqlenScores)
ROUNDS = 4
"""A mutant's loops may take this many times the rounds of the most that any case needs, and no more."""


class Kept(Wrapped):
    """A path that keeps its first answer of scores, as it was when it came."""

    first: Any = None

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        def run(request: Any) -> base.Outcome:
            outcome = method(request)
            if self.first is None and isinstance(request, SCORES) and isinstance(outcome.value, Tensor):
                self.first = outcome.value.clone()
            return outcome

        return run


@dataclass(frozen=True)
class Told:
    """What became of a mutant.

    ``how``: ``bits``, ``mask``, ``finding`` ... (the layer that was red), ``error``, ``refused``, or empty
    when every case was green. ``case``: the red one. ``missed``: acceptance rules that let every case
    pass which was run.
    """

    how: str
    case: str = ""
    missed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class Bench:
    """Cases that launch one program on one path, each green with the program as it is."""

    path: base.Path
    cases: Sequence[Case]
    ledger: Ledger
    program: Program
    rounds: int
    want: dict[str, Tensor] = field(default_factory=dict)
    _digest: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: base.Path, cases: Sequence[Case], ledger: Ledger) -> Bench:
        """Run every case once. Raises `CannotRun` where one is not green, or launches another program."""
        programs: dict[str, Program] = {}

        def note(program: Program) -> Program:
            programs.setdefault(digest(program), program)
            return program

        most = 0
        for case in cases:
            before = set(programs)
            with sessions.edited(note), sessions.counted() as rounds:
                verdict = runner.run(case, path, ledger)
            most = max(most, rounds())
            if not verdict.green:
                raise CannotRun(f"{case.id} is {verdict.status} without any fault: {verdict.reason}")
            if len(programs) != 1 or (before and before != set(programs)):
                raise CannotRun(f"{case.id} launches another kernel than {cases[0].id}")
        (program,) = programs.values()
        return cls(path, cases, ledger, program, ROUNDS * most + ROUNDS)

    def trial(self, mutant: Mutant) -> Told:
        """Plant ``mutant`` and run the cases until one is red."""
        wrong, seconds = planted(self.program, mutant), 0.0
        passing = dict(acceptance.RULES)
        for case in self.cases:
            kept = Kept(self.path)
            with sessions.edited(lambda program: wrong, self.rounds):
                verdict = runner.run(case, kept, self.ledger)
            seconds += verdict.seconds
            passing = self._passing(passing, case, kept.first)
            how = red(verdict)
            if how:
                return Told(how, case.id, tuple(passing), seconds)
        return Told("", "", tuple(passing), seconds)

    def _passing(
        self, rules: Mapping[str, acceptance.Rule], case: Case, got: Tensor | None
    ) -> dict[str, acceptance.Rule]:
        """The rules that let ``got`` pass; no answer at all passes nowhere."""
        if got is None:
            return {}
        want = self._want(case)
        if got.shape != want.shape:
            return {}
        return {name: rule for name, rule in rules.items() if rule(got, want)}

    def _want(self, case: Case) -> Tensor:
        if case.id not in self.want:
            made = inputs.build(case)
            self.want[case.id] = wanted.scored(made, "exact").value
        return self.want[case.id]


def red(verdict: Verdict) -> str:
    """Which layer of a verdict is red; empty for a green one."""
    if verdict.status is Status.AGREE:
        return ""
    if verdict.status is Status.DIFFER:
        return verdict.layer
    return "refused" if verdict.status is Status.UNSUPPORTED else str(verdict.status)
