"""Why a mutant that no case sees changes nothing: shown over enumerated launches, never assumed.

Contract: a mutant is inert over an enumeration if, in every launch of it, either the changed operation gives
the same bits on every lane that is switched on, or every byte that is stored is the same and the emulator
finds the same things in the same places. The first is an induction over the program: where no lane ever gets
another value, nothing after it can differ. The reason names what is enumerated: it is a proof for those
launches and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.case import cases
from harness.checks import decode, prefill
from harness.emulator import sessions
from harness.emulator.program import Program
from harness.emulator.tapping import Count
from harness.exits import CannotRun
from harness.fill import inputs
from harness.findings import Finding
from harness.judge.bits import SENTINEL
from harness.paths import base
from harness.power.mutants import Mutant, digest, planted, watching
from harness.power.recorded import Launched, Recorder, whole
from harness.power.trial import ROUNDS

SAME, UNUSED = "same value", "no store changes"


@dataclass
class Enumeration:
    """Launches of one program, smallest outputs first. ``said`` names what they enumerate."""

    program: Program
    rounds: int
    said: str
    launches: list[Launched]

    @classmethod
    def of(cls, path: base.Path, program: Program, ids: Sequence[str], said: str) -> Enumeration:
        """Ask every case once, by its own schedule. Raises `CannotRun` where it launches another program."""
        made, most = cls(program, 0, said, []), 0
        for one in ids:
            recorder = Recorder(path)
            built = inputs.build(cases.parse(one))
            with sessions.counted() as rounds:
                recorder.run(asked(built, built.buffer()))
            most = max(most, rounds())
            if {digest(launched) for launched in recorder.programs} != {digest(program)}:
                raise CannotRun(f"{one} launches another kernel")
            ((_, launch),) = recorder.kept
            assert isinstance(launch, Launched)
            made.launches.append(launch)
        made.rounds = ROUNDS * most + ROUNDS
        made.launches.sort(key=lambda launch: launch.right.numel())
        return made

    def same_values(self, mutants: Sequence[Mutant]) -> dict[str, str]:
        """Mutant name to reason, of those whose operation gives the same bits wherever it runs.

        All are watched in one run of the right program; where that cannot be run, each half is, and a single
        one that cannot run has no reason.
        """
        made, counts = watching(self.program, mutants)
        try:
            for launch in self.launches:
                if not all(count.differing for count in counts.values()):
                    launch.again(made, self.rounds)
        except Exception:
            middle = len(mutants) // 2
            halves = (mutants[:middle], mutants[middle:]) if middle else ()
            return {name: why for half in halves for name, why in self.same_values(half).items()}
        return {name: self._same(count) for name, count in counts.items() if not count.differing}

    def _same(self, count: Count) -> str:
        lanes = f"{count.compared:,} lanes" if count.compared else "it is never reached"
        return f"{SAME}: {lanes}, {self.said}"

    def same_stores(self, mutant: Mutant) -> str:
        """The reason why ``mutant`` is inert though values differ; empty where a store differs."""
        program, stores = planted(self.program, mutant), 0
        for launch in self.launches:
            try:
                findings = launch.again(program, self.rounds)
            except Exception:
                return ""
            if _found(findings) != _found(launch.findings) or not torch.equal(
                whole(launch.out), launch.right
            ):
                return ""
            stores += int((launch.right.view(torch.int32) != SENTINEL).sum())
        return f"{UNUSED}: {stores:,} cells, {self.said}"


def asked(built: inputs.Inputs, buffer: Tensor) -> Any:
    """The scores of a case into ``buffer``, by a given schedule where the request can have one."""
    if built.case.kind == "decode":
        return built.decode(schedule=decode.given_schedule(built), out=buffer)
    if built.case.kind == "prefill":
        rows = slice(0, built.case.rows)
        return built.prefill(
            schedule=prefill.given_schedule(built, rows, built.case.units or None), out=buffer
        )
    return built.varqlen(units=built.case.units, out=buffer)


def _found(findings: Sequence[Finding]) -> tuple[Any, ...]:
    """What was found and where. Not how often: a value that is loaded ahead may come from anywhere."""
    return tuple(sorted({(one.kind, one.operand, one.location) for one in findings}))
