"""Inline assembly: the few instructions that kernels of this kind write by hand.

Each statement becomes an operation on the registers it names; an instruction that is not in the table is
refused with its text. Results that an instruction leaves in part as they were take the rest from what the
register held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.emulator.llvm import eight_bits
from harness.emulator.llvm.instructions import Instruction
from harness.emulator.llvm.kinds import Kind
from harness.emulator.llvm.values import UNDEFINED, Typed

if TYPE_CHECKING:
    from harness.emulator.llvm.translate import Builder

HINTS = re.compile(r"(s_nop|s_waitcnt|s_setprio|s_sleep)\b")

Write = Callable[["Builder", Kind, Sequence[int]], int]
"""Given the kind of the target register and the numbers of target (what it held) and sources: the result."""


def _same(code: str) -> Write:
    return lambda builder, kind, numbers: builder.emit(code, numbers[1:], kind)


def _max3(builder: Builder, kind: Kind, numbers: Sequence[int]) -> int:
    first = builder.emit("fmaxnum", numbers[1:3], kind)
    return builder.emit("fmaxnum", (first, numbers[3]), kind)


def _codes(name: str) -> Write:
    def write(builder: Builder, kind: Kind, numbers: Sequence[int]) -> int:
        operands = (numbers[1], numbers[2], numbers[0])
        kept = eight_bits.format_of(builder, name)
        return builder.emit("cvt_pk_fp8", operands, kind, select=0, format=kept)

    return write


INSTRUCTIONS: dict[str, Write] = {
    "v_max3_f32": _max3,
    "v_med3_f32": _same("fmedian"),
    "v_pk_mul_f32": _same("fmul"),
    "v_pk_add_f32": _same("fadd"),
    "v_cvt_pk_fp8_f32": _codes("fp8"),
    "v_cvt_pk_bf8_f32": _codes("bf8"),
}


def make(builder: Builder, one: Instruction) -> int | None:
    """The operations of an inline assembly call. Raises `UnsupportedOperation`."""
    statements = [part.strip() for part in re.split(r"\\0A|\n|;", one.attrs["assembly"]) if part.strip()]
    statements = [" ".join(part.split()) for part in statements if not HINTS.match(part)]
    if not statements:
        return None
    constraints = one.attrs["constraints"].split(",")
    outputs = [text for text in constraints if text.startswith("=")]
    kinds = one.kind.parts if one.kind.name == "struct" else (one.kind,)
    if len(outputs) != len(kinds):
        raise builder.refuse(f"inline assembly with the constraints {one.attrs['constraints']}")
    registers = [builder.number(Typed(kind, UNDEFINED)) for kind in kinds]
    for text, operand in zip(constraints[len(outputs) :], one.operands, strict=False):
        if text.isdigit():
            registers[int(text)] = builder.number(operand)
            registers.append(registers[int(text)])
        elif text.startswith("~"):
            continue
        else:
            registers.append(builder.number(operand))
    for statement in statements:
        _statement(builder, statement, registers, kinds)
    if one.kind.name != "struct":
        return registers[0]
    return builder.emit("members", registers[: len(kinds)], one.kind)


def _statement(builder: Builder, text: str, registers: list[int], kinds: Sequence[Kind]) -> None:
    match = re.fullmatch(r"(\w+) (\$\d+(?:, ?\$\d+)*)", text)
    write = INSTRUCTIONS.get(match[1]) if match else None
    if match is None or write is None:
        raise builder.refuse(f"inline assembly {text!r}")
    places = [int(place) for place in re.findall(r"\$(\d+)", match[2])]
    if places[0] >= len(kinds):
        raise builder.refuse(f"inline assembly {text!r}, which writes to an input")
    registers[places[0]] = write(builder, kinds[places[0]], [registers[place] for place in places])
