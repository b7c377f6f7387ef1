"""Faults of what looks across the lanes of a wave: another lane, another half, other rows of a DPP move."""

from __future__ import annotations

from collections.abc import Iterator

from harness.emulator.program import Op
from harness.power.rules.making import Change, Seen, attribute

QUAD = 0xFF
"""Controls up to here permute each four lanes, two bits a lane."""
ROW_MOVES = (0x100, 0x110, 0x120)
"""Controls that move a row by their low four bits, 1 to 15."""
TURNED = {
    0x130: 0x138, 0x138: 0x130, 0x134: 0x13C, 0x13C: 0x134, 0x140: 0x141, 0x141: 0x140, 0x142: 0x143,
    0x143: 0x142,
}  # fmt: skip
"""Moves of the whole wave and their opposites; mirrors and broadcasts of other widths."""
LAST_LANE = 0x150


def lanes(seen: Seen, op: Op) -> Iterator[Change]:
    """A DPP move from another lane, with a row or a bank too few, or with the other rule at its edge."""
    if op.code == "dpp":
        control = _other(op.attrs["control"])
        yield f"control {control:#x}", attribute(op, "control", control)
        for name in ("rows", "banks"):
            fewer = op.attrs[name] & (op.attrs[name] - 1)
            yield f"{name} {fewer:#x}", attribute(op, name, fewer)
        yield "edge", attribute(op, "bound", not op.attrs["bound"])
    if op.code == "lanes_below":
        yield "other half", attribute(op, "half", 1 - op.attrs["half"])


def _other(control: int) -> int:
    if control <= QUAD:
        return (control >> 2 | control << 6) & QUAD  # each lane takes the next one's source
    if control & 0x1F0 in ROW_MOVES:
        step = control & 0xF
        return control - 1 if step > 1 else control + 1
    return TURNED.get(control, LAST_LANE | (control + 1) & 0xF)
