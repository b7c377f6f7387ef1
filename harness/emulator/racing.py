"""Who stored and who read each cell since the last barrier: races of the lanes of one launch.

Contract: two lanes that store to one address race, unless a barrier of their workgroup lies between; a wave
that reads shared memory which another one stored, or stores what another one has read, needs a barrier
between. All lanes of a slab run together here, so a race never shows in the values: it must be seen here.
"""

from __future__ import annotations

import math
import re

import numpy as np
import torch
from torch import Tensor

from harness.emulator.allocation import Allocation
from harness.emulator.found import Findings, Where
from harness.emulator.lanes import WAVE

HOISTED = re.compile(r"line \d+$|[^<]*:0( |$)")
"""Where an operation stands that has no line in the source of a kernel."""


class Races:
    """Readers and writers of one launch.

    ``settles``: the program has barriers, after which a workgroup may store to its cells again.
    """

    def __init__(self, findings: Findings, device: torch.device, *, settles: bool) -> None:
        self._findings = findings
        self._device = device
        self._settles = settles
        self._stored: dict[Allocation, list[Tensor]] = {}
        """Cells of each allocation stored to since the last barrier, where barriers settle them."""

    def barrier(self, allocation: Allocation, mask: Tensor | None) -> None:
        """A barrier: what a workgroup stored to shared memory is now all its waves' to read and replace."""
        for known in (allocation.writer, allocation.reader):
            if known is None:
                continue
            if mask is None:
                known.zero_()
            elif allocation.per_cta:
                by_cta = known.view(allocation.data.numel() // allocation.per_cta, -1)
                by_cta.masked_fill_(mask.flatten(1).any(dim=1, keepdim=True), 0)

    def settle(self, going: Tensor | None, where: Where) -> None:
        """A barrier of the workgroups of ``going``: what they stored is no race with themselves any more.

        A settled cell holds -2 - workgroup.
        """
        lanes = where.shape[1] * where.shape[2]
        for allocation, parts in self._stored.items():
            assert allocation.writer is not None
            cells = torch.cat(parts)
            group = (allocation.writer[cells] - 1).div(lanes, rounding_mode="floor")
            there = allocation.writer[cells] > 0
            if going is not None:
                passing = going.expand(where.shape).flatten(1).any(dim=1)
                there &= passing[(group - where.first_cta).clamp(0, len(passing) - 1)]
            allocation.writer[cells[there]] = -2 - group[there]
            self._stored[allocation] = [cells[~there]]

    def check_stored(
        self, allocation: Allocation, offset: Tensor, width: int, mask: Tensor | None, where: Where
    ) -> None:
        """Report reads of shared memory that another wave stored since the last barrier."""
        if allocation.writer is None:
            return
        shape = where.lanes(offset.shape)
        lane = torch.arange(math.prod(shape), device=self._device).view(shape) + where.first_lane
        wrong = torch.zeros(shape, dtype=torch.bool, device=self._device)
        for byte in range(0, width, allocation.grain):
            cell = ((offset + byte) // allocation.grain).clamp(max=allocation.writer.numel() - 1)
            writer = allocation.writer[cell.flatten()].view(offset.shape)
            wrong |= (writer != 0) & ((writer - 1) // WAVE != lane // WAVE)
        wrong = wrong if mask is None else wrong & mask
        count = int(wrong.sum())
        if count:
            place = where.pick(offset, wrong) % allocation.size
            detail = {**where.first(wrong), "offset": place, "extent": allocation.size}
            self._findings.add("missing-barrier", allocation.label, where, count, detail)

    def note_readers(
        self, allocation: Allocation, offset: Tensor, width: int, mask: Tensor | None, where: Where
    ) -> None:
        """Remember which wave read each byte of shared memory since the last barrier (-1: several)."""
        if not allocation.size or HOISTED.match(where.location):
            return
        shape = where.lanes(offset.shape)
        lane = torch.arange(math.prod(shape), device=self._device).view(shape) + where.first_lane
        every = torch.ones(shape, dtype=torch.bool, device=self._device)
        chosen = (every if mask is None else mask.expand(shape)).flatten().nonzero().squeeze(1)
        wave = (lane.flatten()[chosen] // WAVE + 1).to(torch.int32)
        at = offset.expand(shape).flatten()[chosen].long()
        if allocation.reader is None:
            allocation.reader = torch.zeros(allocation.data.numel(), dtype=torch.int32, device=self._device)
        reader = allocation.reader
        for byte in range(width):
            cell = at + byte
            before = reader[cell]
            reader[cell] = wave
            several = (before != 0) & (before != wave) | (reader[cell] != wave)
            reader[cell[several]] = -1

    def check_readers(
        self, allocation: Allocation, offsets: Tensor, width: int, chosen: Tensor, where: Where
    ) -> None:
        """Report stores to shared memory that another wave reads in the same stretch between barriers.

        A read that has no line in the source is the compiler's: hoisted out of a branch, as that of
        ``x |= y`` may be, it gives the lanes that do not take the branch nothing that they use.
        """
        assert allocation.reader is not None
        wave = (chosen + where.first_lane) // WAVE + 1
        wrong = torch.zeros_like(wave, dtype=torch.bool)
        for byte in range(width):
            reader = allocation.reader[offsets + byte]
            wrong |= (reader != 0) & (reader != wave)
        count = int(wrong.sum())
        if count:
            spot = int(wrong.nonzero()[0])
            place = int(offsets[spot]) % allocation.size
            detail = {**where.coordinates(int(chosen[spot])), "offset": place, "extent": allocation.size}
            self._findings.add("overwritten-early", allocation.label, where, count, detail)

    def note_writers(
        self, allocation: Allocation, offsets: Tensor, width: int, chosen: Tensor, where: Where
    ) -> None:
        grain = 4 if width % 4 == 0 and allocation.size % 4 == 0 and not bool((offsets & 3).any()) else 1
        writer = self._writers(allocation, grain)
        grain = allocation.grain
        me = (chosen + 1 + where.first_lane).to(torch.int32)
        group = (me - 1).div(where.shape[1] * where.shape[2], rounding_mode="floor")
        other = torch.zeros_like(me)  # another lane that stored to one of the cells of this lane
        for step in range(max(1, width // grain)):
            cell = offsets // grain + step
            before = writer[cell]
            writer[cell] = me
            if self._settles and allocation.per_cta is None:
                self._stored.setdefault(allocation, []).append(cell)
                # Settled by another workgroup: its first lane stands for it.
                first = (-2 - before) * (where.shape[1] * where.shape[2]) + 1
                before = torch.where(before < -1, torch.where(-2 - before == group, 0, first), before)
            for rival in (before, writer[cell]):
                other = torch.where((other == 0) & (rival > 0) & (rival != me), rival, other)
        clash = other != 0
        if bool(clash.any()):
            spot = int(clash.nonzero()[0])
            detail = {
                **where.coordinates(int(chosen[spot])),
                "offset": int(offsets[spot]) % allocation.size,
                "extent": allocation.size,
                "other": where.coordinates(int(other[spot]) - 1 - where.first_lane),
            }
            self._findings.add("write-race", allocation.label, where, int(clash.sum()), detail)

    def _writers(self, allocation: Allocation, grain: int) -> Tensor:
        """Who stored each cell of ``grain`` bytes (0: nobody, -1: an earlier launch).

        Zero pages cost nothing until touched.
        """
        if allocation.writer is None:
            allocation.grain = grain
            zeros = np.zeros(-(-allocation.data.numel() // grain), dtype=np.int32)
            allocation.writer = torch.from_numpy(zeros).to(self._device)
        elif grain < allocation.grain:
            allocation.writer = allocation.writer.repeat_interleave(allocation.grain // grain)
            allocation.grain = grain
        return allocation.writer
