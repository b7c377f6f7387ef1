"""Faults of conversions to eight and four bits, and operands that are nought."""

from __future__ import annotations

from collections.abc import Iterator

from harness.emulator.program import Op
from harness.power.rules.making import Change, Seen, attribute, changed, constant

PARTS = {"cvt_pk_fp8": 2, "cvt_f32_fp8": 4, "cvt_scale_pk_fp4": 4}
"""Parts of a dword that attr select names."""
FORMATS = {"fp8": "bf8", "bf8": "fp8"}
LOW = {"cvt_pk_fp8": 0, "cvt_scale_pk_fp4": 1}
"""Operand that is the first of the two values which are packed."""
SCALE = 3
ZEROED = ("fadd", "fsub", "fmul", "fma", "fdiv", "cvt_pk_fp8", "cvt_scale_pk_fp4", "atomic", "store")


def halves(seen: Seen, op: Op) -> Iterator[Change]:
    """Another part of the dword, the other format, the two values exchanged."""
    if op.code not in PARTS:
        return
    part = (int(op.attrs["select"]) + 1) % PARTS[op.code]
    yield f"part {part}", attribute(op, "select", type(op.attrs["select"])(part))
    if op.attrs.get("format") in FORMATS:
        other = FORMATS[op.attrs["format"]]
        yield f"format {other}", attribute(op, "format", other)
    if op.code in LOW:
        at = LOW[op.code]
        low, high = op.operands[at : at + 2]
        if low != high:
            yield (
                "values exchanged",
                changed(op, operands=(*op.operands[:at], high, low, *op.operands[at + 2 :])),
            )


def scales(seen: Seen, op: Op) -> Iterator[Change]:
    """A scale of one."""
    if op.code == "cvt_scale_pk_fp4":
        kind = seen.types[op.operands[SCALE]]
        yield "scale 1", constant(op, SCALE, kind, 1.0)


def zeroed(seen: Seen, op: Op) -> Iterator[Change]:
    """A value of zero where one is computed."""
    if op.code not in ZEROED:
        return
    for place, operand in enumerate(op.operands):
        kind = seen.types[operand]
        if kind.kind in ("int", "float") and kind.length is None and seen.constant(operand) is None:
            zero = 0.0 if kind.kind == "float" else kind.bits > 1 and 0
            yield f"operand {place} zero", constant(op, place, kind, zero)
