"""ATOM's decode over shards: maps of positions, candidates, the exchange, the filter of owned slots.

The filter, and in some versions the packing, are Triton kernels, interpreted. The exchange runs
whole, over the process group of the ranks; its scorer and its top-k are kernels for a GPU, so theirs
are the places of `Engine`. What a version does not have (the ids of older exchanges, the row lengths of
newer ones) is not answered; what every version has and this one has not is `Unsupported`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from harness.paths import base
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.exchanging import Exchanger, home
from harness.paths.atom.path import AtomPath
from harness.paths.requests import sharding as asked

OPS = ("atom/model_ops/dcp_ops.py",)
BUILDER = "atom/model_ops/attentions/aiter_mla.py"
LENGTHS = "get_dcp_local_seq_lens"
WINDOWS = "get_dcp_local_window_lens"
SLOT = "AiterMLAMetadataBuilder._dcp_round_robin_slot"
PACK = "dcp_pack_topk_candidates"
FILTER = "triton_filter_and_convert_dcp_index"


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AtomPath)
    made: dict[type, Callable[[Any], base.Outcome]] = {
        asked.Owners: lambda it: owners(path, it),
        asked.LocalIndices: lambda it: local_indices(path, it),
        asked.GlobalPositions: lambda it: global_positions(path, it),
        asked.LocalLengths: lambda it: local_lengths(path, it),
    }
    if path.has(OPS, WINDOWS):
        made[asked.RowLengths] = lambda it: row_lengths(path, it)
    if path.has((BUILDER,), SLOT):
        made[asked.WriteSlots] = lambda it: write_slots(path, it)
    if path.has(OPS, PACK):
        made[asked.PackCandidates] = lambda it: pack_candidates(path, it)
    if path.has(OPS, FILTER):
        made[asked.LocaliseIds] = lambda it: localise_ids(path, it)
    found = home(path)
    if found is not None:
        made[asked.Exchange] = Exchanger(path, *found)
    return made


def _by_place(place: asked.Place) -> dict[str, int]:
    return {"dcp_size": place.world, "cp_kv_cache_interleave_size": place.inter}


def owners(path: AtomPath, request: asked.Owners) -> base.Outcome:
    arguments = {"pos": request.positions, **_by_place(request.place)}
    return path.outcome(path.load(OPS, "dcp_owner_rank", tuple(arguments))(**arguments), "dcp_owner_rank")


def local_indices(path: AtomPath, request: asked.LocalIndices) -> base.Outcome:
    arguments = {"pos": request.positions, **_by_place(request.place)}
    return path.outcome(path.load(OPS, "dcp_local_index", tuple(arguments))(**arguments), "dcp_local_index")


def global_positions(path: AtomPath, request: asked.GlobalPositions) -> base.Outcome:
    place = request.place
    arguments = {"local_index": request.local, "dcp_rank": place.rank, **_by_place(place)}
    return path.outcome(path.load(OPS, "dcp_global_pos", tuple(arguments))(**arguments), "dcp_global_pos")


def local_lengths(path: AtomPath, request: asked.LocalLengths) -> base.Outcome:
    place = request.place
    arguments = {"seq_lens": request.lengths.numpy(), "dcp_rank": place.rank, **_by_place(place)}
    made = path.load(OPS, LENGTHS, tuple(arguments))(**arguments)
    return path.outcome(torch.from_numpy(made).to(torch.int32), LENGTHS)


def row_lengths(path: AtomPath, request: asked.RowLengths) -> base.Outcome:
    place = request.place
    arguments = {
        "seq_lens": request.context_lens.numpy(),
        "max_seqlen_q": request.next_n,
        "dcp_rank": place.rank,
        **_by_place(place),
    }
    made = path.load(OPS, WINDOWS, tuple(arguments))(**arguments)
    return path.outcome(torch.from_numpy(made).to(torch.int32), WINDOWS)


def write_slots(path: AtomPath, request: asked.WriteSlots) -> base.Outcome:
    """The builder is asked token by token; a row of padding it is never asked, and its slot stays -1."""
    place, tables = request.place, request.tables.tolist()
    builder = atom_tree.stand_in(
        path.space,
        BUILDER,
        SLOT.split(".")[0],
        dcp_world_size=place.world,
        dcp_rank=place.rank,
        cp_kv_cache_interleave_size=place.inter,
        model_runner=SimpleNamespace(block_size=request.page_rows),
    )
    slot = path.load((BUILDER,), SLOT, ("block_table", "pos"))
    slots = [
        slot(builder, block_table=table, pos=position) if position >= 0 else -1
        for position, table in zip(request.positions.tolist(), tables, strict=True)
    ]
    return path.outcome(torch.tensor(slots), SLOT)


def pack_candidates(path: AtomPath, request: asked.PackCandidates) -> base.Outcome:
    place, pair = request.place, torch.empty(2, *request.ids.shape)
    arguments = {
        "local_logits": request.scores,
        "local_idx": request.ids,
        "local_lens": request.lengths,
        "dcp_rank": place.rank,
        "dcp_world_size": place.world,
        "out_pair": pair,
        "cp_kv_cache_interleave_size": place.inter,
    }
    path.load(OPS, PACK, tuple(arguments))(**arguments)
    return path.outcome((pair[0], pair.view(torch.int32)[1]), PACK)


def localise_ids(path: AtomPath, request: asked.LocaliseIds) -> base.Outcome:
    """The rank's slots. Where a version keeps a dummy entry for an empty row, the counts say so."""
    place, (rows, k) = request.place, request.ids.shape
    bounds, counts = (torch.full((rows + 1,), -1, dtype=torch.int32) for _ in range(2))
    out = torch.full((rows * (k + 1),), -1, dtype=torch.int32)
    every_row = torch.arange(rows + 1, dtype=torch.int32)
    arguments = {
        "block_table": request.tables,
        "token_indices": request.ids,
        "dcp_rank": place.rank,
        "dcp_world_size": place.world,
        "block_size": request.page_rows,
        "out_kv_indptr": bounds,
        "owned_counts": counts,
        "NUM_TOPK_TOKENS": k,
        "BLOCK_N": min(128, math.gcd(k, 1 << 20)),
        "out": out,
        "cp_kv_cache_interleave_size": place.inter,
    }
    by_token = "token_to_seq_idxs" in inspect.signature(path.load(OPS, FILTER)).parameters
    if by_token:
        arguments |= {"token_to_seq_idxs": every_row[:rows], "num_tokens": rows}
    else:
        arguments |= {"qo_indptr": every_row, "global_kv_indptr": every_row * k}
    path.load(OPS, FILTER, tuple(arguments))(**arguments)
    if by_token:
        kept = [out[start : start + count] for start, count in zip(bounds, counts[:rows], strict=False)]
        bounds = torch.nn.functional.pad(counts[:rows].cumsum(0), (1, 0)).to(torch.int32)
        return path.outcome((bounds, torch.cat(kept)), FILTER)
    return path.outcome((bounds, out[: int(bounds[-1])]), FILTER)
