"""A kernel's lowered program made wrong while it runs: faults that no request can say.

Contract: every kernel that a request launches is edited; one that launches none with what the edit looks for
is refused by name, since its answer would pass for one of the faulty kernel. Edits keep to the rules of
`harness.power.rules` where those can say it. It fails silently where the edited operation is not the one
meant, so what is looked for is said by opcode and by place, never by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from harness.emulator import sessions
from harness.emulator.program import Block, Op, Program, plan_frees
from harness.faults.fault import Answer, Wrong
from harness.paths.base import Outcome, OutOfScope
from harness.power import mutants
from harness.power.rules import Fresh

Edit = Callable[[Program], Program | None]
"""Makes the wrong program; None where the program has nothing of the kind."""


def launching(edit: Edit, what: str) -> Wrong:
    """The right answer, with every kernel that is launched for it edited. ``what`` the edit looks for."""
    made: dict[int, tuple[Program, Program]] = {}

    def wrong(request: Any, right: Answer) -> Outcome:
        met = 0

        def edited(program: Program) -> Program:
            nonlocal met
            if id(program) not in made:
                made[id(program)] = program, edit(program) or program
            met += made[id(program)][1] is not program
            return made[id(program)][1]

        with sessions.edited(edited):
            outcome = right(request)
        if not met:
            raise OutOfScope(f"no kernel with {what} was launched, so that none can be edited")
        return outcome

    return wrong


def by_rule(code: str, rule: str, detail: str) -> Edit:
    """All operations ``code`` changed as `harness.power.rules` names it."""

    def edit(program: Program) -> Program | None:
        found = [
            one
            for one in mutants.mutants(program)
            if (one.code, one.rule, one.detail) == (code, rule, detail)
        ]
        changed = program
        for one in reversed(found):  # from the last on, so that the places of the others stay
            changed = mutants.planted(changed, one)
        return changed if found else None

    return edit


def with_prefetch(program: Program) -> Program | None:
    """In every loop, a page id is also loaded from the entry after the one in use, and never looked at."""
    changed = Program(program.name, program.arguments, program.body, dict(program.types), program.block_size)
    made = 0

    def copied(block: Block, inside: bool) -> Block:
        nonlocal made
        ops: list[Op] = []
        places: dict[int, Op] = {}
        for op in block.ops:
            places |= dict.fromkeys(op.results, op)
            inner = tuple(copied(one, inside or op.code == "for") for one in op.blocks)
            ops.append(replace(op, blocks=inner))
            pointer = places.get(op.operands[0]) if op.code == "load" and inside else None
            if pointer is not None and is_page_id(changed, op, pointer):
                ops += next_entry(changed, op, pointer)
                made += 1
        return Block(block.arguments, ops)

    changed.body = copied(program.body, False)
    plan_frees(changed.body)
    return changed if made else None


def is_page_id(program: Program, load: Op, pointer: Op) -> bool:
    """One int32 from a place in a table of them."""
    kind = program.types[load.results[0]]
    single = kind.kind == "int" and kind.bits == 32 and kind.length is None
    return single and pointer.code == "offset" and pointer.attrs["scale"] == 4


def next_entry(program: Program, load: Op, pointer: Op) -> Iterator[Op]:
    """The same load one entry further on, into values of its own."""
    fresh = Fresh(program)
    place = fresh.value(program.types[pointer.results[0]])
    value = fresh.value(program.types[load.results[0]])
    yield replace(pointer, results=(place,), attrs={**pointer.attrs, "static": pointer.attrs["static"] + 1})
    yield replace(load, operands=(place,), results=(value,))
