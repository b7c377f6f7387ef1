"""The oracle's answers about DCP prefill staging."""

from __future__ import annotations

import torch

from harness.paths import base
from harness.paths.requests.staging import GatherPlan, StagePrefill
from oracles import dcp, staging


def answers(path: base.Path) -> base.Answers:
    return {GatherPlan: gather_plan, StagePrefill: stage_prefill}


def gather_plan(request: GatherPlan) -> base.Outcome:
    """Every rank reads as many keys as the first, which holds the most."""
    sharding = dcp.Sharding(request.world, request.inter)
    most = dcp.local_lengths(sharding, 0, request.context_lens)
    local_cu = torch.cat((torch.zeros(1, dtype=torch.int64), most.cumsum(0)))
    lengths = request.context_lens.tolist()
    index = staging.gather_index(lengths, request.world, request.inter, local_cu)
    return base.Outcome((local_cu.to(torch.int32), index.to(torch.int32)))


def stage_prefill(request: StagePrefill) -> base.Outcome:
    """The ranks exchange their whole pools, which are of one size, and each stages by itself."""
    shard = request.shard
    planes = (shard.k_codes, shard.k_scales, shard.block_tables)
    gathered = [request.all_gather(plane).chunk(request.world) for plane in planes]
    shards = [staging.Shard(*parts) for parts in zip(*gathered, strict=True)]
    columns = request.max_batch * request.sequence_pages
    made = staging.stage(shards, request.context_lens.tolist(), request.inter, columns)
    return base.Outcome((made.k_codes, made.k_scales, made.block_tables))
