"""One fault of a HIP kernel through a list of cases, until one is red that is not so without the fault.

Contract: the unchanged kernel has no wrong byte in any case; what is found in it all the same (a race that
the source really has) is kept, and a fault is only seen if a byte differs or something new is found. The
suite's own check judges. A case that does not launch the mutated program is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import runner
from harness.case import cases
from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.judge import ledger as ledgers
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths import base, registry
from harness.power import benches
from harness.power.hip import acceptance
from harness.power.hip.beside import Beside, Place, kinds
from harness.power.hip.targets import HipTarget
from harness.power.mutants import Mutant, digest, planted
from harness.power.trial import ROUNDS, Told, red

Found = set[tuple[str, str, str]]


@dataclass(frozen=True)
class Unchanged:
    """What a case comes to without a fault: its findings, and the kernel's first answer."""

    found: Found
    first: base.Outcome


@dataclass
class HipBench:
    """Cases that launch one program of a tree. ``before``: case id to what it comes to."""

    choice: registry.Choice
    target: HipTarget
    program: Program
    rounds: int
    before: Mapping[str, Unchanged]
    _path: base.Path | None = field(default=None, repr=False)

    @classmethod
    def of(cls, choice: registry.Choice, path: base.Path, target: HipTarget, ledger: Ledger) -> HipBench:
        """Run every case once. Raises `CannotRun` for one that is red, or launches another program."""
        launched: dict[str, Program] = {}
        before, most = {}, 0

        def noted(kernel: Program) -> Program:
            if kernel.name == target.kernel:
                launched.setdefault(digest(kernel), kernel)
            return kernel

        for one in target.cases:
            beside = Beside(path, target.asked)
            with sessions.counted() as rounds, sessions.edited(noted):
                verdict = runner.run(cases.parse(one), beside, ledger)
            _sound(verdict)
            most = max(most, rounds())
            if len(launched) != 1 or beside.first is None:
                raise CannotRun(f"{one} launches {len(launched)} instances of {target.kernel}, not one")
            before[one] = Unchanged(kinds(verdict.findings), beside.first)
        (program,) = launched.values()
        return cls(choice, target, program, ROUNDS * most + ROUNDS, before, path)

    def __getstate__(self) -> dict[str, Any]:
        """The path is made anew in every process."""
        return {**self.__dict__, "_path": None}

    @property
    def path(self) -> base.Path:
        if self._path is None:
            registry.prepare_environment(self.choice.name)
            self._path = registry.create(self.choice)
        return self._path

    def trial(self, mutant: Mutant, ledger: Ledger) -> Told:
        """Plant ``mutant`` and run the cases until one is red.

        Raises `CannotRun` where something else than the kernel broke: that would look like a fault seen.
        """
        wrong, place, seconds = planted(self.program, mutant), Place(self.program), 0.0
        passing = dict(acceptance.rules(self.target.asked))
        for one, before in self.before.items():
            case, beside = cases.parse(one), Beside(self.path, self.target.asked)
            with place.taken(wrong, self.rounds):
                verdict = runner.run(case, beside, ledger)
            seconds += verdict.seconds
            if verdict.status is Status.ERROR and not beside.broke:
                raise CannotRun(f"{one} with {mutant.name}: {verdict.reason}")
            passing = {
                name: rule
                for name, rule in passing.items()
                if beside.first is not None and rule(case, beside.first.value, before.first.value)
            }
            how = self._seen(verdict, before, ledger)
            if how:
                return Told(how, one, verdict.reason, tuple(passing), seconds)
        return Told("", "", "", tuple(passing), seconds)

    def _seen(self, verdict: Verdict, before: Unchanged, ledger: Ledger) -> str:
        """Which layer is red; a red that findings alone make counts if one of them is new."""
        how = red(verdict)
        if how not in ("", "finding"):
            return how
        _, new = ledger.split(verdict.findings, verdict.path)
        return "finding" if kinds(tuple(new)) - before.found else ""


def _sound(verdict: Verdict) -> None:
    if not verdict.green and (verdict.status is not Status.DIFFER or verdict.layer != "finding"):
        raise CannotRun(f"{verdict.case} is {verdict.status} without any fault: {verdict.reason}")


@dataclass(frozen=True)
class HipPrepared:
    """A HIP target of a tree: the stem of its lines in ``directory``, and what the path was."""

    choice: registry.Choice
    chosen: HipTarget
    directory: Path
    stem: str
    about: dict[str, Any]

    @property
    def path(self) -> str:
        return self.choice.name

    @property
    def target(self) -> str:
        return self.chosen.name

    @property
    def _files(self) -> tuple[Path, Path]:
        return tuple(self.directory / (self.stem + ending) for ending in (".bench.pt.gz", ".launches.pt.gz"))  # type: ignore[return-value]

    def bench(self) -> HipBench:
        """Raises `CannotRun`."""
        made: HipBench = benches.load(self._files[0])["bench"]
        return made

    def enumeration(self) -> Any:
        """The `HipEnumeration`. Raises `CannotRun`."""
        return benches.load(self._files[1])["enumeration"]

    def enumerate_launches(self) -> None:
        """Keep what the unchanged kernel gives over the enumeration, unless it is kept already."""
        from harness.power.hip.inert import HipEnumeration

        if not self._files[1].is_file():
            benches.save(self._files[1], {"enumeration": HipEnumeration.of(self.bench())})


def prepare(choice: registry.Choice, target: HipTarget, directory: Path) -> HipPrepared:
    """Run the cases of ``target`` and keep them for the workers. Raises `CannotRun` where one is red."""
    path = benches.path_of(choice)
    bench = HipBench.of(choice, path, target, ledgers.load())
    named = f"{digest(bench.program)} {target}"  # lines say what these very cases came to
    stem = f"{choice.name}-{target.name}-{hashlib.sha256(named.encode()).hexdigest()[:12]}"
    made = HipPrepared(choice, target, directory, stem, path.provenance())
    benches.save(made._files[0], {"bench": bench})
    return made
