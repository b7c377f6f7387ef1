"""What rules are made of: what they look up, new values, and ways to change one operation.

Contract: operands only come from the operation itself and from new constants, and what an operation of a
control-flow graph hands on (attr given) is changed together with what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.emulator.program import Op, Program, Type

Maker = Callable[["Fresh"], list[Op]]
Change = tuple[str, Maker]
Rule = Callable[["Seen", Op], Iterator[Change]]


@dataclass(frozen=True)
class Seen:
    """What rules look up: the type of every value, and which operation defines it."""

    types: Mapping[int, Type]
    defined: Mapping[int, Op]
    graph: bool
    """Whether the program is a control-flow graph: compiled code, not structured."""

    @classmethod
    def of(cls, program: Program) -> Seen:
        defined = {result: op for op in program.walk() for result in op.results}
        return cls(program.types, defined, any(op.code == "graph" for op in program.body.ops))

    def constant(self, value: int) -> Any:
        """The Python value of a constant; None for anything else."""
        op = self.defined.get(value)
        return op.attrs["value"] if op is not None and op.code == "const" else None


class Fresh:
    """Hands out new values of a program."""

    def __init__(self, program: Program) -> None:
        self._types = program.types

    def value(self, kind: Type) -> int:
        number = max(self._types) + 1
        self._types[number] = kind
        return number

    def constant(self, kind: Type, value: Any) -> Op:
        return Op("const", (), (self.value(kind),), {"value": value}, (), "")


def changed(op: Op, **changes: Any) -> Maker:
    """``op`` with other fields."""
    return lambda fresh: [replace(op, **changes)]


def attribute(op: Op, name: str, value: Any) -> Maker:
    return changed(op, attrs={**op.attrs, name: value})


def alone(op: Op, operand: int) -> Maker:
    """``operand`` where the result was."""
    return lambda fresh: [Op("bitcast", (operand,), op.results, {}, (), op.location)]


def constant(op: Op, place: int, kind: Type, value: Any) -> Maker:
    """A constant as operand ``place``."""
    return lambda fresh: instead(op, place, [fresh.constant(kind, value)])


def added(op: Op, place: int, kind: Type, step: int) -> Maker:
    """Operand ``place`` plus ``step``."""

    def made(fresh: Fresh) -> list[Op]:
        more = fresh.constant(kind, step)
        operands = (op.operands[place], more.results[0])
        return instead(op, place, [more, Op("iadd", operands, (fresh.value(kind),), {}, (), op.location)])

    return made


def exchange(op: Op, place: int) -> Maker:
    """Operand ``place`` and the next one exchanged."""
    one, two = op.operands[place : place + 2]
    return lambda fresh: [with_operands(op, (*op.operands[:place], two, one, *op.operands[place + 2 :]))]


def instead(op: Op, place: int, before: list[Op]) -> list[Op]:
    """``before``, then ``op`` with their last result as operand ``place``."""
    operands = (*op.operands[:place], before[-1].results[0], *op.operands[place + 1 :])
    return [*before, with_operands(op, operands)]


def with_operands(op: Op, operands: tuple[int, ...]) -> Op:
    """``op`` with other operands, of which a jump hands on all but those that choose its target."""
    if op.code != "go":
        return replace(op, operands=operands)
    given, at = [], op.attrs["chosen"]
    for numbers in op.attrs["given"]:
        given.append(operands[at : at + len(numbers)])
        at += len(numbers)
    return replace(op, operands=operands, attrs={**op.attrs, "given": tuple(given)})


def wrong(kind: Type, value: Any) -> Iterator[Any]:
    """Constants near ``value``: one more and less, the other bool, 1.0 for 0.0 and 0.0 for the rest."""
    if kind.kind == "float":
        yield 1.0 if float(value) == 0.0 else 0.0
    elif kind.kind == "int" and kind.bits == 1:
        yield not value
    elif kind.kind == "int":
        top = 1 << (kind.bits - 1)
        yield from (near for near in (int(value) + 1, int(value) - 1) if -top <= near < top)
