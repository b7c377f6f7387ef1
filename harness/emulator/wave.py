"""Opcodes that move values between the lanes of a wave and are defined while some are switched off."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.emulator.lanes import WAVE, dtype_of, tensor
from harness.emulator.program import Op, UnsupportedOperation
from harness.emulator.slab import Slab

ROW, BANK = 16, 4


def dpp_source(control: int) -> tuple[list[int], list[bool]]:
    """Source lane of each of 64 lanes, and whether there is one (CDNA3 ISA, DPP control values).

    Raises `UnsupportedOperation` for a control the target has not.
    """
    lanes = range(WAVE)
    if control <= 0xFF:  # quad_perm
        source = [lane & ~3 | (control >> 2 * (lane & 3)) & 3 for lane in lanes]
        return source, [True] * WAVE
    step, kind = control & 0xF, control & 0x1F0
    if kind in (0x100, 0x110, 0x120) and step:
        moved = {0x100: step, 0x110: -step, 0x120: -step}[kind]  # row_shl, row_shr, row_ror
        source = [lane + moved for lane in lanes]
        if kind == 0x120:
            return [lane & -ROW | (lane + moved) % ROW for lane in lanes], [True] * WAVE
        return source, [one // ROW == lane // ROW for one, lane in zip(source, lanes, strict=True)]
    whole = {0x130: 1, 0x138: -1, 0x134: 1, 0x13C: -1}  # wave_shl, wave_shr, wave_rol, wave_ror
    if control in whole:
        source = [lane + whole[control] for lane in lanes]
        around = control in (0x134, 0x13C)
        return [one % WAVE for one in source], [around or 0 <= one < WAVE for one in source]
    if control == 0x140:  # row_mirror
        return [lane & -ROW | ROW - 1 - lane % ROW for lane in lanes], [True] * WAVE
    if control == 0x141:  # row_half_mirror
        return [lane & -8 | 7 - lane % 8 for lane in lanes], [True] * WAVE
    if control == 0x142:  # row_bcast15: the last lane of a row to the next row
        return [(lane // ROW) * ROW - 1 for lane in lanes], [lane >= ROW for lane in lanes]
    if control == 0x143:  # row_bcast31: lane 31 to rows 2 and 3
        return [31] * WAVE, [lane >= 32 for lane in lanes]
    if 0x150 <= control <= 0x15F:  # row_newbcast
        return [lane & -ROW | control & 0xF for lane in lanes], [True] * WAVE
    raise UnsupportedOperation(f"DPP control {control:#x}")


def _dpp(slab: Slab, op: Op) -> None:
    """A lane whose row or bank is masked keeps the old value; one without a source gets 0 or keeps it."""
    kind = slab.types[op.results[0]]
    old, value = (tensor(slab.env[number], kind, slab.device) for number in op.operands)
    source, exists = dpp_source(op.attrs["control"])
    places = torch.tensor(source, device=slab.device).clamp(0, WAVE - 1)
    there = torch.tensor(exists, device=slab.device).view(1, 1, WAVE)
    held = value.expand(*value.shape[:-1], WAVE)
    moved = held.index_select(-1, places)
    if slab.mask is not None:
        active = slab.mask.expand(*slab.mask.shape[:-1], WAVE).index_select(-1, places)
        there = there & active
    lane = torch.arange(WAVE, device=slab.device)
    rows = op.attrs["rows"] >> lane // ROW & 1
    banks = op.attrs["banks"] >> lane % ROW // BANK & 1
    enabled = (rows & banks).bool()
    missing = torch.zeros_like(moved) if op.attrs["bound"] else old
    result = torch.where(there, moved, missing)
    slab.env[op.results[0]] = torch.where(enabled.view(1, 1, WAVE), result, old)


def _ballot(slab: Slab, op: Op) -> None:
    condition = tensor(slab.env[op.operands[0]], slab.types[op.operands[0]], slab.device)
    shape = (*slab.shape[:2], WAVE)
    held = condition.expand(shape)
    if slab.mask is not None:
        held = held & slab.mask
    lane = torch.arange(WAVE, device=slab.device)
    slab.env[op.results[0]] = torch.where(held, torch.ones((), dtype=torch.int64) << lane, 0).sum(-1, True)
    if slab.types[op.results[0]].bits != WAVE:
        raise UnsupportedOperation(f"ballot of {slab.types[op.results[0]].bits} bits", op.location)


def _lanes_below(slab: Slab, op: Op) -> None:
    mask, base = (tensor(slab.env[number], slab.types[number], slab.device).long() for number in op.operands)
    lane = torch.arange(WAVE, device=slab.device).view(1, 1, WAVE)
    below = (lane - 32 * op.attrs["half"]).clamp(0, 32)
    counted = torch.zeros((), dtype=torch.int64, device=slab.device)
    for bit in range(32):
        counted = counted + ((mask >> bit & 1) * (bit < below))
    slab.env[op.results[0]] = (base + counted).to(dtype_of(slab.types[op.results[0]]))


def _read_lane(slab: Slab, op: Op) -> None:
    """``v_readlane``: any lane, switched on or not; the lane's number must be the same in the whole wave."""
    value, lane = slab.values(op)
    if not isinstance(value, Tensor) or value.shape[-1] == 1:
        slab.env[op.results[0]] = value
        return
    index = tensor(lane, slab.types[op.operands[1]], slab.device).long() & (WAVE - 1)
    if index.shape[-1] != 1:
        index = _uniform(slab, index, op)
    shape = torch.broadcast_shapes(value.shape[:-1], index.shape[:-1])
    held, index = value.expand(*shape, WAVE), index.expand(*shape, 1)
    slab.env[op.results[0]] = torch.gather(held, -1, index)


def _uniform(slab: Slab, index: Tensor, op: Op) -> Tensor:
    mask = torch.ones_like(index, dtype=torch.bool) if slab.mask is None else slab.mask
    index, mask = torch.broadcast_tensors(index, mask)
    first = torch.gather(index, -1, mask.to(torch.int8).argmax(-1, keepdim=True))
    if bool(((index != first) & mask).any()):
        raise UnsupportedOperation("lane number that differs within a wave", op.location)
    return first


WAVES: dict[str, Callable[[Slab, Op], None]] = {
    "dpp": _dpp,
    "ballot": _ballot,
    "lanes_below": _lanes_below,
    "read_lane": _read_lane,
}
"""Opcode to function."""
