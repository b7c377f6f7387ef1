"""All mechanical faults of one program, numbered and named; one planted.

Contract: `planted` gives a new program that differs from the old one in exactly the mutant's operation, and
leaves the old one as it is. The numbering depends on the program alone, so that a sweep can be resumed; a
sweep of another program must not be taken for this one's, hence `digest`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.emulator.program import Block, Op, Program, plan_frees
from harness.emulator.tapping import Count
from harness.power.rules import Fresh, Maker, Seen, changes


@dataclass(frozen=True)
class Mutant:
    """Operation number ``place`` (in the order of `Program.walk`) changed by ``rule``."""

    place: int
    code: str
    rule: str
    detail: str
    location: str

    @property
    def name(self) -> str:
        """``17 iadd wrong constant, operand 1: 2 for 1``."""
        return f"{self.place} {self.code} {self.rule}, {self.detail}"


def mutants(program: Program) -> list[Mutant]:
    """Every fault that a rule makes of an operation of ``program``."""
    seen = Seen.of(program)
    return [
        Mutant(place, op.code, rule, detail, op.location)
        for place, op in enumerate(program.walk())
        for rule, (detail, _) in changes(seen, op)
    ]


def planted(program: Program, mutant: Mutant) -> Program:
    """``program`` with ``mutant``. Raises ValueError where it has no such mutant."""
    changed, ops = _copy(program), list(program.walk())
    op = ops[mutant.place]
    instead = _find(program, Seen.of(program), op, mutant)(Fresh(changed))
    changed.body = _block(program.body, {id(op): instead})
    plan_frees(changed.body)
    return changed


def watching(program: Program, mutants: Sequence[Mutant]) -> tuple[Program, dict[str, Count]]:
    """``program`` as it is, with mutated operations beside the right ones, and where each differs, by name.

    The right values go on, so that any number of mutants can be watched in one run. Operations without a
    value of their own (stores, branches, loops) are left out: there is nothing to count; so are atomic
    ones, which would be done twice.
    """
    changed, ops, seen = _copy(program), list(program.walk()), Seen.of(program)
    fresh, counts = Fresh(changed), {}
    beside: dict[int, list[Op]] = {}
    for mutant in mutants:
        op = ops[mutant.place]
        if len(op.results) != 1 or op.blocks or op.code == "atomic":
            continue
        (result,) = op.results
        instead = _find(program, seen, op, mutant)(fresh)
        other = fresh.value(program.types[result])
        renamed = [replace(one, results=(other,)) if one.results == op.results else one for one in instead]
        counts[mutant.name] = Count()
        tap = Op("tap", (result, other), (), {"count": counts[mutant.name]}, (), op.location)
        beside.setdefault(id(op), [op]).extend([*renamed, tap])
    changed.body = _block(program.body, beside)
    plan_frees(changed.body)
    return changed, counts


def digest(program: Program) -> str:
    """SHA-256 over operations, values, types and attributes; source positions do not count."""
    made = hashlib.sha256(repr(sorted(program.types.items())).encode())
    for op in program.walk():
        blocks = [block.arguments for block in op.blocks]
        made.update(repr((op.code, op.operands, op.results, sorted(_own(op).items()), blocks)).encode())
    return made.hexdigest()


def _own(op: Op) -> dict[str, Any]:
    """Attributes without what an executor found out about a graph and keeps there."""
    return {name: value for name, value in op.attrs.items() if name != "flow"}


def _copy(program: Program) -> Program:
    return Program(program.name, program.arguments, program.body, dict(program.types), program.block_size)


def _find(program: Program, seen: Seen, op: Op, mutant: Mutant) -> Maker:
    for rule, (detail, make) in changes(seen, op):
        if (rule, detail) == (mutant.rule, mutant.detail):
            return make
    raise ValueError(f"{program.name} has no mutant {mutant.name}")


def _block(block: Block, instead: Mapping[int, list[Op]]) -> Block:
    """A copy of ``block``, all levels, with ``instead`` of an operation's id in its place."""
    ops: list[Op] = []
    for op in block.ops:
        for one in instead.get(id(op), [op]):
            inside = tuple(_block(inner, instead) for inner in one.blocks)
            ops.append(replace(one, blocks=inside, attrs=_own(one)))
    return Block(block.arguments, ops)
