"""LLVM IR text as a module: types, globals, kernels with their basic blocks, source positions.

Only what a kernel needs is read: declarations, attributes and other metadata are passed over. A function that
is defined and is no kernel is kept, so that a call of it can be refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.emulator.llvm import instructions
from harness.emulator.llvm.instructions import Instruction
from harness.emulator.llvm.kinds import Kind
from harness.emulator.llvm.tokens import Cursor, unquoted, words
from harness.emulator.llvm.values import UNDEFINED, read_kind, read_space, read_value
from harness.emulator.program import UnsupportedOperation

LINKAGE = frozenset(
    {"internal", "private", "external", "linkonce_odr", "weak_odr", "weak", "linkonce", "common", "appending"}
    | {"dso_local", "hidden", "protected", "local_unnamed_addr", "unnamed_addr", "externally_initialized"}
    | {"extern_weak", "available_externally", "thread_local"}
)
LABEL = re.compile(r'^("(?:[^"\\]|\\.)*"|[-\w$.]+):')
NAMED = re.compile(r'%("[^"]*"|[-\w$.]+) = type ')
FLUSH = re.compile(r'"denormal-fp-math(-f32)?"="preserve-sign')
TARGET = re.compile(r'"target-cpu"="([^"]+)"')
LOCATION = re.compile(r"^(!\d+) = (?:distinct )?!(\w+)\((.*)\)$")


@dataclass(frozen=True)
class Parameter:
    """``byref``: the struct that a pointer into the kernel's arguments points to, else None."""

    name: str
    kind: Kind
    byref: Kind | None = None


@dataclass
class BasicBlock:
    label: str
    body: list[Instruction] = field(default_factory=list)


@dataclass
class Function:
    name: str
    kernel: bool
    flush: bool
    """Whether float32 numbers below the normal ones are taken, and given, as zero."""
    target: str
    """The chip it is compiled for (``gfx950``), empty where the text does not say."""
    parameters: tuple[Parameter, ...]
    blocks: list[BasicBlock] = field(default_factory=list)


@dataclass(frozen=True)
class Global:
    """``value``: what it holds from the start (`UNDEFINED`: nothing known, as shared memory)."""

    name: str
    kind: Kind
    space: int
    value: Any


@dataclass
class Module:
    """What one text defines. ``positions``: metadata number to (line, scope, file of the scope)."""

    named: dict[str, Kind] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    metadata: dict[str, tuple[str, str]] = field(default_factory=dict)
    flushing: set[str] = field(default_factory=set)
    """Groups of attributes, ``#0``, under which float32 numbers below the normal ones are zero."""
    targets: dict[str, str] = field(default_factory=dict)
    """Group of attributes to the chip that it names."""

    def position(self, debug: str) -> str:
        """``file:line``, the innermost first, of a metadata number; empty where it is none."""
        chain = []
        while debug:
            tag, text = self.metadata.get(debug, ("", ""))
            if tag != "DILocation":
                break
            file = self._file(_field(text, "scope"))
            chain.append(f"{file}:{_field(text, 'line')}")
            debug = _field(text, "inlinedAt")
        return " < ".join(dict.fromkeys(chain))

    def _file(self, scope: str) -> str:
        _, text = self.metadata.get(scope, ("", ""))
        _, file = self.metadata.get(_field(text, "file"), ("", ""))
        return _field(file, "filename").strip('"') or "?"


def _field(text: str, name: str) -> str:
    match = re.search(rf'\b{name}: ("[^"]*"|!?\w+)', text)
    return match[1] if match else ""


def read(text: str) -> Module:
    """The module of ``text``. Raises `UnsupportedOperation`."""
    module = Module()
    lines = list(enumerate(text.splitlines(), 1))
    _name_types(module, [(number, line) for number, line in lines if NAMED.match(line)])
    for _, line in lines:
        if line.startswith("attributes "):
            _attributes(module, line)
        elif line.startswith("!"):
            match = LOCATION.match(line)
            if match:
                module.metadata[match[1]] = (match[2], match[3])
    stream = iter(lines)
    for number, line in stream:
        if line.startswith("@"):
            _global(module, line, number)
        elif line.startswith("define "):
            function = _head(module, line, number)
            module.functions[function.name] = function
            _body(module, function, stream)
    return module


def _attributes(module: Module, line: str) -> None:
    group, target = line.split()[1], TARGET.search(line)
    if FLUSH.search(line):
        module.flushing.add(group)
    if target:
        module.targets[group] = target[1]


def _name_types(module: Module, lines: list[tuple[int, str]]) -> None:
    """Types by name, in any order of their definitions."""
    while lines:
        later = []
        for number, line in lines:
            cursor = Cursor(words(line), f"line {number}")
            name = unquoted(cursor.next())
            cursor.expect("=")
            cursor.expect("type")
            try:
                opaque = cursor.peek() == "opaque"
                module.named[name] = Kind("opaque") if opaque else read_kind(cursor, module.named)
            except UnsupportedOperation as refusal:
                later.append((number, line))
                last = refusal
        if len(later) == len(lines):
            raise last
        lines = later


def _global(module: Module, line: str, number: int) -> None:
    cursor = Cursor(words(line), f"line {number}")
    name = unquoted(cursor.next())
    if name.startswith("@llvm."):
        return
    cursor.expect("=")
    external = cursor.peek() in ("external", "extern_weak")
    cursor.flags(LINKAGE)
    space = read_space(cursor)
    cursor.flags(LINKAGE)
    if not cursor.take("global", "constant"):
        return
    kind = read_kind(cursor, module.named)
    value = UNDEFINED if external else read_value(cursor, kind, module.named)
    module.globals[name] = Global(name, kind, space, value)


def _head(module: Module, line: str, number: int) -> Function:
    cursor = Cursor(words(line), f"line {number}")
    kernel = False
    while not cursor.peek().startswith("@"):
        kernel |= cursor.peek() == "amdgpu_kernel"
        if cursor.peek(1) == "(":
            cursor.next()
            cursor.group()
        else:
            cursor.next()
    name = unquoted(cursor.next())[1:]
    inner = Cursor(cursor.group(), cursor.location)
    parameters: list[Parameter] = []
    while inner.peek():
        if inner.take("..."):
            break
        kind, byref = read_kind(inner, module.named), None
        while inner.peek() and not inner.peek().startswith("%"):
            if inner.peek() == "byref":
                inner.next()
                byref = read_kind(Cursor(inner.group(), cursor.location), module.named)
            elif inner.peek() == "(":
                inner.group()
            elif inner.peek() == ",":
                break
            else:
                inner.next()
        given = unquoted(inner.next()) if inner.peek().startswith("%") else f"%{len(parameters)}"
        parameters.append(Parameter(given, kind, byref))
        inner.take(",")
    flush, target = False, ""
    while cursor.peek():
        word = cursor.next()
        flush |= word in module.flushing
        target = module.targets.get(word, target)
    return Function(name, kernel, flush, target, tuple(parameters))


def _body(module: Module, function: Function, stream: Iterator[tuple[int, str]]) -> None:
    current = BasicBlock(f"%{len(function.parameters)}")
    for number, line in stream:
        if line.startswith("}"):
            break
        label = LABEL.match(line)
        if label:
            if current.body:
                function.blocks.append(current)
            current = BasicBlock(unquoted("%" + label[1]))
            continue
        if not line.strip() or line.lstrip().startswith((";", "#dbg_")):
            continue
        where = f"line {number}"
        if " switch " in line and "]" not in line:
            line = _whole_switch(line, stream)
        found = words(line, where)
        if not function.kernel:
            continue
        try:
            one = instructions.read(Cursor(found, where), module.named)
        except UnsupportedOperation as refusal:
            debug = found[found.index("!dbg") + 1] if "!dbg" in found else ""
            raise UnsupportedOperation(refusal.what, module.position(debug) or where) from None
        one.location = module.position(one.debug) or where
        current.body.append(one)
    if current.body:
        function.blocks.append(current)


def _whole_switch(line: str, stream: Iterator[tuple[int, str]]) -> str:
    parts = [line]
    for _, more in stream:
        parts.append(more)
        if more.strip().startswith("]"):
            break
    return " ".join(parts)
