"""Types and attributes of FlyDSL's MLIR, read into the emulator's own.

Read from their printed form where the bindings have no class for them (LLVM pointers and
structs). A type that does not parse raises `UnsupportedOperation`, never a default.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from flydsl._mlir import ir

from harness.emulator.program import Type, UnsupportedOperation

INDEX_BITS = 64
_POINTER = re.compile(r"(?:!llvm\.)?ptr(?:<(\d+)>)?$")
_VECTOR = re.compile(r"vector<(\d+)x(.+)>$")
_STRUCT = re.compile(r"(?:!llvm\.)?struct<packed \((.*)\)>$")
_FLOATS = {"f32": 32, "f16": 16, "bf16": 16, "f64": 64}
RESOURCE_SPACE = "8"


@functools.cache
def parse_type(text: str) -> Type:
    """The emulator's type for a printed MLIR type. Raises `UnsupportedOperation`."""
    text = text.strip()
    if text == "!gpu.async.token":
        return Type("struct", 0)
    if text == "index":
        return Type("int", INDEX_BITS)
    if re.fullmatch(r"i\d+", text):
        return Type("int", int(text[1:]))
    if text in _FLOATS:
        return Type("float", _FLOATS[text], name=text)
    if match := _VECTOR.match(text):
        element = parse_type(match.group(2))
        if element.length is not None or element.kind not in ("int", "float"):
            raise UnsupportedOperation(f"type {text}")
        return Type(element.kind, element.bits, int(match.group(1)), element.name)
    if match := _POINTER.match(text):
        space = match.group(1) or "0"
        return Type("resource" if space == RESOURCE_SPACE else "pointer", 64, name=space)
    if match := _STRUCT.match(text):
        return Type("struct", 0, fields=tuple(parse_type(part) for part in _split(match.group(1))))
    raise UnsupportedOperation(f"type {text}")


def _split(text: str) -> list[str]:
    """Top-level comma-separated parts of ``text`` (commas inside <> or () do not separate)."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def struct_leaves(struct: Type) -> list[tuple[tuple[int, ...], Type]]:
    """Every leaf of a packed struct in memory order, with its path."""
    leaves: list[tuple[tuple[int, ...], Type]] = []
    for position, part in enumerate(struct.fields):
        if part.kind == "struct":
            leaves += [((position, *path), leaf) for path, leaf in struct_leaves(part)]
        else:
            leaves.append(((position,), part))
    return leaves


def constant(attribute: ir.Attribute) -> Any:
    """Python value of a constant attribute: int, float, bool, or a tuple for a vector."""
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr)):
        return attribute.value
    if isinstance(attribute, (ir.DenseFPElementsAttr, ir.DenseIntElementsAttr)):
        if attribute.is_splat:  # the bindings cannot list 16-bit floats
            return (attribute.get_splat_value().value,) * len(attribute)
        try:
            return tuple(attribute)
        except TypeError:
            raise UnsupportedOperation(f"constant attribute {attribute}") from None
    raise UnsupportedOperation(f"constant attribute {attribute}")


def integers(attribute: ir.Attribute) -> tuple[int, ...]:
    """A dense array attribute of integers, as a tuple."""
    return tuple(int(number) for number in re.findall(r"-?\d+", str(attribute).partition(":")[2]))
