"""Faults of compiled code: jumps, what they hand on, barriers and atomics, comparisons, coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.emulator.program import Op
from harness.power.rules.arithmetic import NEGATED, WEAKENED
from harness.power.rules.making import Change, Maker, Seen, alone, attribute, changed, constant, exchange

FLOAT_NEGATED = {
    "oeq": "une", "une": "oeq", "one": "ueq", "ueq": "one", "ogt": "ule", "ule": "ogt", "oge": "ult",
    "ult": "oge", "olt": "uge", "uge": "olt", "ole": "ugt", "ugt": "ole", "ord": "uno", "uno": "ord",
}  # fmt: skip
FLOAT_WEAKENED = {
    "oeq": "ole", "une": "ult", "one": "olt", "ueq": "ule", "ogt": "oge", "oge": "ogt", "olt": "ole",
    "ole": "olt", "ugt": "uge", "uge": "ugt", "ult": "ule", "ule": "ult",
}  # fmt: skip
NEIGHBOURS: Mapping[str, tuple[str, ...]] = {
    "ceil": ("floor",), "floor": ("ceil",), "round_to_even": ("floor",), "round_to_zero": ("floor",),
    "rsq_near": ("rcp_near",), "sqrt_near": ("rsq_near",), "exp2_near": ("log2_near",),
    "log2_near": ("exp2_near",), "usub_saturate": ("isub",), "uadd_saturate": ("iadd",),
    "int_to_float": ("uint_to_float",), "uint_to_float": ("int_to_float",),
    "fdiv": ("fmul",), "fdiv_near": ("fmul",),
    "float_to_int": ("float_to_uint",), "float_to_uint": ("float_to_int",),
    "trailing_zeros": ("leading_zeros",), "leading_zeros": ("trailing_zeros",),
}  # fmt: skip
ATOMICS = {
    "add": "sub", "sub": "add", "and": "or", "or": "and", "xor": "or", "max": "min", "min": "max",
    "umax": "umin", "umin": "umax", "fadd": "fmax", "fmax": "fmin", "fmin": "fmax", "xchg": "add",
}  # fmt: skip
DROPPED = {
    *("fneg", "fabs", "fmedian", "ceil", "floor", "round_to_even", "round_to_zero", "copysign"),
    *("fdiv", "fdiv_near"),
}
AXES = 3


def targets(seen: Seen, op: Op) -> Iterator[Change]:
    """A jump to the other place, always to the first or to the second; a case of a switch one off."""
    if op.code != "go" or not op.attrs["chosen"]:
        return
    kind = seen.types[op.operands[0]]
    if op.attrs["cases"] is None:
        yield "exchanged", _turned(op)
        yield "always the first", constant(op, 0, kind, True)
        yield "always the second", constant(op, 0, kind, False)
        return
    for place, case in enumerate(op.attrs["cases"]):
        if case + 1 not in op.attrs["cases"]:
            cases = (*op.attrs["cases"][:place], case + 1, *op.attrs["cases"][place + 1 :])
            yield f"case {case + 1} for {case}", attribute(op, "cases", cases)


def _turned(op: Op) -> Maker:
    first, second = op.attrs["given"]
    operands = (*op.operands[: op.attrs["chosen"]], *second, *first)
    attrs = {**op.attrs, "targets": op.attrs["targets"][::-1], "given": (second, first)}
    return changed(op, operands=operands, attrs=attrs)


def handed(seen: Seen, op: Op) -> Iterator[Change]:
    """Two values of one type exchanged on the way into a block."""
    if op.code != "go":
        return
    at = op.attrs["chosen"]
    for number, given in enumerate(op.attrs["given"]):
        for place in range(len(given) - 1):
            one, two = given[place : place + 2]
            if one != two and seen.types[one] == seen.types[two]:
                yield f"target {number}, values {place} and {place + 1}", exchange(op, at + place)
        at += len(given)


def left_out(seen: Seen, op: Op) -> Iterator[Change]:
    """A barrier that nobody waits at; an atomic access that only reads."""
    if op.code == "wait":
        on = {"targets": op.attrs["targets"], "given": ((),), "cases": None, "chosen": 0}
        yield "barrier", lambda fresh: [replace(op, code="go", attrs=on)]
    if op.code == "atomic":
        yield "atomic write", changed(op, code="load", operands=op.operands[:1], attrs={})


def comparisons(seen: Seen, op: Op) -> Iterator[Change]:
    """A comparison of floats or addresses negated, or with its border on the other side."""
    tables = {"fcmp": (FLOAT_NEGATED, FLOAT_WEAKENED), "pcmp": (NEGATED, WEAKENED)}.get(op.code, ())
    for told, table in zip(("negated", "border"), tables, strict=False):
        to = table.get(op.attrs["predicate"])
        if to is not None:
            yield f"{told}: {to}", attribute(op, "predicate", to)


def neighbours(seen: Seen, op: Op) -> Iterator[Change]:
    """A neighbouring operation, another atomic one, or none; the other of two addresses."""
    for code in NEIGHBOURS.get(op.code, ()):
        yield code, changed(op, code=code)
    if op.code == "atomic":
        other = ATOMICS[op.attrs["operation"]]
        yield other, attribute(op, "operation", other)
    if op.code in DROPPED:
        yield "none", alone(op, op.operands[0])
    if op.code == "choose":
        a, b, c = op.operands
        yield "arms", changed(op, operands=(a, c, b))


def coordinates(seen: Seen, op: Op) -> Iterator[Change]:
    """The index along another axis."""
    if op.code in ("thread_id", "block_id", "block_dim", "grid_dim"):
        axis = (op.attrs["axis"] + 1) % AXES
        yield f"axis {axis}", attribute(op, "axis", axis)
