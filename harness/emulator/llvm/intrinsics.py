"""Calls of LLVM IR: intrinsics of the target and of the language, each one operation or none.

A call of anything else is refused by name. Scheduling hints and promises have no meaning for values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.emulator.llvm import assembly, eight_bits
from harness.emulator.llvm.instructions import Instruction
from harness.emulator.llvm.kinds import Kind

if TYPE_CHECKING:
    from harness.emulator.llvm.translate import Builder

NOTHING = re.compile(
    r"llvm\.(amdgcn\.(wave\.barrier|sched\.\w+(\.\w+)*|s\.(waitcnt|setprio|sleep|nop)|iglp\.opt)"
    r"|lifetime\.(start|end)|assume|experimental\.noalias\.scope\.decl|dbg\.\w+|prefetch)"
)
"""Hints and promises: no operation."""

AXES = {"x": 0, "y": 1, "z": 2}

SAME = {
    "fma": "fma",
    "maxnum": "fmaxnum",
    "minnum": "fminnum",
    "maximum": "fmaximum",
    "minimum": "fminimum",
    "maximumnum": "fmaxnum",
    "minimumnum": "fminnum",
    "fabs": "fabs",
    "smax": "imax_signed",
    "smin": "imin_signed",
    "umax": "imax_unsigned",
    "umin": "imin_unsigned",
    "ctpop": "count_ones",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "round_to_zero",
    "rint": "round_to_even",
    "nearbyint": "round_to_even",
    "roundeven": "round_to_even",
    "bswap": "swap_bytes",
    "usub.sat": "usub_saturate",
    "uadd.sat": "uadd_saturate",
    "bitreverse": "reverse_bits",
    "fshl": "funnel_left",
    "fshr": "funnel_right",
    "copysign": "copysign",
}
"""Intrinsics ``llvm.NAME.TYPE`` of the language that are one operation with the same operands."""

NEAR = {"sqrt": "sqrt_near", "exp2": "exp2_near", "log2": "log2_near"}
"""Functions the target has an approximation of: the result is one of a small set."""

TARGET = {
    "readfirstlane": "broadcast_first",
    "readlane": "read_lane",
    "ds.bpermute": "permute_lanes",
    "rsq": "rsq_near",
    "rcp": "rcp_near",
    "exp2": "exp2_near",
    "log": "log2_near",
    "sqrt": "sqrt_near",
    "ballot": "ballot",
    "perm": "permute_bytes",
    "fmed3": "fmedian",
}
"""Intrinsics ``llvm.amdgcn.NAME`` that are one operation with the same operands."""


def make(builder: Builder, one: Instruction) -> int | None:
    """The operations of a call. Raises `UnsupportedOperation`."""
    callee = one.attrs["callee"]
    if callee == "asm":
        return assembly.make(builder, one)
    if NOTHING.match(callee):
        return None
    numbers = [builder.number(operand) for operand in one.operands if operand.kind.name != "metadata"]
    if callee.startswith("llvm.amdgcn."):
        return _target(builder, one, callee.removeprefix("llvm.amdgcn."), numbers)
    if callee.startswith("llvm."):
        return _language(builder, one, callee.removeprefix("llvm."), numbers)
    raise builder.refuse(f"call of {callee}")


def _language(builder: Builder, one: Instruction, name: str, numbers: list[int]) -> int | None:
    stem = name.split(".")[0]
    if name.split(".")[1:2] == ["sat"]:
        stem += ".sat"
    if stem in SAME:
        return builder.emit(SAME[stem], numbers, one.kind)
    if stem in NEAR:
        return builder.emit(NEAR[stem], numbers, one.kind)
    if stem == "fmuladd":
        product = builder.emit("fmul", numbers[:2], one.kind, contract=True)
        return builder.emit("fadd", (product, numbers[2]), one.kind, contract=True)
    if stem in ("ctlz", "cttz"):
        return builder.emit("leading_zeros" if stem == "ctlz" else "trailing_zeros", numbers[:1], one.kind)
    if stem == "is" and name.startswith("is.fpclass"):
        return builder.emit("fclass", numbers[:1], one.kind, classes=int(one.operands[1].value))
    if stem in ("memcpy", "memset", "memmove"):
        _memory(builder, one, stem, numbers)
        return None
    raise builder.refuse(f"intrinsic llvm.{name}")


def _memory(builder: Builder, one: Instruction, stem: str, numbers: list[int]) -> None:
    size = one.operands[2].value
    if not isinstance(size, int) or size > 256:
        raise builder.refuse(f"{stem} of {size if isinstance(size, int) else 'a computed number of'} bytes")
    for at in range(size):
        target = builder.emit("offset", numbers[:1], one.operands[0].kind, scale=1, static=at)
        value = numbers[1]
        if stem != "memset":
            source = builder.emit("offset", numbers[1:2], one.operands[1].kind, scale=1, static=at)
            value = builder.emit("load", (source,), Kind("int", 8))
        builder.effect("store", (value, target))


def _target(builder: Builder, one: Instruction, name: str, numbers: list[int]) -> int | None:
    parts = name.split(".")
    if parts[0] == "workitem" and parts[1] == "id":
        return builder.emit("thread_id", (), one.kind, axis=AXES[parts[2]])
    if parts[0] == "workgroup" and parts[1] == "id":
        return builder.emit("block_id", (), one.kind, axis=AXES[parts[2]])
    if parts[0] == "mbcnt":
        return builder.emit("lanes_below", numbers, one.kind, half=0 if parts[1] == "lo" else 1)
    if name.startswith("update.dpp"):
        places = [int(operand.value) for operand in one.operands[2:6]]
        names = ("control", "rows", "banks", "bound")
        return builder.emit("dpp", numbers[:2], one.kind, **dict(zip(names, places, strict=True)))
    if name.startswith("make.buffer.rsrc"):
        return builder.emit("resource", numbers, one.kind)
    if name.startswith("raw.ptr.buffer.load"):
        return builder.emit("buffer_load", numbers[:3], one.kind)
    if name.startswith("raw.ptr.buffer.store"):
        builder.effect("buffer_store", numbers[:4])
        return None
    if name in ("implicitarg.ptr", "dispatch.ptr", "kernarg.segment.ptr"):
        return builder.emit("launch_facts", (), one.kind, of=parts[0])
    if parts[0] == "cvt":
        return _convert(builder, one, name, numbers)
    for known, code in TARGET.items():
        if name == known or name.startswith(known + "."):
            return builder.emit(code, numbers, one.kind)
    raise builder.refuse(f"intrinsic llvm.amdgcn.{name}")


def _convert(builder: Builder, one: Instruction, name: str, numbers: list[int]) -> int:
    if name == "cvt.scalef32.pk.fp4.f32":
        return builder.emit("cvt_scale_pk_fp4", numbers[:4], one.kind, select=int(one.operands[4].value))
    if name in ("cvt.pk.fp8.f32", "cvt.pk.bf8.f32"):
        select, kept = int(bool(one.operands[3].value)), eight_bits.format_of(builder, name.split(".")[2])
        return builder.emit("cvt_pk_fp8", numbers[:3], one.kind, select=select, format=kept)
    if name in ("cvt.f32.fp8", "cvt.f32.bf8"):
        select, kept = int(one.operands[1].value), eight_bits.format_of(builder, name.split(".")[2])
        return builder.emit("cvt_f32_fp8", numbers[:1], one.kind, select=select, format=kept)
    raise builder.refuse(f"intrinsic llvm.amdgcn.{name}")
