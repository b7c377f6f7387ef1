"""How a value looks while it is executed: one torch tensor over workgroups, waves and lanes.

A scalar is a tensor that broadcasts to ``(C, W, L)``: workgroups of the slab, waves of a
workgroup, lanes of a wave. An axis a value does not depend on has size 1, so what is
uniform stays small; an integer known to be one number is a plain Python int. A vector has
its elements in front: ``(V, C, W, L)``. An integer of more than 64 bits is a vector of
32-bit words. Integers keep the bits of their type (torch's signed types wrap as two's
complement); booleans are torch.bool. A helper that lost the narrow axes would be slow, and
one that lost the wrap-around would be wrong only at the edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.emulator.program import Type, UnsupportedOperation

WAVE = 64
_INTEGERS = {1: torch.bool, 8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
_FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}

Value = Any
"""int, bool, Tensor, or a pointer/resource of `memory`."""


def dtype_of(kind: Type) -> torch.dtype:
    """Torch dtype of one element of ``kind``; 128-bit integers are held as 32-bit words."""
    if kind.kind == "float":
        return _FLOATS[kind.name]
    if kind.kind == "int" and kind.bits in _INTEGERS:
        return _INTEGERS[kind.bits]
    if kind.kind == "int" and kind.bits % 32 == 0 and kind.length is None:
        return torch.int32
    raise UnsupportedOperation(f"value of type {kind}")


def words_of(kind: Type) -> int:
    """Leading elements a value of ``kind`` is held in; 0 for a scalar without a leading axis."""
    if kind.length is not None:
        return kind.length
    return kind.bits // 32 if kind.kind == "int" and kind.bits > 64 else 0


def wrap(number: int, bits: int) -> int:
    """Two's complement value of ``number`` in ``bits`` bits; a bool stays 0 or 1."""
    if bits == 1:
        return number & 1
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def constant(value: Any, kind: Type, device: torch.device) -> Value:
    """A constant: scalars of integer type as Python ints, everything else as a small tensor."""
    if kind.length is None and kind.bits <= 64:
        if kind.kind == "int":
            return bool(value) if kind.bits == 1 else wrap(int(value), kind.bits)
        return torch.tensor(value, dtype=dtype_of(kind), device=device)
    words = words_of(kind)
    if kind.length is None:
        value = [wrap(value >> 32 * word, 32) for word in range(words)]
    return torch.tensor([*value], dtype=dtype_of(kind), device=device).view(words, 1, 1, 1)


def tensor(value: Value, kind: Type, device: torch.device) -> Tensor:
    """``value`` as a tensor with three lane axes (a leading axis more for vectors)."""
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=dtype_of(kind), device=device)
    missing = (4 if words_of(kind) else 3) - value.dim()
    return value.view(*(1,) * missing, *value.shape) if missing > 0 else value


def lane_shape(*values: Value) -> tuple[int, int, int]:
    """The common ``(C, W, L)`` shape values broadcast to."""
    shapes = [value.shape[-3:] for value in values if isinstance(value, Tensor) and value.dim()]
    shape = torch.broadcast_shapes(*shapes) if shapes else ()
    full = (1,) * (3 - len(shape)) + tuple(shape)
    return full[0], full[1], full[2]


def elements_last(value: Tensor) -> Tensor:
    """A vector's elements as the last, contiguous axis: ``(C, W, L, V)``."""
    moved = value.movedim(0, -1).contiguous()
    # Axes of size 1 keep odd strides, which a later view as wider words would refuse.
    return moved.view(-1).view(moved.shape)


def bitcast(value: Value, source: Type, target: Type, device: torch.device) -> Value:
    """The same bits as another type of the same total width."""
    booleans = 1 in (source.bits, target.bits) and source != target  # packed in the IR, not packed here
    if booleans or source.total_bytes != target.total_bytes or source.kind not in ("int", "float"):
        raise UnsupportedOperation(f"bitcast of {source} to {target}")
    held = tensor(value, source, device)
    flat = elements_last(held) if words_of(source) else held.unsqueeze(-1).contiguous()
    flat = flat.view(dtype_of(target))
    if words_of(target):
        return flat.movedim(-1, 0)
    return flat.squeeze(-1)


SMALLEST_NORMAL = 2.0**-126
"""Of float32."""


def flushed(value: Value, kind: Type) -> Value:
    """float32 numbers below the normal ones as zeros of their sign; any other value as it is."""
    if kind.name != "f32" or not isinstance(value, Tensor):
        return value
    small = value.abs() < SMALLEST_NORMAL
    return torch.where(small, torch.copysign(torch.zeros_like(value), value), value)


def unsigned(value: Value, bits: int) -> Value:
    """``value`` read as unsigned, in Python or int64 (32 bits and less; 64 bits only for Python ints)."""
    if not isinstance(value, Tensor):
        return value & ((1 << bits) - 1)
    if bits > 32:
        raise UnsupportedOperation("unsigned arithmetic on 64-bit lanes")
    return value.long() & ((1 << bits) - 1)
