"""Faults of arithmetic: other operands, other operations, other constants, another side of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.emulator.program import Op
from harness.power.rules.making import Change, Fresh, Seen, added, alone, attribute, changed, constant, wrong

OTHER: Mapping[str, tuple[str, ...]] = {
    "iadd": ("isub",), "isub": ("iadd",), "imul": ("iadd",),
    "idiv_floor": ("idiv_ceil", "irem"), "idiv_ceil": ("idiv_floor",), "idiv_trunc": ("idiv_ceil",),
    "irem": ("idiv_floor",), "udiv": ("urem",), "urem": ("udiv",),
    "and": ("or",), "or": ("and",), "xor": ("or",),
    "shl": ("shr_unsigned",), "shr_signed": ("shr_unsigned", "shl"), "shr_unsigned": ("shr_signed", "shl"),
    "imin_signed": ("imax_signed",), "imax_signed": ("imin_signed",),
    "imin_unsigned": ("imax_unsigned",), "imax_unsigned": ("imin_unsigned",),
    "sign_extend": ("zero_extend",), "zero_extend": ("sign_extend",),
    "fadd": ("fsub",), "fsub": ("fadd",), "fmul": ("fadd",), "fmaximum": ("fminimum",),
    "fminimum": ("fmaximum",), "fmaxnum": ("fminnum",), "fminnum": ("fmaxnum",),
}  # fmt: skip
ORDERED = {
    *("isub", "fsub", "idiv_floor", "idiv_ceil", "idiv_trunc", "irem", "udiv", "urem", "fdiv"),
    *("shl", "shr_signed", "shr_unsigned"),
}
NEGATED = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sle": "sgt", "sgt": "sle", "ult": "uge",
    "uge": "ult", "ule": "ugt", "ugt": "ule",
}  # fmt: skip
WEAKENED = {
    "eq": "sle", "ne": "slt", "slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt", "ult": "ule",
    "ule": "ult", "ugt": "uge", "uge": "ugt",
}  # fmt: skip


def swapped(seen: Seen, op: Op) -> Iterator[Change]:
    """Operands of an operation that does not commute."""
    if op.code in ORDERED and op.operands[0] != op.operands[1]:
        yield "0 and 1", changed(op, operands=op.operands[::-1])
    if op.code == "select":
        a, b, c = op.operands
        yield "arms", changed(op, operands=(a, c, b))
    if op.code == "fma":
        a, b, c = op.operands
        yield "factor and summand", changed(op, operands=(a, c, b))
    if op.code.startswith("mfma"):
        a, b, c, scale_a, scale_b = op.operands
        yield "matrices", changed(op, operands=(b, a, c, scale_a, scale_b))
        yield "scales", changed(op, operands=(a, b, c, scale_b, scale_a))


def dropped(seen: Seen, op: Op) -> Iterator[Change]:
    """One operand in the operation's place: a missing addition, ReLU, mask or conversion."""
    if op.code in OTHER and len(op.results) == 1:
        for place, operand in enumerate(op.operands):
            if seen.types[operand] == seen.types[op.results[0]] and op.operands.index(operand) == place:
                yield f"operand {place} alone", alone(op, operand)
    if op.code == "fma":
        yield "summand alone", alone(op, op.operands[2])
        yield "product alone", changed(op, code="fmul", operands=op.operands[:2])


def other(seen: Seen, op: Op) -> Iterator[Change]:
    """A neighbouring operation."""
    for code in OTHER.get(op.code, ()):
        yield code, changed(op, code=code)


def repeated(seen: Seen, op: Op) -> Iterator[Change]:
    """An addition done twice."""
    if op.code in ("fadd", "fma"):

        def twice(fresh: Fresh) -> list[Op]:
            half = fresh.value(seen.types[op.results[0]])
            again = (half, op.operands[1]) if op.code == "fadd" else (*op.operands[:2], half)
            return [replace(op, results=(half,)), replace(op, operands=again)]

        yield "twice", twice


def constants(seen: Seen, op: Op) -> Iterator[Change]:
    """A constant operand one more or less; a bool turned round; 0.0 for 1.0. One use at a time."""
    for place, operand in enumerate(op.operands):
        value, kind = seen.constant(operand), seen.types[operand]
        if value is not None and not isinstance(value, tuple) and kind.length is None:
            for near in wrong(kind, value):
                yield f"operand {place}: {near} for {value}", constant(op, place, kind, near)


SHIFTS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "icmp": ((0, 1), (0, -1)), "for": ((0, 1), (1, -1), (1, 1)), "permute_lanes": ((0, 4),),
    "buffer_load": ((1, 1), (1, 4)), "buffer_store": ((2, 1), (2, 4)), "irem": ((0, 1),),
    "idiv_floor": ((0, 1),), "offset": ((1, 1), (1, -1)), "read_lane": ((1, 1),),
}  # fmt: skip
"""Opcode to (operand, step): byte offsets and lane numbers times 4 among them."""


def shifted(seen: Seen, op: Op) -> Iterator[Change]:
    """An operand that is no constant one off: a bound, an index, an address, a lane."""
    for place, step in SHIFTS.get(op.code, ()):
        if place < len(op.operands) and seen.constant(op.operands[place]) is None:
            kind = seen.types[op.operands[place]]
            if kind.kind == "int" and kind.length is None:
                yield f"operand {place} {step:+d}", added(op, place, kind, step)


def predicates(seen: Seen, op: Op) -> Iterator[Change]:
    """A comparison negated, or with its border on the other side."""
    if op.code == "icmp":
        for told, table in (("negated", NEGATED), ("border", WEAKENED)):
            to = table[op.attrs["predicate"]]
            yield f"{told}: {to}", attribute(op, "predicate", to)
