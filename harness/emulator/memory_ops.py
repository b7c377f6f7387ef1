"""Opcodes that read the coordinates of a lane or touch memory.

Each function takes the slab and the operation and defines the operation's results. Which
lanes take part is the slab's mask; addresses and their checks are `memory`'s business.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.emulator import lanes
from harness.emulator.allocation import Allocation, Pointer, Resource, resource
from harness.emulator.lanes import WAVE, Value, dtype_of, elements_last, tensor, words_of
from harness.emulator.program import Op, Type, UnsupportedOperation
from harness.emulator.slab import Slab


def _const(slab: Slab, op: Op) -> None:
    kind = slab.types[op.results[0]]
    slab.env[op.results[0]] = lanes.constant(op.attrs["value"], kind, slab.device)


def _poison(slab: Slab, op: Op) -> None:
    kind = slab.types[op.results[0]]
    if kind.kind not in ("int", "float"):
        raise UnsupportedOperation(f"undefined value of type {kind}", op.location)
    bits = torch.full((1, 1, 1, max(1, kind.total_bytes)), -1, dtype=torch.int8, device=slab.device)
    slab.env[op.results[0]] = _as_value(slab, bits, kind)


def _as_typed(slab: Slab, op: Op, value: Value) -> Value:
    """A coordinate in the width the program gives it."""
    return value.to(dtype_of(slab.types[op.results[0]])) if isinstance(value, Tensor) else value


def _thread_id(slab: Slab, op: Op) -> None:
    x, y, _ = slab.launch.block
    flat = torch.arange(slab.shape[1] * WAVE, device=slab.device).view(1, slab.shape[1], WAVE)
    axis = op.attrs["axis"]
    value = (flat % x, flat // x % y, flat // (x * y))[axis] if slab.launch.block[axis] > 1 else 0
    slab.env[op.results[0]] = _as_typed(slab, op, value)


def _lane_id(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = _as_typed(slab, op, torch.arange(WAVE, device=slab.device).view(1, 1, WAVE))


def _block_id(slab: Slab, op: Op) -> None:
    x, y, _ = slab.launch.grid
    flat = torch.arange(slab.first, slab.first + slab.shape[0], device=slab.device).view(-1, 1, 1)
    axis = op.attrs["axis"]
    value = (flat % x, flat // x % y, flat // (x * y))[axis] if slab.launch.grid[axis] > 1 else 0
    slab.env[op.results[0]] = _as_typed(slab, op, value)


def _block_dim(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = slab.launch.block[op.attrs["axis"]]


def _grid_dim(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = slab.launch.grid[op.attrs["axis"]]


def _shared_base(slab: Slab, op: Op) -> None:
    name = op.attrs["name"]
    if name not in slab.shared:
        label = op.attrs.get("label", name)
        slab.shared[name] = Allocation.shared(label, op.attrs["bytes"], slab.shape[0], slab.device)
    slab.env[op.results[0]] = Pointer(slab.shared[name])


def _field(slab: Slab, op: Op) -> None:
    value = slab.env[op.operands[0]]
    for index in op.attrs["path"]:
        value = value[index]
    slab.env[op.results[0]] = value


def _offset(slab: Slab, op: Op) -> None:
    pointer = slab.env[op.operands[0]]
    index = slab.env[op.operands[1]] if len(op.operands) > 1 else 0
    if not isinstance(pointer, Pointer):
        raise UnsupportedOperation("arithmetic on something that is no pointer", op.location)
    index = index.long() if isinstance(index, Tensor) else index
    slab.env[op.results[0]] = pointer.advance((index + op.attrs["static"]) * op.attrs["scale"])


def _resource(slab: Slab, op: Op) -> None:
    slab.env[op.results[0]] = resource(*slab.values(op))


def _accessed(kind: Type) -> Type:
    """``kind``, when a memory access of it has one meaning."""
    if kind.bits == 1 and kind.length is not None:
        raise UnsupportedOperation(f"memory access of type {kind}")
    return kind


def _load(slab: Slab, op: Op) -> None:
    kind = _accessed(slab.types[op.results[0]])
    pointer = _pointer(slab, slab.env[op.operands[0]], op)
    raw = slab.memory.load(pointer, kind.total_bytes, slab.mask, slab.where(op))
    slab.env[op.results[0]] = _as_value(slab, raw, kind)


def _store(slab: Slab, op: Op) -> None:
    value, pointer = slab.values(op)
    kind = _accessed(slab.types[op.operands[0]])
    pointer = _pointer(slab, pointer, op)
    slab.memory.store(pointer, _as_bytes(slab, value, kind), kind.total_bytes, slab.mask, slab.where(op))


def _buffer_load(slab: Slab, op: Op) -> None:
    descriptor, offset, scalar_offset = slab.values(op)[:3]
    kind = _accessed(slab.types[op.results[0]])
    pointer, inside = _buffer(slab, descriptor, offset, scalar_offset, kind.total_bytes, op)
    mask = slab.mask if inside is None else inside if slab.mask is None else slab.mask & inside
    raw = slab.memory.load(pointer, kind.total_bytes, mask, slab.where(op))
    if inside is not None:
        raw = torch.where(inside.unsqueeze(-1), raw, torch.zeros_like(raw))
    slab.env[op.results[0]] = _as_value(slab, raw, kind)


def _buffer_store(slab: Slab, op: Op) -> None:
    value, descriptor, offset, scalar_offset = slab.values(op)[:4]
    kind = _accessed(slab.types[op.operands[0]])
    pointer, inside = _buffer(slab, descriptor, offset, scalar_offset, kind.total_bytes, op)
    mask = slab.mask if inside is None else inside if slab.mask is None else slab.mask & inside
    slab.memory.store(pointer, _as_bytes(slab, value, kind), kind.total_bytes, mask, slab.where(op))


def _buffer(
    slab: Slab, descriptor: Value, offset: Value, scalar_offset: Value, width: int, op: Op
) -> tuple[Pointer, Tensor | None]:
    """Address of a buffer access, and the lanes inside the descriptor's records (None: all)."""
    if not isinstance(descriptor, Resource):
        raise UnsupportedOperation("buffer access through something that is no descriptor", op.location)
    where = offset + scalar_offset if not isinstance(scalar_offset, int) or scalar_offset else offset
    if not isinstance(where, Tensor):
        where = torch.tensor(where & 0xFFFFFFFF, device=slab.device).view(1, 1, 1)
    low, high = (int(bound) for bound in torch.aminmax(where))
    if low < 0:
        where = where.long() & 0xFFFFFFFF
        high = int(where.max())
    inside = None
    if isinstance(descriptor.records, Tensor) or high + width > descriptor.records:
        inside = where.long() + width <= descriptor.records
        where = torch.where(inside, where, torch.zeros_like(where))
    base = descriptor.base.offset
    if isinstance(base, Tensor) or base:
        where = where.long() + base
    return Pointer(descriptor.base.allocation, where), inside


def _pointer(slab: Slab, value: Value, op: Op) -> Pointer:
    if not isinstance(value, Pointer):
        raise UnsupportedOperation("access through something that is no pointer", op.location)
    return value


def _as_value(slab: Slab, raw: Tensor, kind: Type) -> Value:
    """A loaded ``(C, W, L, words)`` as a value of ``kind``."""
    flat = raw.view(dtype_of(kind)) if dtype_of(kind) is not torch.bool else raw.bool()
    return flat.movedim(-1, 0) if words_of(kind) else flat.squeeze(-1)


def _as_bytes(slab: Slab, value: Value, kind: Type) -> Tensor:
    held = tensor(value, kind, slab.device)
    flat = elements_last(held) if words_of(kind) else held.unsqueeze(-1).contiguous()
    flat = flat.to(torch.int8) if flat.dtype is torch.bool else flat
    return flat.view(torch.int8)


MEMORY: dict[str, Callable[[Slab, Op], None]] = {
    "const": _const,
    "poison": _poison,
    "thread_id": _thread_id,
    "lane_id": _lane_id,
    "block_id": _block_id,
    "block_dim": _block_dim,
    "grid_dim": _grid_dim,
    "shared_base": _shared_base,
    "field": _field,
    "offset": _offset,
    "resource": _resource,
    "load": _load,
    "store": _store,
    "buffer_load": _buffer_load,
    "buffer_store": _buffer_store,
}
"""Opcode to function, for coordinates and memory."""
