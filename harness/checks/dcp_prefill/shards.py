"""What suite dcp-prefill asks with: the keys of a case dealt to ranks, each with pages of its own.

Every rank has a pool whose pages are permuted in a way of its own. All that is no key is poison (codes
0xFF, scales 255): pages of nobody, and the rows past a rank's keys, which the gather does read.
Keys are dealt by ``oracles.dcp`` and written by ``oracles.layout``; the staging oracle states both
anew, so that no constant is wrong on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import pages
from harness.fill.fills import Filled
from harness.paths.requests.staging import AllGather, GatherPlan, StagePrefill
from oracles import dcp, layout, staging
from oracles.staging import Shard

SPARE = 1
"""Sequences that the batch has room for beyond those it holds, so that the staged table has a tail."""


@dataclass(frozen=True)
class Job:
    """Sequences ``chosen`` of a case, the first ``lengths`` keys of each, in pages of ``page_rows``."""

    case: Case
    filled: Filled
    chosen: tuple[int, ...]
    lengths: tuple[int, ...]
    page_rows: int = pages.PAGE

    @property
    def total(self) -> int:
        return sum(self.lengths)

    @cached_property
    def keys(self) -> Tensor:
        """Row in the operands of the case of every staged key, int64 [L]."""
        starts = torch.tensor(self.case.ctx).cumsum(0) - torch.tensor(self.case.ctx)
        parts = [
            starts[seq] + torch.arange(length) for seq, length in zip(self.chosen, self.lengths, strict=True)
        ]
        return torch.cat(parts)

    @cached_property
    def starts(self) -> Tensor:
        """First staged key of each sequence, int64 [B]."""
        lengths = torch.tensor(self.lengths)
        return lengths.cumsum(0) - lengths

    @property
    def context_lens(self) -> Tensor:
        return torch.tensor(self.lengths, dtype=torch.int32)

    @cached_property
    def source(self) -> staging.Source:
        """Where every staged key comes from."""
        return staging.sources(self.lengths, self.case.world, self.case.inter)

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        return tuple(self._shard(rank) for rank in range(self.case.world))

    def _shard(self, rank: int) -> Shard:
        world, rows, case = self.case.world, self.page_rows, self.case
        held = [staging.pages_of(length, world, page_rows=rows) * pages.PAGE for length in self.lengths]
        placement = pages.place(tuple(held), case.t, case.s * 8 + rank)
        size = (placement.blocks, case.d // 128, 4, rows, 16)
        k_codes = torch.full(size, 0xFF, dtype=torch.uint8)
        k_scales = torch.full(size[:-1], 255, dtype=torch.uint8)
        tables = placement.tables
        if case.t == "strided":
            k_codes, k_scales = pages.embedded(k_codes, 0xFF), pages.embedded(k_scales, 255)
            tables = pages.embedded(tables, int(tables[0, -1]))
        keys, slots = self._held(rank, tables)
        layout.write_keys(k_codes, k_scales, self.filled.k_codes[keys], self.filled.k_scales[keys], slots)
        return Shard(k_codes, k_scales, tables)

    def _held(self, rank: int, tables: Tensor) -> tuple[Tensor, Tensor]:
        """(rows of the operands, slots) int64 of the keys that ``rank`` holds."""
        keys, slots = [], []
        for sequence, length in enumerate(self.lengths):
            position = dcp.owned(dcp.Sharding(self.case.world, self.case.inter), rank, length)
            local = torch.arange(len(position))
            keys.append(self.keys[self.starts[sequence] + position])
            slots.append(
                tables[sequence, local // self.page_rows].long() * self.page_rows + local % self.page_rows
            )
        return torch.cat(keys), torch.cat(slots)

    def plan(self) -> GatherPlan:
        return GatherPlan(self.context_lens, self.case.world, self.case.inter)

    def request(self, rank: int, all_gather: AllGather) -> StagePrefill:
        return StagePrefill(
            self.shards[rank],
            self.context_lens,
            self.case.world,
            self.case.inter,
            rank,
            len(self.lengths) + SPARE,
            self.sequence_pages,
            all_gather,
        )

    @property
    def sequence_pages(self) -> int:
        """Pages of the longest sequence: what one may have, and less than the batch takes."""
        return -(-max(self.lengths) // self.page_rows)

    @property
    def columns(self) -> int:
        """Width of the staged table."""
        return (len(self.lengths) + SPARE) * self.sequence_pages
