"""Runs an emulator program one lane at a time on Python integers: the slow twin of the executor.

Covers 32-bit integer arithmetic, loads, stores and structured control flow, which is what the
random programs of `random_program` are made of. It knows no masks and no broadcasting, so a
lane that the executor leaves on, or a carried value it mixes up, comes out different here.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

from harness.emulator.program import Block, Op, Program
from suites.self.emulator_builder import I32, I64, Builder, Values


def wrap(number: int, width: int = 32) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def _unsigned(function: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    return lambda a, b: function(a & 0xFFFFFFFF, b & 0xFFFFFFFF)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "imin_signed": min,
    "imax_signed": max,
    "imin_unsigned": _unsigned(min),
    "imax_unsigned": _unsigned(max),
    "idiv_floor": operator.floordiv,
    "udiv": _unsigned(operator.floordiv),
    "shl": operator.lshift,
    "shr_signed": operator.rshift,
    "shr_unsigned": _unsigned(operator.rshift),
}
_COMPARE: dict[str, Callable[[int, int], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sge": operator.ge,
}
_COMPARE |= {"ult": _unsigned(operator.lt), "ugt": _unsigned(operator.gt)}


class Lane:
    """One lane of one workgroup; ``memory`` maps argument number to a list of 32-bit cells."""

    def __init__(self, program: Program, memory: Sequence[Any], cta: int, lane: int) -> None:
        self._types = program.types
        self._memory = memory
        self._place = {"block_id": cta, "thread_id": lane}
        self._env: dict[int, Any] = {value: (n, 0) for n, value in enumerate(program.arguments)}
        self._block(program.body)

    def _block(self, block: Block) -> tuple[Any, ...]:
        for op in block.ops:
            values = [self._env[operand] for operand in op.operands]
            if op.code in ("yield", "return"):
                return tuple(values)
            results = self._op(op, values)
            self._env.update(zip(op.results, results, strict=True))
        return ()

    def _op(self, op: Op, values: list[Any]) -> Sequence[Any]:
        if op.code == "if":
            return self._block(op.blocks[0 if values[0] else 1])
        if op.code == "for":
            return self._loop(op, *values)
        if op.code == "store":
            argument, byte = values[1]
            self._memory[argument][byte // 4] = values[0]
            return ()
        return (self._value(op, values),)

    def _loop(self, op: Op, low: int, high: int, step: int, *carried: int) -> Sequence[int]:
        for position in range(low, high, step):
            self._env.update(zip(op.blocks[0].arguments, (position, *carried), strict=True))
            carried = self._block(op.blocks[0])
        return carried

    def _value(self, op: Op, values: list[Any]) -> Any:
        kind = self._types[op.results[0]]
        if op.code == "const":
            return op.attrs["value"]
        if op.code in self._place:
            return self._place[op.code]
        if op.code == "icmp":
            return _COMPARE[op.attrs["predicate"]](*values)
        if op.code == "select":
            return values[1] if values[0] else values[2]
        if op.code == "truncate":
            return wrap(values[0], kind.bits)
        if op.code == "offset":
            return values[0][0], values[0][1] + (values[1] + op.attrs["static"]) * op.attrs["scale"]
        if op.code == "load":
            return self._memory[values[0][0]][values[0][1] // 4]
        return wrap(_ARITHMETIC[op.code](*values), kind.bits)


class _Random:
    """Writes a random program into a builder; values in scope are 32-bit integers."""

    def __init__(self, build: Builder, seed: int, start: Sequence[int]) -> None:
        self._build = build
        self._draw = random.Random(seed)
        self.scope = [*start]

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            kind = self._draw.random()
            if depth and kind < 0.2:
                self.scope += self._branch(depth - 1)
            elif depth and kind < 0.4:
                self.scope += self._loop(depth - 1)
            else:
                self.scope.append(self._arithmetic())

    def _any(self) -> int:
        recent = self.scope[-6:] if self._draw.random() < 0.6 else self.scope
        return self._draw.choice(recent)

    def _const(self, low: int, high: int) -> int:
        return self._build.const(self._draw.randint(low, high))

    def _small(self, most: int) -> int:
        """A constant, or the low bits of any value: uniform or not as it comes."""
        if self._draw.random() < 0.4:
            return self._const(0, most)
        return self._build.op("and", I32, self._any(), self._build.const(most))

    def _arithmetic(self) -> int:
        build, code = self._build, self._draw.choice([*_ARITHMETIC, "select"])
        if code == "select":
            return build.op("select", I32, self._condition(), self._any(), self._any())
        if code.startswith("sh"):
            return build.op(code, I32, self._any(), self._small(31))
        if "div" in code:
            divisor = build.op("or", I32, self._small(255), build.const(1))
            return build.op(code, I32, self._any(), divisor)
        other = self._any() if self._draw.random() < 0.7 else self._const(-(2**31), 2**31 - 1)
        return build.op(code, I32, self._any(), other)

    def _condition(self) -> int:
        other = self._any() if self._draw.random() < 0.5 else self._const(-3, 70)
        return self._build.compare(self._draw.choice([*_COMPARE]), self._any(), other)

    def _body(self, entered: Sequence[int], depth: int, gives: int) -> Values:
        outer = self.scope
        self.scope = [*outer, *entered]
        self.statements(self._draw.randint(1, 4), depth)
        given = tuple(self._any() for _ in range(gives))
        self.scope = outer
        return given

    def _branch(self, depth: int) -> Values:
        gives = self._draw.randint(1, 2)
        condition = self._condition()
        return self._build.branch(
            condition, lambda: self._body((), depth, gives), lambda: self._body((), depth, gives)
        )

    def _loop(self, depth: int) -> Values:
        carried = tuple(self._any() for _ in range(self._draw.randint(1, 3)))
        low, high = self._small(3), self._small(7)
        step = self._build.op("or", I32, self._small(3), self._build.const(1))
        return self._build.loop(
            low, high, step, carried, lambda *entered: self._body(entered, depth, len(carried))
        )


def random_program(seed: int, threads: int, outputs: int = 4) -> Program:
    """Loads a cell a lane from argument 0 and stores ``outputs`` values a lane to argument 1."""
    build = Builder()
    source, target = build.argument(), build.argument()
    lane, cta = build.lane(), build.cta()
    everywhere = build.global_lane(threads)
    loaded = build.load(I32, build.at(source, everywhere, 4))
    start = [build.op("truncate", I32, value) for value in (lane, cta)]
    writer = _Random(build, seed, [build.const(5), build.const(-1), *start, loaded])
    writer.statements(12, 3)
    first = build.op("imul", I64, everywhere, build.const(outputs, I64))
    for number, value in enumerate(writer.scope[-outputs:]):
        build.store(value, build.at(target, first, 4, number))
    return build.finish()
