"""Types and values of LLVM IR text.

Constants are read to Python numbers and tuples at once; a floating-point constant keeps its bits by being
read through its own format. What is neither known type nor known value is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.emulator.llvm.kinds import FLOATS, LABEL, METADATA, VOID, Kind
from harness.emulator.llvm.tokens import Cursor, unquoted

INTEGER = re.compile(r"i(\d+)$")
UNDEFINED = object()
"""The value of ``undef`` and ``poison``."""


@dataclass(frozen=True)
class Ref:
    """A value by name: ``%x``, an argument or a result; ``@x``, a global."""

    name: str


@dataclass(frozen=True)
class Expression:
    """A constant expression: ``code`` getelementptr, addrspacecast ... over ``operands``."""

    code: str
    kind: Kind
    operands: tuple[Typed, ...]


@dataclass(frozen=True)
class Typed:
    """``value``: `Ref`, `Expression`, int, float, bool, None (null), tuple of `Typed`, or `UNDEFINED`."""

    kind: Kind
    value: Any


Named = Mapping[str, Kind]
"""Named types: ``%struct.x`` to its kind."""


def read_kind(cursor: Cursor, named: Named) -> Kind:
    """The type that comes next. Raises `UnsupportedOperation`."""
    word = cursor.peek()
    integer = INTEGER.match(word)
    if integer:
        cursor.next()
        return Kind("int", int(integer[1]))
    if word in FLOATS:
        cursor.next()
        return Kind("float", FLOATS[word][1], format=word)
    if word == "ptr":
        cursor.next()
        return Kind("pointer", space=read_space(cursor))
    if word in ("void", "label", "metadata"):
        cursor.next()
        return {"void": VOID, "label": LABEL, "metadata": METADATA}[word]
    if word.startswith("%"):
        name = unquoted(cursor.next())
        if name not in named:
            raise cursor.refusal(f"type {name}")
        return named[name]
    if word in ("[", "<", "{"):
        return _aggregate(cursor, named)
    raise cursor.refusal(f"type {word!r}")


def read_space(cursor: Cursor) -> int:
    """``addrspace(N)``, or 0 where it does not stand."""
    if not cursor.take("addrspace"):
        return 0
    return int(cursor.group()[0])


def _aggregate(cursor: Cursor, named: Named) -> Kind:
    opening = cursor.next()
    if opening == "<" and cursor.peek() == "{":
        inner = _aggregate(cursor, named)
        cursor.expect(">")
        return Kind("struct", parts=inner.parts, packed=True)
    if opening == "{":
        parts = []
        while not cursor.take("}"):
            parts.append(read_kind(cursor, named))
            cursor.take(",")
        return Kind("struct", parts=tuple(parts))
    length = int(cursor.next())
    cursor.expect("x")
    inner = read_kind(cursor, named)
    cursor.expect("]" if opening == "[" else ">")
    return Kind("array" if opening == "[" else "vector", length=length, parts=(inner,))


def read_typed(cursor: Cursor, named: Named) -> Typed:
    kind = read_kind(cursor, named)
    return Typed(kind, read_value(cursor, kind, named))


def read_value(cursor: Cursor, kind: Kind, named: Named) -> Any:
    """The value of ``kind`` that comes next. Raises `UnsupportedOperation`."""
    word = cursor.next()
    if word[0] in "%@":
        return Ref(unquoted(word))
    if word in ("undef", "poison"):
        return UNDEFINED
    if word in ("true", "false"):
        return word == "true"
    if word in ("null", "none"):
        return None
    if word == "zeroinitializer":
        return zero(kind)
    if word == "splat":
        cursor.expect("(")
        one = read_typed(cursor, named)
        cursor.expect(")")
        return (one,) * kind.length
    if word in ("<", "[", "{"):
        return _members(cursor, word, named)
    if word[:2] == 'c"':
        return tuple(Typed(kind.element, byte) for byte in characters(word))
    if word in ("getelementptr", "addrspacecast", "bitcast", "inttoptr", "ptrtoint"):
        return _expression(cursor, word, named)
    if kind.name == "int":
        return int(word)
    if kind.name == "float":
        return number(word, kind)
    raise cursor.refusal(f"value {word!r} of type {kind}")


def zero(kind: Kind) -> Any:
    """The value of ``kind`` whose every byte is zero."""
    if kind.name in ("array", "vector"):
        return (Typed(kind.element, zero(kind.element)),) * kind.length
    if kind.name == "struct":
        return tuple(Typed(part, zero(part)) for part in kind.parts)
    return {"int": 0, "float": 0.0}.get(kind.name)


def number(word: str, kind: Kind) -> float:
    """A floating-point constant: hexadecimal ones are the bits of a double, or of the type after H and R."""
    if word[:3] == "0xH":
        return float(struct.unpack("<e", int(word[3:], 16).to_bytes(2, "little"))[0])
    if word[:3] == "0xR":
        return float(struct.unpack("<f", (int(word[3:], 16) << 16).to_bytes(4, "little"))[0])
    if word[:2] == "0x":
        return float(struct.unpack("<d", int(word[2:], 16).to_bytes(8, "little"))[0])
    return float(word)


def characters(word: str) -> bytes:
    """The bytes of ``c"..."``, in which ``\\41`` is one byte."""
    text = word[2:-1]
    raw = re.sub(r"\\([0-9A-Fa-f]{2}|\\)", lambda m: "\\" if m[1] == "\\" else chr(int(m[1], 16)), text)
    return raw.encode("latin-1")


def _members(cursor: Cursor, opening: str, named: Named) -> tuple[Typed, ...]:
    packed = opening == "<" and cursor.take("{")
    closing = {"<": ">", "[": "]", "{": "}"}["{" if packed else opening]
    found = []
    while not cursor.take(closing):
        found.append(read_typed(cursor, named))
        cursor.take(",")
    if packed:
        cursor.expect(">")
    return tuple(found)


def _expression(cursor: Cursor, code: str, named: Named) -> Expression:
    cursor.flags(frozenset({"inbounds", "nuw", "nusw"}))
    if cursor.take("inrange"):
        cursor.group()
    cursor.expect("(")
    operands = []
    kind = read_kind(cursor, named) if code == "getelementptr" else None
    if kind is not None:
        cursor.expect(",")
    while not cursor.take(")"):
        operands.append(read_typed(cursor, named))
        if cursor.take("to"):
            kind = read_kind(cursor, named)
        cursor.take(",")
    assert kind is not None
    return Expression(code, kind, tuple(operands))
