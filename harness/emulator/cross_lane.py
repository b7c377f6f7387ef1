"""Opcodes that look across lanes: permutes, shuffles, barriers, and the matrix instruction.

They see whole waves. Running one while lanes of a wave are switched off is reported as
``divergent-lanes``: what hardware returns then depends on the instruction, and a value taken
from a switched-off lane reads as zero here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.emulator import conversions, lanes
from harness.emulator.lanes import WAVE, tensor
from harness.emulator.program import Op, UnsupportedOperation
from harness.emulator.slab import Slab


def _whole_waves(slab: Slab, op: Op) -> Tensor | None:
    """The execution mask; reports when it switches off some of the lanes a wave was born with."""
    mask = slab.mask
    if mask is None or mask.shape[-1] == 1:
        return mask
    counts = mask.sum(dim=-1)
    cut = (counts != 0) & (counts != (mask.shape[-1] if slab.born is None else slab.born.sum(dim=-1)))
    if bool(cut.any()):
        where = slab.where(op)
        detail = where.first(cut.unsqueeze(-1) & ~mask)
        count = int(cut.expand(slab.shape[:2]).sum())
        slab.findings.add("divergent-lanes", "", where, count, detail)
    return mask


def _permute_lanes(slab: Slab, op: Op) -> None:
    index, value = slab.values(op)
    mask = _whole_waves(slab, op)
    kind = slab.types[op.results[0]]
    source = (tensor(index, slab.types[op.operands[0]], slab.device).long() >> 2) & (WAVE - 1)
    held = tensor(value, kind, slab.device)
    if held.shape[-1] == 1:
        result = held.expand(*held.shape[:-1], WAVE) if mask is not None else held
    elif source.numel() == WAVE and source.shape[-1] == WAVE:
        result = held.index_select(-1, source.flatten())
    else:
        shape = lanes.lane_shape(source, held)
        result = torch.gather(held.expand(shape), -1, source.expand(*shape[:-1], WAVE))
    if mask is not None:
        shape = torch.broadcast_shapes(mask.shape, result.shape, source.shape)
        active = torch.gather(mask.expand(shape), -1, source.expand(shape))
        result = torch.where(active, result, torch.zeros_like(result))
    slab.env[op.results[0]] = result


def _shuffle_lanes(slab: Slab, op: Op) -> None:
    value, offset, width = slab.values(op)
    if isinstance(width, Tensor) or width <= 0 or width & (width - 1) or width > WAVE:
        raise UnsupportedOperation("shuffle whose width is not one power of two up to 64", op.location)
    _whole_waves(slab, op)
    lane = torch.arange(WAVE, device=slab.device).view(1, 1, WAVE)
    first = lane & -width
    moved = {"xor": lane ^ offset, "up": lane - offset, "down": lane + offset}
    source = moved.get(op.attrs["mode"], first + offset)
    exists = (source >= first) & (source < first + width)
    source = torch.where(exists, source, lane)
    held = tensor(value, slab.types[op.operands[0]], slab.device)
    shape = lanes.lane_shape(source, held)
    slab.define(op.results, (torch.gather(held.expand(shape), -1, source.expand(shape)), exists))


def _broadcast_first(slab: Slab, op: Op) -> None:
    value = slab.env[op.operands[0]]
    if isinstance(value, Tensor) and value.shape[-1] != 1:
        if slab.mask is None or slab.mask.shape[-1] == 1:
            value = value[..., :1]
        else:
            first = slab.mask.to(torch.int8).argmax(dim=-1, keepdim=True)
            shape = lanes.lane_shape(value, slab.mask)
            value = torch.gather(value.expand(shape), -1, first.expand(*shape[:-1], 1))
    slab.env[op.results[0]] = value


def _mfma_scale_16x16x128(slab: Slab, op: Op) -> None:
    _whole_waves(slab, op)
    a, b, c, scale_a, scale_b = (
        tensor(value, slab.types[operand], slab.device)
        for value, operand in zip(slab.values(op), op.operands, strict=True)
    )
    a, b = (x if x.shape[-1] == WAVE else x.expand(*x.shape[:-1], WAVE) for x in (a, b))
    opsel = (op.attrs["opsel_a"], op.attrs["opsel_b"])
    result = slab.matrix.multiply(a, b, c, scale_a, scale_b, opsel, slab.shape, slab.mask)
    slab.env[op.results[0]] = result


def _cvt_pk_fp8(slab: Slab, op: Op) -> None:
    low, high, old = slab.values(op)
    old = tensor(old, slab.types[op.operands[2]], slab.device)
    slab.env[op.results[0]] = conversions.pair_to_fp8(old, low, high, op.attrs["select"], op.attrs["format"])


def _cvt_f32_fp8(slab: Slab, op: Op) -> None:
    value = tensor(slab.env[op.operands[0]], slab.types[op.operands[0]], slab.device)
    slab.env[op.results[0]] = conversions.from_fp8(value, op.attrs["select"], op.attrs["format"])


def _cvt_scale_pk_fp4(slab: Slab, op: Op) -> None:
    old, low, high, scale = slab.values(op)
    select = op.attrs["select"]
    old = tensor(old, slab.types[op.operands[0]], slab.device)
    slab.env[op.results[0]] = conversions.scaled_pair_to_fp4(old, low, high, scale, select)


def _missed_barrier(slab: Slab, op: Op, mask: Tensor) -> None:
    """Report waves that do not arrive where others of their workgroup do: hardware would wait for ever."""
    arrived = mask.any(dim=-1).expand(slab.shape[:2])
    absent = arrived.any(dim=1, keepdim=True) & ~arrived
    if bool(absent.any()):
        where = slab.where(op)
        slab.findings.add("divergent-lanes", "", where, int(absent.sum()), where.first(absent.unsqueeze(-1)))


def _barrier(slab: Slab, op: Op) -> None:
    mask = _whole_waves(slab, op)
    if mask is not None:
        _missed_barrier(slab, op, mask)
    for allocation in slab.shared.values():
        slab.memory.races.barrier(allocation, mask)
    slab.memory.races.settle(mask, slab.where(op))


def _nop(slab: Slab, op: Op) -> None:
    for result in op.results:
        raise UnsupportedOperation(f"result {result} of a scheduling hint", op.location)


CROSS_LANE: dict[str, Callable[[Slab, Op], None]] = {
    "permute_lanes": _permute_lanes,
    "shuffle_lanes": _shuffle_lanes,
    "broadcast_first": _broadcast_first,
    "mfma_scale_16x16x128": _mfma_scale_16x16x128,
    "cvt_scale_pk_fp4": _cvt_scale_pk_fp4,
    "cvt_pk_fp8": _cvt_pk_fp8,
    "cvt_f32_fp8": _cvt_f32_fp8,
    "barrier": _barrier,
    "nop": _nop,
}
"""Opcode to function, for everything that looks across lanes."""
