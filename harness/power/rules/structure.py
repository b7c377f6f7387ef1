"""Faults of elements, matrix operands, stores and structured control flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.emulator.program import Op
from harness.power.rules.making import Change, Seen, attribute, constant, exchange

OPSELS = 4
"""Scale bytes of a register; the matrix instruction selects one for each operand."""
NEUTRAL = 0x7F7F7F7F
"""Four scale bytes of 2^0."""


def attributes(seen: Seen, op: Op) -> Iterator[Change]:
    """Another element, scale byte or static offset."""
    if op.code in ("extract", "insert"):
        vector = op.operands[0 if op.code == "extract" else 1]
        length = seen.types[vector].length or 1
        index = (op.attrs["index"] + 1) % length
        if length > 1:
            yield f"element {index}", attribute(op, "index", index)
    for name in ("opsel_a", "opsel_b"):
        if name in op.attrs:
            chosen = (op.attrs[name] + 1) % OPSELS
            yield f"{name} {chosen}", attribute(op, name, chosen)
    if op.code == "offset":
        yield f"static {op.attrs['static'] + 1}", attribute(op, "static", op.attrs["static"] + 1)
    if op.code == "shuffle":
        turned = (*op.attrs["indices"][1:], op.attrs["indices"][0])
        if turned != op.attrs["indices"]:
            yield "indices turned", attribute(op, "indices", turned)


def built(seen: Seen, op: Op) -> Iterator[Change]:
    """Elements of a vector exchanged."""
    if op.code == "build":
        for place in range(len(op.operands) - 1):
            yield f"elements {place} and {place + 1}", exchange(op, place)


def branches(seen: Seen, op: Op) -> Iterator[Change]:
    """A branch always taken, or never."""
    if op.code == "if":
        kind = seen.types[op.operands[0]]
        yield "always", constant(op, 0, kind, True)
        if len(op.blocks) > 1 or not op.results:
            yield "never", constant(op, 0, kind, False)


def zeroed(seen: Seen, op: Op) -> Iterator[Change]:
    """A matrix operand of zeros; a neutral scale; no accumulator."""
    if not op.code.startswith("mfma"):
        return
    for place, name in enumerate(("a", "b", "c", "scale a", "scale b")):
        kind = seen.types[op.operands[place]]
        value: Any = NEUTRAL if place > 2 else 0.0 if kind.kind == "float" else 0
        if seen.constant(op.operands[place]) is None:
            whole = (value,) * kind.length if kind.length else value
            yield f"{name} neutral", constant(op, place, kind, whole)


def removed(seen: Seen, op: Op) -> Iterator[Change]:
    """A store or a barrier that is not there."""
    if op.code in ("store", "buffer_store", "barrier"):
        yield "gone", lambda fresh: []


def carried(seen: Seen, op: Op) -> Iterator[Change]:
    """Two values of one type exchanged on the way out of a block: a loop that hands on the wrong one."""
    if op.code == "yield":
        for place in range(len(op.operands) - 1):
            one, two = op.operands[place : place + 2]
            if one != two and seen.types[one] == seen.types[two]:
                yield f"values {place} and {place + 1}", exchange(op, place)
