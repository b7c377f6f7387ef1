"""Read, combine and write back in one go.

Contract: lanes take their turns in ascending order, which is one of the orders that hardware may take; what
depends on the order is the kernel's own choice, and a kernel whose result does is not repeatable. An atomic
access races with no other one, and with a plain store as any two stores do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.emulator.allocation import Pointer
from harness.emulator.lanes import dtype_of, tensor
from harness.emulator.program import Op, UnsupportedOperation
from harness.emulator.slab import Slab

_TOP = {torch.int32: -(1 << 31), torch.int64: -(1 << 63)}
"""Flipping the sign bit turns the unsigned order into the signed one."""

Combine = Callable[[Tensor, Tensor], Tensor]
COMBINE: dict[str, Combine] = {
    "xchg": lambda old, new: new,
    "add": torch.add,
    "sub": torch.sub,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "max": torch.maximum,
    "min": torch.minimum,
    "umax": lambda old, new: torch.where((old ^ _TOP[old.dtype]) > (new ^ _TOP[old.dtype]), old, new),
    "umin": lambda old, new: torch.where((old ^ _TOP[old.dtype]) < (new ^ _TOP[old.dtype]), old, new),
    "fadd": torch.add,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
}


def _atomic(slab: Slab, op: Op) -> None:
    pointer, value = slab.values(op)
    kind, operation = slab.types[op.operands[1]], op.attrs["operation"]
    if not isinstance(pointer, Pointer) or operation not in COMBINE or kind.bits not in (32, 64):
        raise UnsupportedOperation(f"atomic {operation} of {kind}", op.location)
    width, where = kind.bits // 8, slab.where(op)
    held = tensor(value, kind, slab.device)
    offset, active = slab.memory.atomic(pointer, width, slab.mask, where, held.shape)
    chosen = active.flatten().nonzero().squeeze(1)
    result = torch.zeros(active.shape, dtype=dtype_of(kind), device=slab.device)
    if chosen.numel():
        cells = pointer.allocation.data
        places = offset.expand(active.shape).flatten()[chosen].long()
        given = held.expand(active.shape).flatten()[chosen]
        old = _in_turn(cells, places, given, width, dtype_of(kind), COMBINE[operation])
        result.view(-1)[chosen] = old
        pointer.allocation.changed()
    slab.env[op.results[0]] = result


def _in_turn(
    cells: Tensor,
    places: Tensor,
    given: Tensor,
    width: int,
    dtype: torch.dtype,
    combine: Combine,
) -> Tensor:
    """What each access finds; those to one place in their order, different places at once."""
    order = torch.argsort(places, stable=True)
    sorted_places = places[order]
    fresh = torch.ones_like(sorted_places, dtype=torch.bool)
    fresh[1:] = sorted_places[1:] != sorted_places[:-1]
    start = torch.cummax(torch.where(fresh, torch.arange(len(order), device=order.device), 0), 0).values
    turn = torch.arange(len(order), device=order.device) - start
    old = torch.empty_like(given)
    steps = torch.arange(width, device=cells.device)
    for number in range(int(turn.max()) + 1):
        now = order[turn == number]
        reach = places[now].unsqueeze(1) + steps
        before = cells[reach].contiguous().view(dtype).squeeze(1)
        old[now] = before
        after = combine(before, given[now]).to(dtype).contiguous()
        cells[reach] = after.unsqueeze(1).view(torch.int8)
    return old


ATOMICS: dict[str, Callable[[Slab, Op], None]] = {"atomic": _atomic}
