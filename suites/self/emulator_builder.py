"""Builds emulator programs by hand, so that the executor is tested without any front end.

A `Builder` numbers values and nests blocks; `run` executes the program on CPU tensors and
hands back what was found. `apply` runs one opcode on many operand values three ways (one lane
a value, one constant a value, and mixed) and insists that all three agree, because a value
that is uniform is held as a Python number and takes another road through the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.emulator.executor import Executor, Launch
from harness.emulator.found import Findings
from harness.emulator.lanes import dtype_of
from harness.emulator.matrix import MatrixUnit
from harness.emulator.memory import Allocation, Pointer
from harness.emulator.program import Block, Op, Program, Type, plan_frees
from harness.findings import Finding

I1, I8, I16, I32, I64 = (Type("int", bits) for bits in (1, 8, 16, 32, 64))
I128 = Type("int", 128)
F16, BF16 = Type("float", 16, name="f16"), Type("float", 16, name="bf16")
F32, F64 = Type("float", 32, name="f32"), Type("float", 64, name="f64")
POINTER = Type("pointer", 64, name="1")
SHARED = Type("pointer", 64, name="3")
RESOURCE = Type("resource", 64, name="8")

Values = Sequence[int]
CPU = torch.device("cpu")


def vector(kind: Type, length: int) -> Type:
    """A vector of ``length`` elements of a scalar type."""
    return Type(kind.kind, kind.bits, length, kind.name)


class Builder:
    """Numbers the values of one program; every method returns the number of the value it defines."""

    def __init__(self, name: str = "kernel") -> None:
        self.name = name
        self.types: dict[int, Type] = {}
        self._arguments: list[int] = []
        self._blocks: list[list[Op]] = [[]]

    def value(self, kind: Type) -> int:
        number = len(self.types)
        self.types[number] = kind
        return number

    def argument(self, kind: Type = POINTER) -> int:
        number = self.value(kind)
        self._arguments.append(number)
        return number

    def do(self, code: str, *operands: int, at: str = "", **attrs: Any) -> None:
        """An operation without results."""
        self._blocks[-1].append(Op(code, operands, (), attrs, (), at))

    def op(self, code: str, kind: Type, *operands: int, at: str = "", **attrs: Any) -> int:
        """An operation with one result of type ``kind``."""
        return self.ops(code, (kind,), *operands, at=at, **attrs)[0]

    def ops(self, code: str, kinds: Sequence[Type], *operands: int, at: str = "", **attrs: Any) -> Values:
        results = tuple(self.value(kind) for kind in kinds)
        self._blocks[-1].append(Op(code, operands, results, attrs, (), at))
        return results

    def const(self, value: Any, kind: Type = I32) -> int:
        return self.op("const", kind, value=value)

    def lane(self, axis: int = 0, kind: Type = I64) -> int:
        return self.op("thread_id", kind, axis=axis)

    def cta(self, axis: int = 0, kind: Type = I64) -> int:
        return self.op("block_id", kind, axis=axis)

    def global_lane(self, threads: int) -> int:
        """``block_id.x * threads + thread_id.x`` as a 64-bit value."""
        base = self.op("imul", I64, self.cta(), self.const(threads, I64))
        return self.op("iadd", I64, base, self.lane())

    def at(self, pointer: int, index: int, scale: int = 1, static: int = 0) -> int:
        """``pointer`` advanced by ``index`` elements of ``scale`` bytes and a constant part."""
        return self.op("offset", self.types[pointer], pointer, index, scale=scale, static=static)

    def load(self, kind: Type, pointer: int, at: str = "") -> int:
        return self.op("load", kind, pointer, at=at)

    def store(self, value: int, pointer: int, at: str = "") -> None:
        self.do("store", value, pointer, at=at)

    def compare(self, predicate: str, a: int, b: int) -> int:
        code = "fcmp" if self.types[a].kind == "float" else "icmp"
        return self.op(code, I1, a, b, predicate=predicate)

    def branch(
        self,
        condition: int,
        then: Callable[[], Values],
        otherwise: Callable[[], Values] | None = None,
    ) -> Values:
        """An ``if`` whose bodies return what they yield."""
        blocks = [self._block((), then)]
        if otherwise is not None:
            blocks.append(self._block((), otherwise))
        given = blocks[0].ops[-1].operands
        results = tuple(self.value(self.types[number]) for number in given)
        self._blocks[-1].append(Op("if", (condition,), results, {}, tuple(blocks)))
        return results

    def loop(
        self,
        low: int,
        high: int,
        step: int,
        carried: Values,
        body: Callable[..., Values],
    ) -> Values:
        """A ``for`` over ``body(index, *carried)``, which returns the next carried values."""
        arguments = (self.value(self.types[low]), *(self.value(self.types[number]) for number in carried))
        block = self._block(arguments, lambda: body(*arguments))
        results = tuple(self.value(self.types[number]) for number in carried)
        self._blocks[-1].append(Op("for", (low, high, step, *carried), results, {}, (block,)))
        return results

    def _block(self, arguments: tuple[int, ...], body: Callable[[], Values]) -> Block:
        self._blocks.append([])
        given = tuple(body())
        self.do("yield", *given)
        return Block(arguments, self._blocks.pop())

    def finish(self) -> Program:
        self.do("return")
        (ops,) = self._blocks
        body = Block(tuple(self._arguments), ops)
        plan_frees(body)
        return Program(self.name, body.arguments, body, self.types)


@dataclass(frozen=True)
class Ran:
    """What a launch found, and what its matrix unit counted."""

    findings: tuple[Finding, ...]
    matrix: MatrixUnit

    @property
    def kinds(self) -> list[str]:
        return [finding.kind for finding in self.findings]

    @property
    def only(self) -> Finding:
        (finding,) = self.findings
        return finding


def run(
    program: Program | Builder,
    arguments: Sequence[Any] = (),
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    slab_lanes: int = 0,
) -> Ran:
    """Execute one launch. Tensors among ``arguments`` become whole allocations named ``argN``."""
    program = program.finish() if isinstance(program, Builder) else program
    findings = Findings()
    executor = Executor(program, CPU, findings)
    executor.run(Launch(grid, block, [_argument(a, n) for n, a in enumerate(arguments)]), slab_lanes)
    return Ran(findings.all(), executor.matrix)


def _argument(value: Any, number: int) -> Any:
    if isinstance(value, Allocation):
        return Pointer(value)
    return Pointer(Allocation.of(value, f"arg{number}")) if isinstance(value, Tensor) else value


def apply(code: str, result: Type, operands: Sequence[tuple[Type, Sequence[Any]]], **attrs: Any) -> Tensor:
    """Results of ``code`` for each position of the operands' value lists, by all roads alike.

    Booleans come back as int8. A few positions are repeated with every operand constant, and with
    each operand alone constant.
    """
    count = len(operands[0][1])
    everywhere = _many_lanes(code, result, operands, attrs)
    rows = sorted({*range(0, count, max(1, count // 24)), count - 1})
    for constant in {tuple(range(len(operands))), *((position,) for position in range(len(operands)))}:
        again = _one_by_one(code, result, operands, attrs, rows, constant)
        assert bits(again) == bits(everywhere[rows]), f"{code}: operands {constant} constant"
    return everywhere


def _many_lanes(code: str, result: Type, operands: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
    """One lane a position."""
    count = len(operands[0][1])
    build, target = Builder(), _target(result, count)
    pointers = [build.argument() for _ in operands]
    out = build.argument()
    lane = build.global_lane(64)

    def body() -> Values:
        loaded = [_loaded(build, kind, p, lane, 0) for (kind, _), p in zip(operands, pointers, strict=True)]
        _kept(build, build.op(code, result, *loaded, **attrs), out, lane, 0)
        return ()

    build.branch(build.compare("slt", lane, build.const(count, I64)), body)
    columns = [_column(kind, values) for kind, values in operands]
    assert run(build, [*columns, target], grid=(-(-count // 64), 1, 1)).findings == ()
    return target


def _one_by_one(
    code: str,
    result: Type,
    operands: Sequence[Any],
    attrs: dict[str, Any],
    rows: Sequence[int],
    constant: Sequence[int],
) -> Tensor:
    """One operation a position; operands in ``constant`` are constants, the others held lane by lane."""
    build, target = Builder(), _target(result, len(rows))
    pointers = [build.argument() for _ in operands]
    out = build.argument()
    nought = build.op("imul", I64, build.lane(), build.const(0, I64))

    def body() -> Values:
        for number, row in enumerate(rows):
            values = [
                build.const(column[row], kind) if place in constant else _loaded(build, kind, p, nought, row)
                for place, ((kind, column), p) in enumerate(zip(operands, pointers, strict=True))
            ]
            _kept(build, build.op(code, result, *values, **attrs), out, nought, number)
        return ()

    build.branch(build.compare("eq", build.lane(), build.const(0, I64)), body)
    columns = [_column(kind, values) for kind, values in operands]
    assert run(build, [*columns, target]).findings == ()
    return target


def _stored_as(kind: Type) -> Type:
    """Booleans are kept in memory as bytes."""
    return Type("int", 8, kind.length) if kind.bits == 1 else kind


def _target(result: Type, count: int) -> Tensor:
    kind = _stored_as(result)
    return torch.zeros((count, *(() if kind.length is None else (kind.length,))), dtype=dtype_of(kind))


def _column(kind: Type, values: Sequence[Any]) -> Tensor:
    return torch.tensor([*values], dtype=dtype_of(_stored_as(kind)))


def _loaded(build: Builder, kind: Type, pointer: int, lane: int, row: int) -> int:
    stored = _stored_as(kind)
    value = build.load(stored, build.at(pointer, lane, stored.total_bytes, row))
    return build.op("truncate", kind, value) if kind.bits == 1 else value


def _kept(build: Builder, value: int, pointer: int, lane: int, row: int) -> None:
    kind = build.types[value]
    stored = _stored_as(kind)
    value = build.op("zero_extend", stored, value) if kind.bits == 1 else value
    build.store(value, build.at(pointer, lane, stored.total_bytes, row))


def bits(values: Tensor) -> list[Any]:
    """Values as integers of their width, every NaN alike, so that -0 and 0 differ."""
    if values.dtype.is_floating_point:
        values = torch.where(values.isnan(), torch.nan, values)
        width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
        values = values.contiguous().view(width)
    listed: list[Any] = values.tolist()
    return listed
