"""Runs a `Program` over a grid, slab by slab.

Slabs bound the memory whatever the grid: workgroups ``first .. first + C`` run together, all
lanes at once, and nothing is shared between slabs but global memory, which is all that
workgroups of a correct kernel share.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from harness.emulator import graph, tapping
from harness.emulator.allocation import Allocation, Pointer, next_launch
from harness.emulator.atomics import ATOMICS
from harness.emulator.cross_lane import CROSS_LANE
from harness.emulator.found import Findings, Where
from harness.emulator.lanes import WAVE
from harness.emulator.matrix import MatrixUnit
from harness.emulator.memory import Memory
from harness.emulator.memory_ops import MEMORY
from harness.emulator.pointers import POINTERS
from harness.emulator.program import Program
from harness.emulator.slab import Effect, Launch, Machine, Slab
from harness.emulator.wave import WAVES
from harness.emulator.wrapping import AddressSlice

__all__ = ["SLAB_LANES", "Executor", "Launch"]

OTHERS: dict[str, Effect] = {"tap": tapping.execute, "graph": graph.execute}

SLAB_LANES = {"cpu": 1 << 16, "cuda": 1 << 20}
"""Lanes of a slab by device: wide enough that torch's work outweighs Python's, small enough for the cache."""


class Executor:
    """Executes launches of one program on one device."""

    def __init__(self, program: Program, device: torch.device, findings: Findings) -> None:
        self.program = program
        self.device = device
        self.findings = findings
        self.matrix = MatrixUnit(device)
        settles = any(op.code in ("barrier", "wait") for op in program.walk())
        self.memory = Memory(findings, device, settles=settles)
        self.addresses = AddressSlice.of(program)

    def run(self, launch: Launch, slab_lanes: int = 0, later: Collection[Allocation] = ()) -> None:
        """Run every workgroup of the grid. Raises `UnsupportedOperation`.

        What has to be written may still be in allocations that ``later`` launches take.
        """
        for allocation in self._allocations(launch):
            next_launch(allocation)
        ctas = launch.grid[0] * launch.grid[1] * launch.grid[2]
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        waves = -(-threads // WAVE)
        step = max(1, (slab_lanes or SLAB_LANES.get(self.device.type, 1 << 16)) // (waves * WAVE))
        for first in range(0, ctas, step):
            shape = (min(step, ctas - first), waves, WAVE)
            self._slab(launch, shape, first, threads).run()
            self.matrix.forget()
        self._check_expected(launch, later)

    def _slab(self, launch: Launch, shape: tuple[int, int, int], first: int, threads: int) -> Slab:
        effects = {**MEMORY, **CROSS_LANE, **WAVES, **POINTERS, **ATOMICS, **OTHERS}
        machine = Machine(self.memory, self.matrix, self.addresses, self.findings, self.device, effects)
        return Slab(self.program, launch, shape, first, threads, machine)

    def _allocations(self, launch: Launch) -> dict[Allocation, None]:
        return {value.allocation: None for value in launch.arguments if isinstance(value, Pointer)}

    def _check_expected(self, launch: Launch, later: Collection[Allocation]) -> None:
        where = Where(self.program.name, "end of launch", (1, 1, 1), 0)
        for allocation in self._allocations(launch):
            if allocation not in later:
                self.memory.check_expected(allocation, where)
