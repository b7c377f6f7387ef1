"""ATOM's DCP prefill: the metadata builder's plan, and the staging of both FP4 planes.

The builder publishes the plan and, where it knows FP4, the rows to read and write; the model's
function moves the planes with them, through the collective of the request. How this would fail
silently: attributes of the builder that are made up here instead of being asked for; a missing one
therefore raises, by its name.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.path import AtomPath
from harness.paths.requests.staging import AllGather, GatherPlan, StagePrefill

BUILDER = "atom/model_ops/attentions/aiter_mla.py"
MODEL = "atom/models/deepseek_v2.py"
OWNER = "AiterMLAMetadataBuilder"
PLAN = f"{OWNER}._build_dcp_indexer_prefill_meta"
PLAN_FP4 = f"{OWNER}._build_dcp_indexer_fp4_prefill_meta"
STAGE = "_dcp_stage_indexer_fp4_prefill"
GROUP = "atom.distributed.dcp_utils.get_dcp_group"


class Group:
    """Stands for the DCP group of ATOM's ranks."""

    def __init__(self, all_gather: AllGather) -> None:
        self._all_gather = all_gather

    def all_gather(self, tensor: Tensor, dim: int = 0) -> Tensor:
        if dim:
            raise ValueError(f"dim is {dim}, the ranks' keys lie end to end along the first")
        return self._all_gather(tensor)


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AtomPath)
    return {
        GatherPlan: lambda request: gather_plan(path, request),
        StagePrefill: lambda request: stage_prefill(path, request),
    }


def gather_plan(path: AtomPath, request: GatherPlan) -> base.Outcome:
    """The plan of a batch with cached keys; of one without it must be the same.

    Raises `Unsupported` naming what the tree lacks.
    """
    plans = [
        published(path, request.context_lens, request.world, request.inter, cached=cached)
        for cached in (False, True)
    ]
    fresh, hit = ((meta.dcp_indexer_local_cu_seqlens, meta.dcp_indexer_gather_index) for meta in plans)
    if not all(torch.equal(one, other) for one, other in zip(fresh, hit, strict=True)):
        raise ValueError(f"{PLAN} plans a batch with cached keys otherwise than one without")
    return path.outcome(hit, PLAN)


def published(
    path: AtomPath, context_lens: Tensor, world: int, inter: int, *, cached: bool = True, **more: Any
) -> SimpleNamespace:
    """The metadata that the builder publishes; ``more`` are attributes of the builder and ``table``."""
    build = path.load((BUILDER,), PLAN, ("attn_metadata", "bs", "counts", "var"))
    table = more.pop("table", None)
    attributes = {"_indexer_fp4": False, "device": torch.device("cpu"), **more}
    builder = atom_tree.stand_in(
        path.space, BUILDER, OWNER, dcp_world_size=world, cp_kv_cache_interleave_size=inter, **attributes
    )
    bounds = torch.nn.functional.pad(context_lens.cumsum(0), (1, 0)).to(torch.int32).numpy()
    var = {"cu_seqlens_k" if cached else "cu_seqlens_q": SimpleNamespace(np=bounds)}
    if table is not None:
        var["block_tables"] = SimpleNamespace(np=table.contiguous().numpy())
    meta = SimpleNamespace(has_cached=cached)
    build(builder, attn_metadata=meta, bs=len(context_lens), counts=context_lens.numpy(), var=var)
    return meta


def stage_prefill(path: AtomPath, request: StagePrefill) -> base.Outcome:
    """Planes and table as ``request.rank`` stages them. Raises `Unsupported` naming what the tree lacks."""
    group = Group(request.all_gather)
    stage = path.load(
        (MODEL,),
        STAGE,
        ("kv_cache", "kv_cache_scale", "prefill_metadata", "total_kv", "block_size"),
        provided={GROUP: lambda: group},
    )
    path.load((BUILDER,), PLAN_FP4)
    shard, block_size = request.shard, request.shard.k_codes.shape[3]
    meta = published(
        path,
        request.context_lens,
        request.world,
        request.inter,
        table=shard.block_tables,
        _indexer_fp4=True,
        model_runner=SimpleNamespace(block_size=block_size),
        max_bs=request.max_batch,
        block_table_cols=request.sequence_pages,
    )
    k_codes, k_scales = stage(
        kv_cache=shard.k_codes,
        kv_cache_scale=shard.k_scales,
        prefill_metadata=meta,
        total_kv=int(request.context_lens.sum()),
        block_size=block_size,
    )
    return path.outcome((k_codes, k_scales, meta.dcp_indexer_fp4_block_tables), STAGE)
