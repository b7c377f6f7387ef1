"""DCP prefill staging with one wrong rule: scales of another row, keys in another order, narrow tables.

Contract: where the wrong rule is about what goes in or comes out, the path's own staging is asked, else the
staging oracle, for which the ranks exchange their whole pools. All ranks call the collective alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Wrong
from harness.faults.plants import telling
from harness.paths.base import Outcome
from harness.paths.requests.staging import GatherPlan, StagePrefill
from oracles import staging
from oracles.staging import Shard, Source, scale_place

Staged = tuple[Tensor, Tensor, Tensor]


def read_flat(request: StagePrefill) -> StagePrefill:
    """The scale of a row is read where the row would lie in a flat plane."""
    plane = request.shard.k_scales
    turned = torch.empty_like(plane)
    turned[..., scale_place(plane.shape[-1])] = plane
    return replace(request, shard=replace(request.shard, k_scales=turned))


def write_flat(request: StagePrefill, value: Staged) -> Staged:
    """The scale of a row is written where the row would lie in a flat plane."""
    codes, scales, tables = value
    return codes, scales[..., scale_place(scales.shape[-1])].contiguous(), tables


def both_flat(request: StagePrefill, right: Answer) -> Outcome:
    return telling(write_flat)(read_flat(request), right)


def lanes_of_64(request: StagePrefill, right: Answer) -> Outcome:
    """The multiplier of a page of 64 rows in pages of any size. Raises ValueError where it leaves them."""
    rows = request.shard.k_codes.shape[3]
    if rows < staging.PAGE:
        raise ValueError(f"a page of {rows} rows has no place {staging.PAGE - 1}")
    return Outcome(by_rules(request, tiles=staging.PAGE // staging.LANES))


def by_rules(request: StagePrefill, **rules: Any) -> Staged:
    """Planes and table under one wrong rule; the ranks exchange their whole pools."""
    shards, columns = exchanged(request), request.max_batch * request.sequence_pages
    made = staging.stage(shards, request.context_lens.tolist(), request.inter, columns, **rules)
    return made.k_codes, made.k_scales, made.block_tables


def exchanged(request: StagePrefill) -> list[Shard]:
    planes = (request.shard.k_codes, request.shard.k_scales, request.shard.block_tables)
    gathered = [request.all_gather(plane).chunk(request.world) for plane in planes]
    return [Shard(*parts) for parts in zip(*gathered, strict=True)]


def as_gathered(request: GatherPlan, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Key j is row j of what the all-gather brings."""
    local_cu, index = value
    return local_cu, torch.arange(len(index), dtype=torch.int32)


def rank_major(request: GatherPlan, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The keys of one rank after those of another, without what a rank reads past its keys."""
    source = staging.sources(request.context_lens.tolist(), request.world, request.inter)
    return value[0], value[1][torch.argsort(source.rank, stable=True)]


def unordered(order: str) -> Wrong:
    """Staged in ``order`` of the staging oracle."""
    return lambda request, right: Outcome(by_rules(request, order=order))


def owner_by_turns(request: GatherPlan, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The owner of a position ignores the interleave; the place with it does not."""
    starts = value[0].long()
    source = staging.sources(request.context_lens.tolist(), request.world, request.inter)
    owner = source.position % request.world
    return value[0], (owner * starts[-1] + starts[source.sequence] + source.local).to(torch.int32)


def staged_from(sources: Callable[[StagePrefill, Source], Source]) -> Wrong:
    """Keys taken from other places than their own, in their own order."""

    def answer(request: StagePrefill, right: Answer) -> Outcome:
        shards, lengths = exchanged(request), request.context_lens.tolist()
        codes, scales, tables = by_own_rules(request, shards)
        source = sources(request, staging.sources(lengths, request.world, request.inter))
        rows = codes.shape[3]
        place, key = scale_place(rows), torch.arange(len(source.rank))
        for rank, shard in enumerate(shards):
            mine = (source.rank == rank).nonzero().flatten()
            page = (source.local[mine] // rows).clamp(max=shard.block_tables.shape[1] - 1)
            block, row = shard.block_tables[source.sequence[mine], page].long(), source.local[mine] % rows
            to, at = key[mine] // rows, key[mine] % rows
            codes[to, :, :, at] = shard.k_codes[block, :, :, row]
            scales[to, :, :, place[at]] = shard.k_scales[block, :, :, place[row]]
        return Outcome((codes, scales, tables))

    return answer


def by_own_rules(request: StagePrefill, shards: list[Shard]) -> Staged:
    columns = request.max_batch * request.sequence_pages
    made = staging.stage(shards, request.context_lens.tolist(), request.inter, columns)
    return made.k_codes, made.k_scales, made.block_tables


def by_turns(request: StagePrefill, source: Source) -> Source:
    return replace(source, rank=source.position % request.world)


def without_the_tail(request: StagePrefill, value: Staged) -> Staged:
    """Keys past the last whole page are not staged; windows still name them."""
    codes, scales, tables = value
    rows = codes.shape[3]
    whole = int(request.context_lens.sum()) // rows
    codes, scales = codes.clone(), scales.clone()
    codes[whole:], scales[whole:] = 0, 0
    return codes, scales, tables


def one_sequence(request: StagePrefill, value: Staged) -> Staged:
    """The table one sequence wide. Raises RuntimeError where it cannot hold what was staged."""
    codes, scales, tables = value
    if len(codes) > request.sequence_pages:
        raise RuntimeError(
            f"The expanded size of the tensor ({request.sequence_pages}) must match the existing size"
            f" ({len(codes)})"
        )
    return codes, scales, tables[:, : request.sequence_pages]


def tail_names_a_page(request: StagePrefill, value: Staged) -> Staged:
    """Entries past the staged pages name the last of them."""
    codes, scales, tables = value
    tables = tables.clone()
    tables[:, len(codes) :] = len(codes) - 1
    return codes, scales, tables


def short_reads(request: GatherPlan, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Every rank reads what an even share would be, rounded down."""
    starts = torch.nn.functional.pad((request.context_lens.long() // request.world).cumsum(0), (1, 0))
    source = staging.sources(request.context_lens.tolist(), request.world, request.inter)
    index = source.rank * starts[-1] + starts[source.sequence] + source.local
    return starts.to(torch.int32), index.to(torch.int32)
