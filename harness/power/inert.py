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
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks import decode, prefill
from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.fill import inputs
from harness.judge.bits import SENTINEL, bits_of
from harness.paths import base
from harness.power.mutants import Mutant, digest, planted, watched
from harness.power.trial import ROUNDS

SAME, UNUSED = "same value", "no store changes"


@dataclass(frozen=True)
class Launched:
    """One enumerated launch: its request, and what the unchanged program stored and found."""

    request: Any
    buffer: Tensor
    stored: Tensor
    findings: tuple[Any, ...]


@dataclass
class Enumeration:
    """Launches of one program on one path. ``said`` names what they enumerate."""

    path: base.Path
    program: Program
    rounds: int
    said: str
    launches: list[Launched]

    @classmethod
    def of(cls, path: base.Path, program: Program, cases: Sequence[Case], said: str) -> Enumeration:
        """Ask every case once, by its own schedule. Raises `CannotRun` where it launches another program."""
        made = cls(path, program, 0, said, [])
        wanted = digest(program)
        for case in cases:
            built = inputs.build(case)
            buffer = built.buffer()
            request = asked(built, buffer)
            launched: set[str] = set()
            with sessions.edited(partial(_noted, launched)), sessions.counted() as rounds:
                outcome = path.run(request)
            made.rounds = max(made.rounds, ROUNDS * rounds() + ROUNDS)
            if launched != {wanted}:
                raise CannotRun(f"{case.id} launches another kernel")
            made.launches.append(Launched(request, buffer, bits_of(buffer).clone(), _found(outcome)))
        return made

    def why(self, mutant: Mutant) -> str:
        """The reason why ``mutant`` is inert; empty where it is not."""
        return self._same_value(mutant) or self._same_stores(mutant)

    def _same_value(self, mutant: Mutant) -> str:
        made = watched(self.program, mutant)
        if made is None:
            return ""
        program, count = made
        for one in self.launches:
            one.buffer.view(torch.int32).fill_(SENTINEL)
            with sessions.edited(lambda kernel: program, self.rounds):
                try:
                    self.path.run(one.request)
                except Exception:
                    return ""
            if count.differing:
                return ""
        lanes = f"{count.compared:,} lanes" if count.compared else "it is never reached"
        return f"{SAME}: {lanes}, {self.said}"

    def _same_stores(self, mutant: Mutant) -> str:
        program, stores = planted(self.program, mutant), 0
        for one in self.launches:
            one.buffer.view(torch.int32).fill_(SENTINEL)
            with sessions.edited(lambda kernel: program, self.rounds):
                try:
                    outcome = self.path.run(one.request)
                except Exception:
                    return ""
            if _found(outcome) != one.findings or not torch.equal(bits_of(one.buffer), one.stored):
                return ""
            stores += int((one.stored != SENTINEL).sum())
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


def _noted(launched: set[str], program: Program) -> Program:
    launched.add(digest(program))
    return program


def _found(outcome: base.Outcome) -> tuple[Any, ...]:
    """What was found and where. Not how often: a value that is loaded ahead may come from anywhere."""
    return tuple(sorted({(one.kind, one.operand, one.location) for one in outcome.findings}))
