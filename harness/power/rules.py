"""Rules by which one operation of a program becomes a wrong one.

Contract: a rule yields (detail, operations that take the place of the one given) and never the operation
itself, and the new operations define the same results. A rule that builds what no compiler could (other
types, a value from elsewhere) would be killed by the emulator's refusal and count for nothing, so operands
only come from the operation itself and from new constants.
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

    @classmethod
    def of(cls, program: Program) -> Seen:
        defined = {result: op for op in program.walk() for result in op.results}
        return cls(program.types, defined)

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
OPSELS = 4
"""Scale bytes of a register; the matrix instruction selects one for each operand."""
NEUTRAL = 0x7F7F7F7F
"""Four scale bytes of 2^0."""


def swapped(seen: Seen, op: Op) -> Iterator[Change]:
    """Operands of an operation that does not commute."""
    if op.code in ORDERED and op.operands[0] != op.operands[1]:
        yield "0 and 1", _changed(op, operands=op.operands[::-1])
    if op.code == "select":
        a, b, c = op.operands
        yield "arms", _changed(op, operands=(a, c, b))
    if op.code == "fma":
        a, b, c = op.operands
        yield "factor and summand", _changed(op, operands=(a, c, b))
    if op.code.startswith("mfma"):
        a, b, c, scale_a, scale_b = op.operands
        yield "matrices", _changed(op, operands=(b, a, c, scale_a, scale_b))
        yield "scales", _changed(op, operands=(a, b, c, scale_b, scale_a))


def dropped(seen: Seen, op: Op) -> Iterator[Change]:
    """One operand in the operation's place: a missing addition, ReLU, mask or conversion."""
    if op.code in OTHER and len(op.results) == 1:
        for place, operand in enumerate(op.operands):
            if seen.types[operand] == seen.types[op.results[0]] and op.operands.index(operand) == place:
                yield f"operand {place} alone", _alone(op, operand)
    if op.code == "fma":
        yield "summand alone", _alone(op, op.operands[2])
        yield "product alone", _changed(op, code="fmul", operands=op.operands[:2])


def other(seen: Seen, op: Op) -> Iterator[Change]:
    """A neighbouring operation."""
    for code in OTHER.get(op.code, ()):
        yield code, _changed(op, code=code)


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
            for wrong in _wrong(kind, value):
                yield f"operand {place}: {wrong} for {value}", _constant(op, place, kind, wrong)


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
                yield f"operand {place} {step:+d}", _added(op, place, kind, step)


def attributes(seen: Seen, op: Op) -> Iterator[Change]:
    """Another element, scale byte or static offset."""
    if op.code in ("extract", "insert"):
        vector = op.operands[0 if op.code == "extract" else 1]
        length = seen.types[vector].length or 1
        index = (op.attrs["index"] + 1) % length
        if length > 1:
            yield f"element {index}", _attribute(op, "index", index)
    for name in ("opsel_a", "opsel_b"):
        if name in op.attrs:
            chosen = (op.attrs[name] + 1) % OPSELS
            yield f"{name} {chosen}", _attribute(op, name, chosen)
    if op.code == "offset":
        yield f"static {op.attrs['static'] + 1}", _attribute(op, "static", op.attrs["static"] + 1)
    if op.code == "shuffle":
        turned = (*op.attrs["indices"][1:], op.attrs["indices"][0])
        if turned != op.attrs["indices"]:
            yield "indices turned", _attribute(op, "indices", turned)


def built(seen: Seen, op: Op) -> Iterator[Change]:
    """Elements of a vector exchanged."""
    if op.code == "build":
        for place in range(len(op.operands) - 1):
            yield f"elements {place} and {place + 1}", _exchange(op, place)


def predicates(seen: Seen, op: Op) -> Iterator[Change]:
    """A comparison negated, or with its border on the other side."""
    if op.code == "icmp":
        for told, table in (("negated", NEGATED), ("border", WEAKENED)):
            to = table[op.attrs["predicate"]]
            yield f"{told}: {to}", _attribute(op, "predicate", to)


def branches(seen: Seen, op: Op) -> Iterator[Change]:
    """A branch always taken, or never."""
    if op.code == "if":
        kind = seen.types[op.operands[0]]
        yield "always", _constant(op, 0, kind, True)
        if len(op.blocks) > 1 or not op.results:
            yield "never", _constant(op, 0, kind, False)


def zeroed(seen: Seen, op: Op) -> Iterator[Change]:
    """A matrix operand of zeros; a neutral scale; no accumulator."""
    if not op.code.startswith("mfma"):
        return
    for place, name in enumerate(("a", "b", "c", "scale a", "scale b")):
        kind = seen.types[op.operands[place]]
        value: Any = NEUTRAL if place > 2 else 0.0 if kind.kind == "float" else 0
        if seen.constant(op.operands[place]) is None:
            whole = (value,) * kind.length if kind.length else value
            yield f"{name} neutral", _constant(op, place, kind, whole)


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
                yield f"values {place} and {place + 1}", _exchange(op, place)


RULES: Mapping[str, Rule] = {
    "swapped operands": swapped,
    "dropped operation": dropped,
    "other operation": other,
    "repeated addition": repeated,
    "wrong constant": constants,
    "off by one": shifted,
    "wrong element": attributes,
    "exchanged elements": built,
    "wrong predicate": predicates,
    "wrong branch": branches,
    "neutral matrix operand": zeroed,
    "removed": removed,
    "exchanged carried values": carried,
}
"""Name to rule, in the order in which mutants are numbered."""


def _changed(op: Op, **changes: Any) -> Maker:
    return lambda fresh: [replace(op, **changes)]


def _attribute(op: Op, name: str, value: Any) -> Maker:
    return _changed(op, attrs={**op.attrs, name: value})


def _alone(op: Op, operand: int) -> Maker:
    return lambda fresh: [Op("bitcast", (operand,), op.results, {}, (), op.location)]


def _constant(op: Op, place: int, kind: Type, value: Any) -> Maker:
    return lambda fresh: _with(op, place, [fresh.constant(kind, value)])


def _added(op: Op, place: int, kind: Type, step: int) -> Maker:
    def made(fresh: Fresh) -> list[Op]:
        more = fresh.constant(kind, step)
        operands = (op.operands[place], more.results[0])
        return _with(op, place, [more, Op("iadd", operands, (fresh.value(kind),), {}, (), op.location)])

    return made


def _exchange(op: Op, place: int) -> Maker:
    one, two = op.operands[place : place + 2]
    return _changed(op, operands=(*op.operands[:place], two, one, *op.operands[place + 2 :]))


def _with(op: Op, place: int, before: list[Op]) -> list[Op]:
    """``before``, then ``op`` with their last result as operand ``place``."""
    operands = (*op.operands[:place], before[-1].results[0], *op.operands[place + 1 :])
    return [*before, replace(op, operands=operands)]


def _wrong(kind: Type, value: Any) -> Iterator[Any]:
    if kind.kind == "float":
        yield 1.0 if float(value) == 0.0 else 0.0
    elif kind.kind == "int" and kind.bits == 1:
        yield not value
    elif kind.kind == "int":
        top = 1 << (kind.bits - 1)
        yield from (wrong for wrong in (int(value) + 1, int(value) - 1) if -top <= wrong < top)
