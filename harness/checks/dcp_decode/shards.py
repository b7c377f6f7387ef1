"""The shards of a case: each rank's own pages, and where every key of every sequence lies in them.

A rank's pool holds its own keys and poison, its pages are permuted with a seed of its own, and its
block table is by local page, one row a query row. With the pages of all ranks alike, or with the global
table, a rank that reads another's keys would find the right ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.dcp_decode import needles as dcp_needles
from harness.fill import inputs, pages
from harness.fill.inputs import Inputs
from harness.paths.requests.scoring import Planes
from harness.paths.requests.sharding import Place
from oracles import dcp
from oracles.dcp import Sharding

SEEDS = 1 << 31


@dataclass(frozen=True)
class Share:
    """What one rank is given: its own planes, and the lengths that all ranks know.

    ``planes``: keys of this rank, tables int32 [T, pages]; ``inside`` bool [T, W']: cells it must score.
    """

    case: Case
    place: Place
    planes: Planes
    context_lens: Tensor
    weight_scale: float
    inside: Tensor


@dataclass(frozen=True)
class Shard:
    """One rank as the oracle sees it.

    lengths int64 [T]: its part of every window; positions int64 [T, W']: global position of each of its
    columns, -1 outside the window; keys: slot to (sequence, position), int64 [slots, 2], -1 where no
    key of its own lies.
    """

    share: Share
    lengths: Tensor
    positions: Tensor
    keys: Tensor


def build(case: Case) -> Inputs:
    """The whole case on one rank, with a needle at the newest position of each row."""
    whole = inputs.build(case)
    filled = dcp_needles.plant(whole)
    return replace(whole, filled=filled, planes=inputs.make_planes(case, filled))


def shards(whole: Inputs) -> list[Shard]:
    """The shard of every rank."""
    return [_shard(whole, Place(whole.case.world, whole.case.inter, r)) for r in range(whole.case.world)]


def sharding_of(case: Case) -> Sharding:
    return Sharding(case.world, case.inter)


def _shard(whole: Inputs, place: Place) -> Shard:
    case, sharding = whole.case, sharding_of(whole.case)
    held = [dcp.owned(sharding, place.rank, length) for length in case.ctx]
    first = torch.tensor(case.ctx).cumsum(0) - torch.tensor(case.ctx)
    mine = torch.cat([first[seq] + position for seq, position in enumerate(held)])
    filled = replace(whole.filled, k_codes=whole.filled.k_codes[mine], k_scales=whole.filled.k_scales[mine])
    local = case.but(ctx=tuple(len(position) for position in held), s=(case.s * 31 + 1 + place.rank) % SEEDS)
    planes = inputs.make_planes(local, filled)
    lengths = dcp.row_lengths(sharding, place.rank, whole.context_lens, case.n)
    column = torch.arange(dcp.local_width(sharding, case.width))
    inside = column < lengths.unsqueeze(1)
    by_row = replace(planes, block_tables=planes.block_tables.repeat_interleave(case.n, dim=0))
    share = Share(case, place, by_row, whole.context_lens, whole.filled.weight_scale, inside)
    positions = dcp.global_position(sharding, place.rank, column).where(inside, dcp.PAD)
    return Shard(share, lengths, positions, _keys(planes, local.ctx, held))


def _keys(planes: Planes, lengths: tuple[int, ...], held: list[Tensor]) -> Tensor:
    slots = pages.slots(lengths, planes.block_tables)
    sequence = torch.arange(len(held)).repeat_interleave(torch.tensor(lengths))
    keys = torch.full((planes.k_codes.shape[0] * pages.PAGE, 2), dcp.PAD)
    keys[slots] = torch.stack((sequence, torch.cat(held)), dim=1)
    return keys
