"""The workgroups that are executed together: their values, their mask, their control flow.

Control flow is structured, so lanes are kept in step by masks: a branch runs under its
condition, a loop while any lane of the slab still iterates, and carried values of finished
lanes are kept. A mask forgotten on the way out of a branch would only show in kernels whose
lanes part, so it is restored in one place per construct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.emulator.allocation import Allocation, Pointer, Resource
from harness.emulator.found import Findings, Where
from harness.emulator.lanes import WAVE, Value, dtype_of, flushed, tensor
from harness.emulator.matrix import MatrixUnit
from harness.emulator.meanings import EVALUATE
from harness.emulator.memory import Memory
from harness.emulator.operations import DIVISIONS, Site
from harness.emulator.program import Block, Op, Program, Type, UnsupportedOperation
from harness.emulator.sessions import Runaway, iterations, looped
from harness.emulator.wrapping import AddressSlice


@dataclass(frozen=True, slots=True)
class Launch:
    """Grid and workgroup of a launch, and the kernel's argument values."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Sequence[Value]


Effect = Callable[["Slab", Op], None]


@dataclass(frozen=True, slots=True)
class Machine:
    """What all slabs of a launch share; ``effects`` maps opcodes to functions of slab and operation."""

    memory: Memory
    matrix: MatrixUnit
    addresses: AddressSlice
    findings: Findings
    device: torch.device
    effects: Mapping[str, Effect]


class Slab:
    """The workgroups ``first .. first + C`` of a launch, executed together."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        shape: tuple[int, int, int],
        first: int,
        threads: int,
        machine: Machine,
    ) -> None:
        self.program = program
        self.launch = launch
        self.shape = shape
        self.first = first
        self.memory = machine.memory
        self.matrix = machine.matrix
        self.addresses = machine.addresses
        self.findings = machine.findings
        self.device = machine.device
        self._effects = {**machine.effects, **CONTROL}
        self.types = program.types
        self.env: dict[int, Value] = {}
        self.mask: Tensor | None = None
        if threads % WAVE:
            lane = torch.arange(shape[1] * WAVE, device=self.device).view(1, shape[1], WAVE)
            self.mask = lane < threads
        self.born = self.mask
        self.shared: dict[str, Allocation] = {}
        self.private: dict[str, Allocation] = {}
        self._sites: dict[int, Site] = {}
        self._rounds, self._most = 0, iterations()

    def run(self) -> None:
        """Execute the kernel for every workgroup of the slab. Raises `UnsupportedOperation`."""
        self.env.update(zip(self.program.arguments, self.launch.arguments, strict=True))
        self._block(self.program.body)
        looped(self._rounds)

    def _block(self, block: Block) -> tuple[Value, ...]:
        """Execute a block and return what its yield hands back."""
        env = self.env
        for op in block.ops:
            if op.code == "yield":
                values = tuple(env[operand] for operand in op.operands)
                self.free(op)
                return values
            self.execute(op)
            self.free(op)
        return ()

    def free(self, op: Op) -> None:
        for value in op.frees:
            self.env.pop(value, None)

    def execute(self, op: Op) -> None:
        try:
            self._execute(op)
        except UnsupportedOperation as refusal:
            raise refusal if refusal.location else UnsupportedOperation(refusal.what, op.location) from None

    def _execute(self, op: Op) -> None:
        evaluate = EVALUATE.get(op.code)
        if evaluate is not None:
            values = [self.env[operand] for operand in op.operands]
            if op.code in DIVISIONS and self.mask is not None and isinstance(values[1], Tensor):
                # Lanes that are switched off may well hold a zero: the branch is there to spare them.
                values[1] = torch.where(self.mask, values[1], torch.ones_like(values[1]))
            site = self._site(op)
            if "flush" in op.attrs:
                values = [flushed(value, kind) for value, kind in zip(values, site.operands, strict=True)]
            result = evaluate(site, *values)
            if "flush" in op.attrs:
                result = flushed(result, site.result)
            if op.results[0] in self.addresses.watched:
                self.addresses.check(op, values, result, self.mask, self.where(op), self.findings)
            self.env[op.results[0]] = result
            return
        execute = self._effects.get(op.code)
        if execute is None:
            raise UnsupportedOperation(f"operation {op.code}", op.location)
        execute(self, op)

    def _site(self, op: Op) -> Site:
        site = self._sites.get(id(op))
        if site is None:
            operands = tuple(self.types[operand] for operand in op.operands)
            touched = (*operands, self.types[op.results[0]])
            wide = [kind for kind in touched if kind.kind == "int" and kind.bits > 64]
            if wide and op.code not in ("bitcast", "select"):
                raise UnsupportedOperation(f"{op.code} of {wide[0]}", op.location)
            site = self._sites[id(op)] = Site(op, operands, self.types[op.results[0]], self.device)
        return site

    def where(self, op: Op) -> Where:
        return Where(self.program.name, op.location, self.shape, self.first)

    def values(self, op: Op) -> list[Value]:
        return [self.env[operand] for operand in op.operands]

    # control flow

    def execute_return(self, op: Op) -> None:
        return

    def execute_if(self, op: Op) -> None:
        condition = self.env[op.operands[0]]
        if isinstance(condition, Tensor) and condition.numel() == 1:
            condition = bool(condition)
        if not isinstance(condition, Tensor):
            chosen = op.blocks[0] if condition else op.blocks[1] if len(op.blocks) > 1 else None
            self.define(op.results, self._block(chosen) if chosen else ())
            return
        before = self.mask
        taken = condition if before is None else condition & before
        rest = ~condition if before is None else ~condition & before
        yielded: list[tuple[Value, ...] | None] = [None, None]
        for branch, mask in ((0, taken), (1, rest)):
            if branch < len(op.blocks) and (bool(mask.any()) or op.results):
                self.mask = None if before is None and bool(mask.all()) else mask
                yielded[branch] = self._block(op.blocks[branch])
        self.mask = before
        if op.results:
            then, otherwise = yielded
            assert then is not None and otherwise is not None
            merged = (
                self.choose(condition, a, b, r) for a, b, r in zip(then, otherwise, op.results, strict=True)
            )
            self.define(op.results, merged)

    def choose(self, condition: Tensor, a: Value, b: Value, result: int) -> Value:
        if a is b:
            return a
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.allocation is b.allocation:
            kind = Type("int", 64)
            offsets = (tensor(pointer.offset, kind, self.device) for pointer in (a, b))
            return Pointer(a.allocation, torch.where(condition, *offsets))
        if isinstance(a, (Pointer, Resource)) or isinstance(b, (Pointer, Resource)):
            raise UnsupportedOperation("branch that yields pointers to different tensors")
        kind = self.types[result]
        return torch.where(condition, tensor(a, kind, self.device), tensor(b, kind, self.device))

    def define(self, results: Sequence[int], values: Iterable[Value]) -> None:
        self.env.update(zip(results, values, strict=True))

    def execute_for(self, op: Op) -> None:
        low, high, step = (self.env[operand] for operand in op.operands[:3])
        carried = [self.env[operand] for operand in op.operands[3:]]
        stuck = torch.as_tensor(step <= 0)
        if bool((stuck if self.mask is None else stuck & self.mask).any()):
            raise UnsupportedOperation("loop whose step is not positive", op.location)
        if any(isinstance(bound, Tensor) for bound in (low, high, step)):
            carried = self._ragged_loop(op, low, high, step, carried)
        else:
            for position in range(low, high, step):
                carried = self._iteration(op, position, carried)
        self.define(op.results, carried)

    def _iteration(self, op: Op, position: Value, carried: Sequence[Value]) -> list[Value]:
        self._rounds += 1
        if self._most is not None and self._rounds > self._most:
            raise Runaway(f"{self.program.name} takes more than {self._most} rounds of its loops")
        body = op.blocks[0]
        self.define(body.arguments, (position, *carried))
        return list(self._block(body))

    def _ragged_loop(self, op: Op, low: Value, high: Value, step: Value, carried: list[Value]) -> list[Value]:
        before = self.mask
        index, counter = Type("int", 64), dtype_of(self.types[op.blocks[0].arguments[0]])
        position = tensor(low, index, self.device)
        bound = tensor(high, index, self.device)
        while True:
            running = position < bound
            active = running if before is None else running & before
            if not bool(active.any()):
                break
            whole = (
                bool(running.all()) if before is None else torch.equal(active, before.expand(active.shape))
            )
            self.mask = before if whole else active
            result = self._iteration(op, position.to(counter), carried)
            if whole:
                carried = result
            else:
                carried = [
                    self.choose(running, new, old, number)
                    for new, old, number in zip(result, carried, op.results, strict=True)
                ]
            position = position + step
        self.mask = before
        return carried


CONTROL: dict[str, Effect] = {
    "if": Slab.execute_if,
    "for": Slab.execute_for,
    "return": Slab.execute_return,
}
"""Control flow; `operations.EVALUATE` maps values, and the machine brings the other effects."""
