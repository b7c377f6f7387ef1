"""Memory as a kernel sees it: loads and stores with a check on every access.

An address is (allocation, byte offset). It is never a bare number, so an access outside
its own tensor is seen whatever happens to lie there. Reads return what hardware would only
by luck: a byte outside the tensor reads as 0xFF, which is NaN, page -1 or the NaN scale.
Each check reports through `Findings`; a check that is skipped for speed must be proved
redundant first (a range test over the whole slab is such a proof).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.emulator.allocation import POISON_BYTE, WORD_TYPES, Allocation, Pointer
from harness.emulator.found import Findings, Where
from harness.emulator.racing import Races


class Memory:
    """Loads and stores of one launch."""

    def __init__(self, findings: Findings, device: torch.device, *, settles: bool = False) -> None:
        """``settles``: as in `Races`."""
        self._findings = findings
        self._device = device
        self.races = Races(findings, device, settles=settles)

    def load(self, pointer: Pointer, width: int, mask: Tensor | None, where: Where) -> Tensor:
        """``width`` bytes per lane as ``(C, W, L, words)`` (int32 words; int8/int16 below 4 bytes)."""
        allocation = pointer.allocation
        offset = self._lanes(pointer.offset)
        offset, inside = self._bounds("out-of-bounds-load", allocation, offset, width, mask, where)
        offset = allocation.place(offset)
        value = self._gather(allocation, offset, width)
        if inside is not None:
            value = torch.where(inside.unsqueeze(-1), value, torch.full_like(value, POISON_BYTE))
        self._check_defined(allocation, offset, width, mask, inside, where)
        if allocation.per_cta is not None and allocation.lanes is None:
            self.races.check_stored(allocation, offset, width, mask, where)
            self.races.note_readers(allocation, offset, width, mask, where)
        return value

    def store(self, pointer: Pointer, value: Tensor, width: int, mask: Tensor | None, where: Where) -> None:
        """Store ``value`` ``(C, W, L, bytes as int8)`` for the active lanes."""
        allocation = pointer.allocation
        shape = torch.broadcast_shapes(
            self._lanes(pointer.offset).shape,
            value.shape[:-1],
            where.shape,
            *(() if mask is None else (mask.shape,)),
        )
        active = (
            torch.ones(shape, dtype=torch.bool, device=self._device) if mask is None else mask.expand(shape)
        )
        offset, inside = self._bounds(
            "out-of-bounds-store", allocation, self._lanes(pointer.offset).expand(shape), width, active, where
        )
        if inside is not None:
            active = active & inside
        offset = allocation.place(offset)
        chosen = active.flatten().nonzero().squeeze(1)
        if not chosen.numel():
            return
        offsets = offset.flatten()[chosen].long()
        data = value.expand(*shape, width).reshape(-1, width)[chosen]
        if allocation.reader is not None:
            self.races.check_readers(allocation, offsets, width, chosen, where)
        self.races.note_writers(allocation, offsets, width, chosen, where)
        allocation.define(offsets, width)
        if (
            width in (4, 8, 16)
            and allocation.data.storage_offset() % 4 == 0
            and not bool((offsets & 3).any())
        ):
            target = allocation.words(4).view(-1)
            for word in range(width // 4):
                target[(offsets >> 2) + word] = data.view(torch.int32)[:, word]
        else:
            allocation.store_bytes(offsets, data)

    def atomic(
        self, pointer: Pointer, width: int, mask: Tensor | None, where: Where, shape: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """Check an atomic access: offsets into the allocation's bytes, and the lanes that take part.

        Its cells count as written by the last of its lanes, and as read by all.
        """
        allocation = pointer.allocation
        shape = torch.broadcast_shapes(shape, self._lanes(pointer.offset).shape, where.shape)
        active = torch.ones(shape, dtype=torch.bool, device=self._device)
        active = active if mask is None else mask.expand(shape)
        offset = self._lanes(pointer.offset).expand(shape)
        offset, inside = self._bounds("out-of-bounds-store", allocation, offset, width, active, where)
        active = active if inside is None else active & inside
        offset = allocation.place(offset)
        self._check_defined(allocation, offset, width, active, None, where)
        return offset, active

    def check_expected(self, allocation: Allocation, where: Where) -> None:
        """Report cells that had to be stored and were not, after the launch."""
        if allocation.expected is None:
            return
        missing = allocation.expected
        if allocation.writer is not None:
            grains = max(1, allocation.item // allocation.grain)
            start = missing // allocation.grain
            written = [allocation.writer[start + step] != 0 for step in range(grains)]
            missing = missing[~torch.stack(written).all(dim=0)]
        if missing.numel():
            detail = {"offset": int(missing[0]), "extent": allocation.size}
            self._findings.add("unwritten", allocation.label, where, int(missing.numel()), detail)

    def _lanes(self, offset: Any) -> Tensor:
        if isinstance(offset, Tensor):
            return offset
        return torch.tensor(offset, dtype=torch.int64, device=self._device).view(1, 1, 1)

    def _bounds(
        self, kind: str, allocation: Allocation, offset: Tensor, width: int, mask: Tensor | None, where: Where
    ) -> tuple[Tensor, Tensor | None]:
        """Offsets that are safe to use, and which lanes were inside (None: all of them)."""
        low, high = (int(bound) for bound in torch.aminmax(offset)) if offset.numel() else (0, 0)
        if low >= 0 and high + width <= allocation.size:
            return offset, None
        inside = (offset >= 0) & (offset <= allocation.size - width)
        wrong = ~inside if mask is None else ~inside & mask
        count = int(wrong.expand(where.lanes(wrong.shape)).sum())
        if count:
            lane = where.first(wrong)
            detail = {**lane, "offset": where.pick(offset, wrong), "extent": allocation.size}
            self._findings.add(kind, allocation.label, where, count, detail)
        return torch.where(inside, offset, torch.zeros_like(offset)), inside

    def _gather(self, allocation: Allocation, offset: Tensor, width: int) -> Tensor:
        aligned = width in (1, 2, 4, 8, 16) and not bool((offset & (width - 1)).any())
        if aligned and allocation.size >= width:
            words = allocation.words(width)
            index = (offset >> (width.bit_length() - 1)).flatten()
            return words.index_select(0, index).view(*offset.shape, words.shape[1])
        if allocation.size == 0:
            steps = torch.full((*offset.shape, width), POISON_BYTE, dtype=torch.int8, device=self._device)
        else:
            reach = offset.unsqueeze(-1) + torch.arange(width, device=self._device)
            steps = allocation.data[reach.clamp_(0, allocation.data.numel() - 1)]
        return steps.contiguous().view(WORD_TYPES[min(width & -width, 4)])

    def _check_defined(
        self,
        allocation: Allocation,
        offset: Tensor,
        width: int,
        mask: Tensor | None,
        inside: Tensor | None,
        where: Where,
    ) -> None:
        if allocation.defined is None or allocation.size < width:
            return
        if width in (1, 2, 4, 8, 16) and not bool((offset & (width - 1)).any()):
            known = allocation.defined_words(width)[(offset >> (width.bit_length() - 1)).flatten()].view(
                offset.shape
            )
        else:
            reach = offset.unsqueeze(-1) + torch.arange(width, device=self._device)
            known = allocation.defined[reach.clamp_(0, allocation.data.numel() - 1)].all(dim=-1)
        wrong = ~known
        for condition in (mask, inside):
            wrong = wrong if condition is None else wrong & condition
        count = int(wrong.expand(where.lanes(wrong.shape)).sum())
        if count:
            place = where.pick(offset, wrong) % allocation.size
            detail = {**where.first(wrong), "offset": place, "extent": allocation.size}
            self._findings.add("undefined-load", allocation.label, where, count, detail)
