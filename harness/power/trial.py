"""One mutant through a list of cases, until one is red; what other acceptance rules say on the same data.

Contract: a mutant counts as seen only if the unchanged program passes the same case on the same path, which
`Bench.of` makes sure of, and is judged by the suite's own check. The cases are recorded (`recorded`), so
that a trial costs launches and a comparison; `checked` holds a bench that comes from elsewhere against this
machine. A case that does not launch the mutated program proves nothing and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from harness import runner
from harness.case import cases
from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.fill import inputs
from harness.judge import wanted
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base
from harness.power import acceptance
from harness.power.mutants import Mutant, digest, planted
from harness.power.recorded import Kept, Recorder, Replayed

ROUNDS = 4
"""A mutant's loops may take this many times the rounds of the most that any case needs, and no more."""


@dataclass(frozen=True)
class Told:
    """What became of a mutant.

    ``how``: ``bits``, ``mask``, ``finding`` ... (the layer that was red), ``error``, ``refused``, or empty
    when every case was green. ``case``: the red one, ``said``: its reason. ``missed``: acceptance rules that
    let every case pass which was run.
    """

    how: str
    case: str = ""
    said: str = ""
    missed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class Bench:
    """Cases that launch one program, each green with the program as it is. ``kept``: case id to recording."""

    named: tuple[str, str]
    program: Program
    rounds: int
    trees: Mapping[str, str | None]
    kept: dict[str, Kept]
    want: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, path: base.Path, ids: Sequence[str], ledger: Ledger) -> Bench:
        """Run every case once. Raises `CannotRun` where one is not green, or launches another program."""
        kept: dict[str, Kept] = {}
        trees: dict[str, str | None] = {}
        programs: dict[str, Program] = {}
        most = 0
        for one in ids:
            recorder = Recorder(path)
            with sessions.counted() as rounds:
                _green(runner.run(cases.parse(one), recorder, ledger))
            most = max(most, rounds())
            launched = {digest(program): program for program in recorder.programs}
            programs.update(launched)
            if len(launched) != 1 or len(programs) != 1:
                raise CannotRun(f"{one} launches another kernel than {ids[0]}")
            kept[one] = recorder.kept
            trees |= recorder.trees
        (program,) = programs.values()
        return cls((path.name, path.executor), program, ROUNDS * most + ROUNDS, trees, kept)

    def checked(self, ledger: Ledger) -> Bench:
        """This bench, every case of it green here. Raises `CannotRun`."""
        for one in self.kept:
            _green(runner.run(cases.parse(one), self.path(one, self.program), ledger))
        return self

    def path(self, case: str, program: Program, brief: bool = False) -> Replayed:
        """A path that answers ``case`` with ``program``."""
        return Replayed(self.named, self.trees, self.kept[case], program, self.rounds, brief)

    def trial(self, mutant: Mutant, ledger: Ledger) -> Told:
        """Plant ``mutant`` and run the cases until one is red.

        Raises `CannotRun` where something else than the kernel broke: that would look like a fault seen.
        """
        wrong, seconds = planted(self.program, mutant), 0.0
        passing = dict(acceptance.RULES)
        for one in self.kept:
            path = self.path(one, wrong, brief=True)
            verdict = runner.run(cases.parse(one), path, ledger)
            seconds += verdict.seconds
            if path.skipped and not red(verdict):
                path = self.path(one, wrong)
                verdict = runner.run(cases.parse(one), path, ledger)
            passing = self._passing(passing, one, path.first)
            how = red(verdict)
            if verdict.status is Status.ERROR and not path.broke:
                raise CannotRun(f"{one} with {mutant.name}: {verdict.reason}")
            if how:
                return Told(how, one, verdict.reason, tuple(passing), seconds)
        return Told("", "", "", tuple(passing), seconds)

    def _passing(
        self, rules: Mapping[str, acceptance.Rule], case: str, got: Tensor | None
    ) -> dict[str, acceptance.Rule]:
        """The rules that let ``got`` pass; no answer at all passes nowhere."""
        if got is None:
            return {}
        if case not in self.want:
            self.want[case] = wanted.scored(inputs.build(cases.parse(case)), "exact").value
        want = self.want[case]
        if got.shape != want.shape:
            return {}
        return {name: rule for name, rule in rules.items() if rule(got, want)}


def _green(verdict: Verdict) -> None:
    if not verdict.green:
        raise CannotRun(f"{verdict.case} is {verdict.status} without any fault: {verdict.reason}")


def red(verdict: Verdict) -> str:
    """Which layer of a verdict is red; empty for a green one."""
    if verdict.status is Status.AGREE:
        return ""
    if verdict.status is Status.DIFFER:
        return verdict.layer
    return "refused" if verdict.status is Status.UNSUPPORTED else str(verdict.status)
