"""Runs a control-flow graph: each lane is at one block; the earliest block with a lane at it runs.

Contract: a lane sees only what it did itself; a value that is read in another block than it was made in
keeps, for every lane, what that lane made. Lanes at a barrier wait until all others of their workgroup
wait there or have ended. How it would fail silently: a value of lanes that are elsewhere overwritten by the
lanes that are here; so every value that outlives its block is merged under the mask, in one place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.emulator.lanes import Value, tensor
from harness.emulator.program import Block, Op, UnsupportedOperation
from harness.emulator.sessions import Runaway, iterations, looped
from harness.emulator.slab import Slab

WAITING = 1 << 20
"""A lane's place while it waits at a barrier, more than any block's number."""
ENDED = WAITING + 1


@dataclass(frozen=True)
class Flow:
    """What is known of a graph before it runs: ``kept`` values are read in other blocks than their own."""

    kept: frozenset[int]

    @classmethod
    def of(cls, blocks: tuple[Block, ...]) -> Flow:
        """Also fills ``frees`` of the operations, for values that are read in their own block only."""
        made = {}
        for place, block in enumerate(blocks):
            for op in block.ops:
                made.update(dict.fromkeys(op.results, place))
            made.update(dict.fromkeys(block.arguments, -1))
        kept = {number for number, place in made.items() if place < 0}
        for place, block in enumerate(blocks):
            reads = {operand for op in block.ops for operand in op.operands}
            kept |= {number for number in reads if made.get(number, place) != place}
        for block in blocks:
            last: dict[int, Op] = {}
            for op in block.ops:
                last.update(dict.fromkeys((*op.operands, *op.results), op))
            frees: dict[int, list[int]] = {}
            for number, op in last.items():
                if number in made and number not in kept:
                    frees.setdefault(id(op), []).append(number)
            for op in block.ops:
                op.frees = tuple(frees.get(id(op), ()))
        return cls(frozenset(kept))


class Walk:
    """One slab's way through the graph of ``op``."""

    def __init__(self, slab: Slab, op: Op, flow: Flow) -> None:
        self._slab, self._blocks, self._flow = slab, op.blocks, flow
        self._outer = slab.mask
        shape = slab.shape
        born = torch.ones(shape, dtype=torch.bool, device=slab.device)
        self._alive = born if slab.mask is None else slab.mask.expand(shape)
        self._at = torch.where(self._alive, 0, ENDED)
        self._resume = torch.zeros(shape, dtype=torch.int64, device=slab.device)
        self._here = self._alive
        self._whole = True
        self._rounds, self._most = 0, iterations()

    def run(self) -> None:
        """Until every lane has ended. Raises `Runaway`, `UnsupportedOperation`."""
        while True:
            place = int(self._at.min())
            if place == ENDED:
                break
            if place == WAITING:
                self._release()
                continue
            self._step()
            self._here = self._at == place
            self._whole = bool((self._here == self._alive).all())
            self._slab.mask = self._outer if self._whole else self._here
            self._block(self._blocks[place])
        self._slab.mask = self._outer
        looped(self._rounds)

    def _step(self) -> None:
        self._rounds += 1
        if self._most is not None and self._rounds > self._most:
            raise Runaway(f"{self._slab.program.name} takes more than {self._most} steps between its blocks")

    def _block(self, block: Block) -> None:
        slab, kept = self._slab, self._flow.kept
        for op in block.ops[:-1]:
            before = {} if self._whole else {number: slab.env.get(number) for number in op.results}
            slab.execute(op)
            for number, old in before.items():
                if old is not None and number in kept:
                    slab.env[number] = self._merged(slab.env[number], old, number, self._here)
            slab.free(op)
        last = block.ops[-1]
        TERMINATORS[last.code](self, last)
        slab.free(last)

    def _merged(self, new: Value, old: Value, number: int, mask: Tensor) -> Value:
        return old if new is old else self._slab.choose(mask, new, old, number)

    # how a block ends

    def leave(self, op: Op) -> None:
        if not op.attrs["reached"]:
            raise UnsupportedOperation("a place that the compiler took for unreachable", op.location)
        self._go(self._here, ENDED)

    def wait(self, op: Op) -> None:
        self._resume = torch.where(self._here, op.attrs["targets"][0], self._resume)
        self._go(self._here, WAITING)

    def go(self, op: Op) -> None:
        targets, given = op.attrs["targets"], op.attrs["given"]
        if not op.attrs["chosen"]:
            self._edge(self._here, targets[0], given[0])
            return
        value = self._slab.env[op.operands[0]]
        if op.attrs["cases"] is not None:
            self._switch(op, value)
        elif isinstance(value, Tensor):
            taken = self._here & value
            rest = self._here & ~value
            values = [[self._slab.env[number] for number in numbers] for numbers in given]
            for mask, target, numbers, known in zip((taken, rest), targets, given, values, strict=True):
                if bool(mask.any()):
                    self._edge(mask, target, numbers, known)
        else:
            place = 0 if value else 1
            self._edge(self._here, targets[place], given[place])

    def _switch(self, op: Op, value: Value) -> None:
        targets, given = op.attrs["targets"], op.attrs["given"]
        chosen = tensor(value, self._slab.types[op.operands[0]], self._slab.device)
        values = [[self._slab.env[number] for number in numbers] for numbers in given]
        rest = self._here
        for place, case in enumerate(op.attrs["cases"], 1):
            mask = rest & (chosen == case)
            rest = rest & ~mask
            if bool(mask.any()):
                self._edge(mask, targets[place], given[place], values[place])
        if bool(rest.any()):
            self._edge(rest, targets[0], given[0], values[0])

    def _edge(
        self, mask: Tensor, target: int, given: tuple[int, ...], values: list[Value] | None = None
    ) -> None:
        """Lanes of ``mask`` go to ``target``, whose arguments take the ``given`` values at once."""
        env = self._slab.env
        values = [env[number] for number in given] if values is None else values
        whole = mask is self._here and self._whole
        for argument, value in zip(self._blocks[target].arguments, values, strict=True):
            old = env.get(argument)
            if not whole and old is not None:
                value = self._merged(value, old, argument, mask)
            env[argument] = value
        self._go(mask, target)

    def _go(self, mask: Tensor, place: int) -> None:
        self._at = torch.where(mask, place, self._at)

    # barriers

    def _release(self) -> None:
        """Every lane has ended or waits: workgroups go on from the earliest barrier that one of theirs is at.

        A lane that waits at a later barrier, or has ended while others wait, is reported: whether they meet
        is then up to the hardware.
        """
        waiting = self._at == WAITING
        group = torch.where(waiting, self._resume, ENDED).flatten(1)
        first = group.min(dim=1).values.view(-1, 1, 1)
        going = waiting & (self._resume == first)
        absent = self._alive & ~going & (first < ENDED)
        if bool(absent.any()):
            op = self._blocks[int(first.min()) - 1].ops[-1]
            where = self._slab.where(op)
            self._slab.findings.add("divergent-lanes", "", where, int(absent.sum()), where.first(absent))
        for allocation in self._slab.shared.values():
            self._slab.memory.races.barrier(allocation, going)
        self._slab.memory.races.settle(going, self._slab.where(self._blocks[int(first.min()) - 1].ops[-1]))
        self._at = torch.where(going, self._resume, self._at)


TERMINATORS = {"leave": Walk.leave, "wait": Walk.wait, "go": Walk.go}


def execute(slab: Slab, op: Op) -> None:
    flow = op.attrs.get("flow")
    if flow is None:
        flow = op.attrs["flow"] = Flow.of(op.blocks)
    Walk(slab, op, flow).run()
