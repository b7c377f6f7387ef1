"""From an LLVM IR kernel to a `Program`: constants and addresses first, then one control-flow graph.

Contract: every instruction becomes operations of the closed table, with its flags honoured, or is refused
with its source line. Phis become arguments of blocks, barriers end blocks. How it would fail silently:
values that are read in another block than they are made in and not kept; so they are found here, once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.emulator.llvm import arithmetic, intrinsics
from harness.emulator.llvm.instructions import FREE, Instruction
from harness.emulator.llvm.kinds import I32, SHARED, Kind
from harness.emulator.llvm.module import BasicBlock, Function, Global, Module
from harness.emulator.llvm.order import execution_order
from harness.emulator.llvm.values import UNDEFINED, Expression, Ref, Typed
from harness.emulator.program import Block, Op, Program, Type, UnsupportedOperation

FLUSHED = frozenset(
    {"fadd", "fsub", "fmul", "fdiv", "fma", "fmaxnum", "fminnum", "fmaximum", "fminimum", "fmedian", "fcmp"}
    | {"fround", "fextend", "float_to_int", "float_to_uint", "floor", "ceil", "round_to_zero"}
    | {"round_to_even", "rsq_near", "rcp_near", "sqrt_near", "exp2_near", "log2_near", "fdiv_near"}
)
"""Operations that heed the mode for numbers below the normal ones; moves, signs and bits do not."""

BARRIERS = ("llvm.amdgcn.s.barrier",)


def translate(module: Module, kernel: str) -> Program:
    """The program of ``kernel``. Raises `UnsupportedOperation`."""
    function = module.functions.get(kernel)
    if function is None or not function.kernel:
        raise UnsupportedOperation(f"kernel {kernel}, the module has none of that name")
    return Builder(module, function).program()


class Builder:
    """Numbers values and collects operations; the front end's other modules emit through it."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.types: dict[int, Type] = {}
        self.kinds: dict[int, Kind] = {}
        self.ops: list[Op] = []
        self._prologue: list[Op] = []
        self._numbers: dict[str, int] = {}
        self._constants: dict[Any, int] = {}
        self._location = ""

    # values

    def new(self, kind: Kind, type_: Type | None = None) -> int:
        number = len(self.types)
        self.types[number] = type_ or kind.type
        self.kinds[number] = kind
        return number

    def number(self, one: Typed) -> int:
        """The value number of an operand. Constants are made once, before the graph."""
        value = one.value
        if isinstance(value, Ref):
            if value.name not in self._numbers:
                if not value.name.startswith("@"):
                    raise UnsupportedOperation(f"value {value.name}, which nothing defines", self._location)
                self._numbers[value.name] = self._global(value.name)
            return self._numbers[value.name]
        key = one.kind, "undefined" if value is UNDEFINED else value
        if key not in self._constants:
            self._constants[key] = self._before(lambda: self._constant(one))
        return self._constants[key]

    def integer(self, value: int, kind: Kind = I32) -> int:
        return self.number(Typed(kind, value))

    def _before(self, make: Any) -> int:
        """Whatever ``make`` emits goes before the graph."""
        here, self.ops = self.ops, self._prologue
        try:
            return int(make())
        finally:
            self.ops = here

    def _constant(self, one: Typed) -> int:
        kind, value = one.kind, one.value
        if value is UNDEFINED:
            return self.emit("poison", (), kind)
        if isinstance(value, Expression):
            return self._expression(value)
        if kind.name == "pointer":
            return self.emit("null", (), kind)
        if kind.name in ("struct", "array"):
            return self.emit("members", [self.number(part) for part in value], kind)
        if kind.name == "vector":
            if any(isinstance(part.value, Ref | Expression) for part in value):
                raise UnsupportedOperation("vector of addresses", self._location)
            parts = tuple(0 if part.value is UNDEFINED else part.value for part in value)
            return self.emit("const", (), kind, value=parts)
        return self.emit("const", (), kind, value=value)

    def _expression(self, value: Expression) -> int:
        first = self.number(value.operands[0])
        if value.code == "getelementptr":
            return self.address(first, value.kind, value.operands[1:])
        if value.code in ("addrspacecast", "bitcast"):
            return first
        raise UnsupportedOperation(f"constant expression {value.code}", self._location)

    def _global(self, name: str) -> int:
        found = self.module.globals.get(name)
        if found is None:
            raise UnsupportedOperation(f"global {name}", self._location)
        kind = Kind("pointer", space=found.space)
        if found.space == SHARED:
            return self._before(
                lambda: self.emit(
                    "shared_base", (), kind, name=name[1:], label=plain(name[1:]), bytes=found.kind.size
                )
            )
        held = image(found)
        return self._before(lambda: self.emit("constant_base", (), kind, name=plain(name[1:]), data=held))

    # operations

    def emit(self, code: str, operands: Sequence[int], kind: Kind, **attrs: Any) -> int:
        """Append an operation with one result of ``kind``; its number."""
        result = self.new(kind)
        if self.function.flush and code in FLUSHED:
            attrs["flush"] = True
        self.ops.append(Op(code, tuple(operands), (result,), attrs, (), self._location))
        return result

    def effect(self, code: str, operands: Sequence[int], **attrs: Any) -> None:
        """Append an operation without a result."""
        self.ops.append(Op(code, tuple(operands), (), attrs, (), self._location))

    def refuse(self, what: str) -> UnsupportedOperation:
        return UnsupportedOperation(what, self._location)

    def address(self, base: int, source: Kind, indices: Sequence[Typed]) -> int:
        """``getelementptr``: constant steps are added up, each other index is an operation of its own."""
        kind, static, pointer = source, 0, base
        for place, index in enumerate(indices):
            if place:
                if kind.name == "struct":
                    kind, offset = kind.field(int(index.value))
                    static += offset
                    continue
                kind = kind.element
            if isinstance(index.value, int):
                static += index.value * kind.size
            else:
                number = self.number(index)
                if self.types[number].length is not None:
                    raise self.refuse("getelementptr of vectors")
                pointer = self.emit("offset", (pointer, number), self.kinds[base], scale=kind.size, static=0)
        if static:
            pointer = self.emit("offset", (pointer,), self.kinds[base], scale=1, static=static)
        return pointer

    # the kernel

    def program(self) -> Program:
        arguments = []
        for parameter in self.function.parameters:
            number = self.new(parameter.kind)
            self._numbers[parameter.name] = number
            arguments.append(number)
        blocks = self._ordered()
        entered = [self._enter(block) for block in blocks]
        places = {block.label: place for place, block in enumerate(blocks)}
        segments = [self._block(block, places) for block in blocks]
        graph = renumbered(entered, segments)
        ops = [*self._prologue, Op("graph", (), (), {}, tuple(graph)), Op("return", (), ())]
        return Program(self.function.name, tuple(arguments), Block((), ops), self.types)

    def _ordered(self) -> list[BasicBlock]:
        labels = {
            block.label: block.body[-1].attrs.get("labels", ()) if block.body else ()
            for block in self.function.blocks
        }
        order = execution_order(self.function.blocks[0].label, labels)
        known = {block.label: block for block in self.function.blocks}
        return [known[label] for label in order]

    def _enter(self, block: BasicBlock) -> tuple[int, ...]:
        """Numbers of the block's phis, which may name each other."""
        arguments = []
        for one in block.body:
            if one.code == "phi":
                self._numbers[one.result] = self.new(one.kind)
                arguments.append(self._numbers[one.result])
        return tuple(arguments)

    def _block(self, block: BasicBlock, places: dict[str, int]) -> list[list[Op]]:
        """The block's operations, a new list after each barrier; the last ends in a terminator."""
        parts: list[list[Op]] = []
        self.ops = []
        for one in block.body:
            self._location = one.location
            if one.code == "phi":
                continue
            if one.code == "call" and one.attrs["callee"] in BARRIERS:
                self.effect("wait", ())
                parts.append(self.ops)
                self.ops = []
            elif one.code in ("br", "switch"):
                self._leave(block, one, places)
            elif one.code in ("ret", "unreachable"):
                self.effect("leave", (), reached=one.code == "ret")
            else:
                self._instruction(one)
        parts.append(self.ops)
        return parts

    def _leave(self, block: BasicBlock, one: Instruction, places: dict[str, int]) -> None:
        labels = one.attrs["labels"]
        known = {other.label: other for other in self.function.blocks}
        given = []
        for label in labels:
            phis = [phi for phi in known[label].body if phi.code == "phi"]
            given.append(tuple(self._incoming(phi, block.label) for phi in phis))
        chosen = tuple(self.number(operand) for operand in one.operands)
        reads = (*chosen, *(number for numbers in given for number in numbers))
        attrs: dict[str, Any] = {
            "targets": tuple(places[label] for label in labels),
            "given": tuple(given),
            "cases": one.attrs.get("cases"),
            "chosen": len(chosen),
        }
        self.ops.append(Op("go", reads, (), attrs, (), self._location))

    def _incoming(self, phi: Instruction, label: str) -> int:
        try:
            return self.number(phi.operands[phi.attrs["labels"].index(label)])
        except ValueError:
            raise self.refuse(f"phi without a value from {label}") from None

    def _instruction(self, one: Instruction) -> None:
        if one.flags & FREE:
            raise self.refuse(f"{one.code} with the flags {', '.join(sorted(one.flags & FREE))}")
        make = intrinsics.make if one.code == "call" else arithmetic.MAKE.get(one.code)
        if make is None:
            raise self.refuse(f"instruction {one.code}")
        result = make(self, one)
        if one.result:
            if result is None:
                raise self.refuse(f"{one.code} without a result")
            self._numbers[one.result] = result


MANGLED = re.compile(r"^_ZZ.*E\d+([A-Za-z_]\w*?)(_\d+)?$")
"""A variable of a function: the name in the source is what stands last."""


def plain(symbol: str) -> str:
    """The name that the source gives a variable, as far as the symbol says it."""
    match = MANGLED.match(symbol)
    return match[1] if match else symbol


def renumbered(entered: Sequence[tuple[int, ...]], segments: Sequence[list[list[Op]]]) -> list[Block]:
    """One block a segment, in order; targets become the numbers of first segments."""
    first, total = [], 0
    for parts in segments:
        first.append(total)
        total += len(parts)
    blocks = []
    for place, parts in enumerate(segments):
        for number, ops in enumerate(parts):
            last = ops[-1]
            if last.code == "go":
                last.attrs["targets"] = tuple(first[target] for target in last.attrs["targets"])
            elif last.code == "wait":
                last.attrs["targets"] = (first[place] + number + 1,)
            blocks.append(Block(entered[place] if number == 0 else (), ops))
    return blocks


def image(found: Global) -> bytes:
    """The bytes that a global holds from the start. Raises `UnsupportedOperation`."""
    return _image(Typed(found.kind, found.value), found.name)


def _image(one: Typed, name: str) -> bytes:
    kind, value = one.kind, one.value
    if kind.name in ("array", "vector", "struct") and isinstance(value, tuple):
        held = bytearray(kind.size)
        for place, part in enumerate(value):
            at = kind.field(place)[1]
            piece = _image(part, name)
            held[at : at + len(piece)] = piece
        return bytes(held)
    if kind.name == "int" and isinstance(value, int):
        return (int(value) & ((1 << 8 * kind.size) - 1)).to_bytes(kind.size, "little")
    if kind.name == "float" and isinstance(value, float):
        return arithmetic.float_bytes(value, kind)
    raise UnsupportedOperation(f"what global {name} holds ({kind})")
