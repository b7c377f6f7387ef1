"""Counts the lanes on which two values of a running program have different bits.

No front end makes this operation; who wants to know whether a changed operation would have given another
value puts it behind both. Lanes that are switched off do not count. A value that is no number (a pointer,
a descriptor) differs on every lane unless both are one and the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.emulator import lanes
from harness.emulator.lanes import Value
from harness.emulator.program import Op, Type
from harness.emulator.slab import Slab


@dataclass
class Count:
    """``compared`` and ``differing`` lanes over everything that ran."""

    compared: int = 0
    differing: int = 0


def execute(slab: Slab, op: Op) -> None:
    """Add the active lanes to attr ``count`` (a `Count`)."""
    one, two = slab.values(op)
    kind, count = slab.types[op.operands[0]], op.attrs["count"]
    shape = slab.shape
    mask = torch.ones(shape, dtype=torch.bool, device=slab.device) if slab.mask is None else slab.mask
    mask = mask.expand(shape)
    count.compared += int(mask.sum())
    if kind.kind not in ("int", "float"):
        count.differing += 0 if one == two else int(mask.sum())
        return
    differs = _bits(slab, one, kind) != _bits(slab, two, kind)
    differs = differs.any(dim=-1).expand(shape)
    count.differing += int((differs & mask).sum())


def _bits(slab: Slab, value: Value, kind: Type) -> torch.Tensor:
    """Bytes ``(C, W, L, n)`` of a value."""
    held = lanes.tensor(value, kind, slab.device)
    flat = lanes.elements_last(held) if lanes.words_of(kind) else held.unsqueeze(-1).contiguous()
    return flat.to(torch.int8) if flat.dtype is torch.bool else flat.view(torch.int8)
