"""Instructions of LLVM IR but calls, as operations of the emulator."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from harness.emulator.llvm.instructions import Instruction
from harness.emulator.llvm.kinds import Kind
from harness.emulator.llvm.values import Ref

if TYPE_CHECKING:
    from harness.emulator.llvm.translate import Builder

Make = Callable[["Builder", Instruction], int | None]

SAME = {
    "add": "iadd",
    "sub": "isub",
    "mul": "imul",
    "udiv": "udiv",
    "sdiv": "idiv_trunc",
    "urem": "urem",
    "srem": "irem",
    "shl": "shl",
    "lshr": "shr_unsigned",
    "ashr": "shr_signed",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "fadd": "fadd",
    "fsub": "fsub",
    "fmul": "fmul",
    "fneg": "fneg",
    "select": "select",
}
"""Instructions that are one operation with the same operands."""

CASTS = {
    "trunc": "truncate",
    "zext": "zero_extend",
    "sext": "sign_extend",
    "fptrunc": "fround",
    "fpext": "fextend",
    "fptosi": "float_to_int",
    "fptoui": "float_to_uint",
    "sitofp": "int_to_float",
    "uitofp": "uint_to_float",
}


def float_bytes(value: float, kind: Kind) -> bytes:
    """``value`` in the format of ``kind``, little end first."""
    if kind.format == "bfloat":
        return torch.tensor(value, dtype=torch.bfloat16).view(torch.int16).numpy().tobytes()
    return struct.pack({"half": "<e", "float": "<f", "double": "<d"}[kind.format], value)


def _same(builder: Builder, one: Instruction) -> int:
    operands = [builder.number(operand) for operand in one.operands]
    attrs = {"contract": True} if "contract" in one.flags else {}
    code = SAME[one.code]
    if one.code == "select" and one.kind.name in ("pointer", "struct"):
        code = "choose"
    return builder.emit(code, operands, one.kind, **attrs)


def _divide(builder: Builder, one: Instruction) -> int:
    """Rounded once, or within the units that ``!fpmath`` allows."""
    operands = [builder.number(operand) for operand in one.operands]
    attrs = {"ulp": one.attrs["ulp"]} if "ulp" in one.attrs else {}
    return builder.emit("fdiv_near" if attrs else "fdiv", operands, one.kind, **attrs)


def _cast(builder: Builder, one: Instruction) -> int:
    return builder.emit(CASTS[one.code], [builder.number(one.operands[0])], one.kind)


def _bitcast(builder: Builder, one: Instruction) -> int:
    number = builder.number(one.operands[0])
    if one.kind.name == "pointer" or one.operands[0].kind == one.kind:
        return number
    return builder.emit("bitcast", [number], one.kind)


def _keep(builder: Builder, one: Instruction) -> int:
    """``freeze``, and casts between address spaces: a pointer names its allocation anyway."""
    return builder.number(one.operands[0])


def _compare(builder: Builder, one: Instruction) -> int:
    operands = [builder.number(operand) for operand in one.operands]
    code = "fcmp" if one.code == "fcmp" else "icmp"
    if one.operands[0].kind.name == "pointer":
        code = "pcmp"
    return builder.emit(code, operands, one.kind, predicate=one.attrs["predicate"])


def _load(builder: Builder, one: Instruction) -> int:
    return builder.emit("load", [builder.number(one.operands[0])], one.kind)


def _store(builder: Builder, one: Instruction) -> None:
    builder.effect("store", [builder.number(operand) for operand in one.operands])


def _address(builder: Builder, one: Instruction) -> int:
    return builder.address(builder.number(one.operands[0]), one.attrs["source"], one.operands[1:])


def _extract(builder: Builder, one: Instruction) -> int:
    vector, index = one.operands
    if isinstance(index.value, Ref):
        return builder.emit("extract_at", [builder.number(vector), builder.number(index)], one.kind)
    return builder.emit("extract", [builder.number(vector)], one.kind, index=int(index.value))


def _insert(builder: Builder, one: Instruction) -> int:
    vector, element, index = one.operands
    numbers = [builder.number(element), builder.number(vector)]
    if isinstance(index.value, Ref):
        return builder.emit("insert_at", [*numbers, builder.number(index)], one.kind)
    return builder.emit("insert", numbers, one.kind, index=int(index.value))


def _shuffle(builder: Builder, one: Instruction) -> int:
    left, right, places = one.operands
    chosen = places.value
    if not isinstance(chosen, tuple):
        raise builder.refuse("shufflevector without constant places")
    indices = tuple(part.value if isinstance(part.value, int) else 0 for part in chosen)
    return builder.emit("shuffle", [builder.number(left), builder.number(right)], one.kind, indices=indices)


def _member(builder: Builder, one: Instruction) -> int:
    numbers = [builder.number(operand) for operand in one.operands]
    code = "field" if one.code == "extractvalue" else "with_field"
    return builder.emit(code, numbers, one.kind, path=one.attrs["indices"])


def _number(builder: Builder, one: Instruction) -> int:
    return builder.emit("address", [builder.number(one.operands[0])], one.kind)


def _alloca(builder: Builder, one: Instruction) -> int:
    size = one.attrs["source"].size * one.attrs["count"]
    return builder.emit("private_base", (), one.kind, name=one.result[1:], bytes=size)


def _atomic(builder: Builder, one: Instruction) -> int:
    operands = [builder.number(operand) for operand in one.operands]
    if one.code == "cmpxchg":
        raise builder.refuse("cmpxchg")
    return builder.emit("atomic", operands, one.kind, operation=one.attrs["operation"])


def _nothing(builder: Builder, one: Instruction) -> None:
    """A fence: the lanes of a slab see each other's stores at once."""


MAKE: dict[str, Make] = {
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(("icmp", "fcmp"), _compare),
    **dict.fromkeys(("freeze", "addrspacecast"), _keep),
    **dict.fromkeys(("extractvalue", "insertvalue"), _member),
    **dict.fromkeys(("atomicrmw", "cmpxchg"), _atomic),
    "fdiv": _divide,
    "bitcast": _bitcast,
    "ptrtoint": _number,
    "load": _load,
    "store": _store,
    "getelementptr": _address,
    "extractelement": _extract,
    "insertelement": _insert,
    "shufflevector": _shuffle,
    "alloca": _alloca,
    "fence": _nothing,
}
