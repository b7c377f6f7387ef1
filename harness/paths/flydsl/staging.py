"""In-tree DCP prefill staging: read the shard, all-gather, put in order, write pages.

Whole planes are turned instead of single rows: a scale plane is unbent before rows are taken from
it and bent after they have been put down, so that between the two everything lies by row. How it
would fail silently: one of the turns left out, which moves scales inside their page and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests.staging import GatherPlan, StagePrefill
from oracles.staging import Shard

LANES = 16


def answers(path: base.Path) -> base.Answers:
    return {GatherPlan: gather_plan, StagePrefill: stage_prefill}


def gather_plan(request: GatherPlan) -> base.Outcome:
    return base.Outcome(plan(request.context_lens, request.world, request.inter), facts={"executor": "torch"})


def stage_prefill(request: StagePrefill) -> base.Outcome:
    local_cu, index = plan(request.context_lens, request.world, request.inter)
    codes, scales = (request.all_gather(part) for part in read(request.shard, local_cu))
    k_codes, k_scales = write(codes, scales, index, request.shard.k_codes.shape[3])
    tables = identity(len(request.context_lens), len(k_codes), request.max_batch, request.sequence_pages)
    return base.Outcome((k_codes, k_scales, tables), facts={"executor": "torch"})


def plan(context_lens: Tensor, world: int, inter: int) -> tuple[Tensor, Tensor]:
    """(local_cu int32 [B+1], gather_index int32 [L]): whole rounds of ``inter`` keys from each rank.

    A round brings world * inter positions, rank by rank; flattened in that order they are the
    positions themselves.
    """
    rounds = -(-context_lens.long() // (world * inter))
    local_cu = torch.nn.functional.pad((rounds * inter).cumsum(0), (1, 0))
    rank = torch.arange(world).view(1, -1, 1) * local_cu[-1]
    index = [
        (start + rank + torch.arange(int(count) * inter).view(-1, 1, inter)).flatten()[: int(length)]
        for start, count, length in zip(local_cu, rounds, context_lens, strict=False)
    ]
    return local_cu.to(torch.int32), torch.cat(index).to(torch.int32)


def read(shard: Shard, local_cu: Tensor) -> tuple[Tensor, Tensor]:
    """What a rank sends: codes uint8 [M, K, 4, 16] and scales uint8 [M, K, 4], sequence by sequence."""
    page_rows = shard.k_codes.shape[3]
    counts = local_cu.diff().tolist()
    pages = [
        table[: -(-count // page_rows)].long()
        for table, count in zip(shard.block_tables, counts, strict=True)
    ]
    parts = []
    for by_row in (shard.k_codes.movedim(3, 1), unbent(shard.k_scales).movedim(3, 1)):
        taken = [by_row[page].flatten(0, 1)[:count] for page, count in zip(pages, counts, strict=True)]
        parts.append(torch.cat(taken))
    return parts[0], parts[1]


def write(codes: Tensor, scales: Tensor, index: Tensor, page_rows: int) -> tuple[Tensor, Tensor]:
    """Planes of the gathered rows ``index`` int32 [L] names, in that order; rows past the last are zero."""
    planes = []
    for gathered in (codes, scales):
        pages = -(-len(index) // page_rows)
        rows = gathered.new_zeros(pages * page_rows, *gathered.shape[1:])
        rows[: len(index)] = gathered[index.long()]
        planes.append(rows.unflatten(0, (pages, page_rows)).movedim(1, 3).contiguous())
    return planes[0], bent(planes[1])


def unbent(plane: Tensor) -> Tensor:
    """A scale plane [..., R] with its row axis in row order."""
    return turned(plane, LANES)


def bent(plane: Tensor) -> Tensor:
    """The inverse of `unbent`."""
    return turned(plane, plane.shape[-1] // LANES)


def turned(plane: Tensor, parts: int) -> Tensor:
    """The last axis, read as ``parts`` equal runs, transposed."""
    return plane.unflatten(-1, (parts, -1)).transpose(-1, -2).flatten(-2)


def identity(batch: int, pages: int, max_batch: int, sequence_pages: int) -> Tensor:
    """Table int32 [batch, max_batch * sequence_pages]: 0, 1, 2 ... over ``pages``, then zeros."""
    columns = max_batch * sequence_pages
    if pages > columns:
        raise ValueError(f"{pages} staged pages, a batch has room for {columns}")
    row = torch.zeros(columns, dtype=torch.int32)
    row[:pages] = torch.arange(pages, dtype=torch.int32)
    return row.repeat(batch, 1)
