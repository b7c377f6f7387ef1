"""Why a fault of a HIP kernel that no case sees changes nothing: shown over enumerated requests.

Contract: as `harness.power.inert`; every request is answered each way that the kernel may be compiled and
its approximations fall, and all of them count. Sums and products that the compiler may fuse are compared by
their stores only, since a fused one does not take the value that is compared.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness import runner
from harness.case import cases
from harness.emulator import sessions
from harness.emulator.tapping import Count
from harness.exits import CannotRun
from harness.judge import ledger as ledgers
from harness.power.hip.bench import Found, HipBench
from harness.power.hip.beside import Beside, Place, kinds, left
from harness.power.inert import SAME, UNUSED
from harness.power.mutants import Mutant, planted, watching
from harness.power.trial import ROUNDS


@dataclass(frozen=True)
class Asked:
    """One request as it was before, what is ``right`` after it (all bytes), and what is found in it."""

    request: Any
    right: list[Tensor]
    found: Found


@dataclass
class HipEnumeration:
    """Requests that launch one program, smallest first."""

    bench: HipBench
    rounds: int
    asked: list[Asked]

    @classmethod
    def of(cls, bench: HipBench) -> HipEnumeration:
        """Ask every enumerated case once. Raises `CannotRun` where one is red."""
        made, most, ledger = cls(bench, 0, []), 0, ledgers.load()
        for one in bench.target.enumerated:
            beside = Beside(bench.path, bench.target.asked)
            beside.note = True
            verdict = runner.run(cases.parse(one), beside, ledger)
            if not beside.noted or not (verdict.green or verdict.layer == "finding"):
                raise CannotRun(f"{one} is {verdict.status} without any fault: {verdict.reason}")
            for request, _ in beside.noted:
                with sessions.counted() as rounds:
                    made.asked.append(made._answered(request))
                most = max(most, rounds())
        made.rounds = ROUNDS * most + ROUNDS
        made.asked.sort(key=lambda asked: sum(one.numel() for one in asked.right))
        return made

    def same_values(self, mutants: Sequence[Mutant]) -> dict[str, str]:
        """Mutant name to reason, of those whose operation gives the same bits wherever it runs.

        All are watched in one run of the right program; where that cannot be run, each half is, and a single
        one that cannot run has no reason.
        """
        ops = list(self.bench.program.walk())
        alone = [one for one in mutants if not ops[one.place].attrs.get("contract")]
        made, counts = watching(self.bench.program, alone)
        place = Place(self.bench.program)
        try:
            for asked in self.asked:
                if not all(count.differing for count in counts.values()):
                    with place.taken(made, self.rounds):
                        self._answered(asked.request)
        except CannotRun:
            raise
        except Exception:
            middle = len(alone) // 2
            halves = (alone[:middle], alone[middle:]) if middle else ()
            return {name: why for half in halves for name, why in self.same_values(half).items()}
        return {name: self._same(count) for name, count in counts.items() if not count.differing}

    def _same(self, count: Count) -> str:
        lanes = f"{count.compared:,} lanes" if count.compared else "it is never reached"
        return f"{SAME}: {lanes}, {self.bench.target.said}"

    def same_stores(self, mutant: Mutant) -> str:
        """The reason why ``mutant`` is inert though values differ; empty where a byte differs."""
        program, place, total = planted(self.bench.program, mutant), Place(self.bench.program), 0
        for asked in self.asked:
            try:
                with place.taken(program, self.rounds):
                    got = self._answered(asked.request)
            except CannotRun:
                raise
            except Exception:
                return ""
            if got.found - asked.found or len(got.right) != len(asked.right):
                return ""
            if not all(map(torch.equal, got.right, asked.right)):
                return ""
            total += sum(one.numel() for one in asked.right)
        return f"{UNUSED}: {total:,} bytes, {self.bench.target.said}"

    def _answered(self, request: Any) -> Asked:
        """What a copy of ``request`` is answered with."""
        mine = copy.deepcopy(request)
        outcome = self.bench.path.run(mine)
        return Asked(request, [one.clone() for one in left(mine, outcome)], kinds(outcome.findings))
