"""Opcodes that make pointers, compare them, and take structs apart and together."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.emulator.allocation import Allocation, Pointer, null
from harness.emulator.lanes import WAVE, lane_shape, tensor
from harness.emulator.program import Op, UnsupportedOperation
from harness.emulator.slab import Slab


def _null(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = null("null")


def _constant_base(slab: Slab, op: Op) -> None:
    held = op.attrs.get("held")
    if held is None or held.device != slab.device:
        held = torch.frombuffer(bytearray(op.attrs["data"]), dtype=torch.int8).to(slab.device)
        op.attrs["held"] = held
    slab.env[op.results[0]] = Pointer(Allocation(op.attrs["name"], held, 1))


def _private_base(slab: Slab, op: Op) -> None:
    """Memory of each lane: one allocation in which lane l of the slab starts at l times the size."""
    name, size = op.attrs["name"], op.attrs["bytes"]
    lanes = slab.shape[0] * slab.shape[1] * WAVE
    if name not in slab.private:
        slab.private[name] = Allocation.shared(name, size, lanes, slab.device)
        slab.private[name].lanes = slab.shape
    slab.env[op.results[0]] = Pointer(slab.private[name])


def _launch_facts(slab: Slab, op: Op) -> None:
    """The hidden arguments (code object version 5 and 6), or the dispatch packet, as bytes."""
    grid, block = slab.launch.grid, slab.launch.block
    if op.attrs["of"] == "implicitarg":
        data = struct.pack("<3I6H", *grid, *block, 0, 0, 0).ljust(256, b"\xff")
    elif op.attrs["of"] == "dispatch":
        sizes = [count * size for count, size in zip(grid, block, strict=True)]
        data = struct.pack("<2H3H1H3I", 0, 0, *block, 0, *sizes).ljust(64, b"\xff")
    else:
        raise UnsupportedOperation(f"pointer to the {op.attrs['of']} segment", op.location)
    held = torch.frombuffer(bytearray(data), dtype=torch.int8).to(slab.device)
    slab.env[op.results[0]] = Pointer(Allocation(f"{op.attrs['of']} facts", held, 1))


def _compare(slab: Slab, op: Op) -> None:
    a, b = slab.values(op)
    predicate = op.attrs["predicate"]
    if not isinstance(a, Pointer) or not isinstance(b, Pointer) or predicate not in ("eq", "ne"):
        raise UnsupportedOperation(f"comparison {predicate} of pointers", op.location)
    if a.allocation is b.allocation:
        same: Any = a.offset == b.offset
    elif _is_null(a) or _is_null(b):
        same = _is_null(a) and _is_null(b)
    else:
        raise UnsupportedOperation("comparison of pointers to different tensors", op.location)
    if predicate == "ne":
        same = ~same if isinstance(same, Tensor) else not same
    slab.env[op.results[0]] = same


def _is_null(pointer: Pointer) -> bool:
    return pointer.allocation.label == "null"


def _address(slab: Slab, op: Op) -> None:
    """``ptrtoint``: good for alignments and differences within one tensor, and never made a pointer again."""
    pointer = slab.env[op.operands[0]]
    if not isinstance(pointer, Pointer) or slab.types[op.results[0]].bits != 64:
        raise UnsupportedOperation("number of no pointer, or of fewer than 64 bits", op.location)
    slab.env[op.results[0]] = pointer.allocation.address + pointer.offset


def _select(slab: Slab, op: Op) -> None:
    condition, a, b = slab.values(op)
    if not isinstance(condition, Tensor):
        slab.env[op.results[0]] = a if condition else b
    else:
        slab.env[op.results[0]] = slab.choose(condition, a, b, op.results[0])


def _members(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = tuple(slab.values(op))


def _with_field(slab: Slab, op: Op) -> None:
    whole, part = slab.values(op)
    slab.env[op.results[0]] = _replaced(whole, op.attrs["path"], part)


def _replaced(whole: Any, path: tuple[int, ...], part: Any) -> Any:
    if not path:
        return part
    fields = list(whole)
    fields[path[0]] = _replaced(fields[path[0]], path[1:], part)
    return tuple(fields)


def _extract_at(slab: Slab, op: Op) -> None:
    vector, index = slab.values(op)
    place = tensor(index, slab.types[op.operands[1]], slab.device).long()
    shape = lane_shape(vector, place)
    place = place.clamp(0, vector.shape[0] - 1).expand(shape).unsqueeze(0)
    slab.env[op.results[0]] = torch.gather(vector.expand(-1, *shape), 0, place).squeeze(0)


def _insert_at(slab: Slab, op: Op) -> None:
    element, vector, index = slab.values(op)
    place = tensor(index, slab.types[op.operands[2]], slab.device).long()
    scalar = tensor(element, slab.types[op.operands[0]], slab.device)
    steps = torch.arange(vector.shape[0], device=slab.device).view(-1, 1, 1, 1)
    slab.env[op.results[0]] = torch.where(steps == place, scalar, vector)


POINTERS: dict[str, Callable[[Slab, Op], None]] = {
    "null": _null,
    "constant_base": _constant_base,
    "private_base": _private_base,
    "launch_facts": _launch_facts,
    "pcmp": _compare,
    "address": _address,
    "choose": _select,
    "members": _members,
    "with_field": _with_field,
    "extract_at": _extract_at,
    "insert_at": _insert_at,
}
"""Opcode to function."""
