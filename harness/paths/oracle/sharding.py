"""The oracle's answers about decode over shards."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests import sharding as asked
from oracles import dcp


def answers(path: base.Path) -> base.Answers:
    return {
        asked.Owners: owners,
        asked.LocalIndices: local_indices,
        asked.GlobalPositions: global_positions,
        asked.LocalLengths: local_lengths,
        asked.RowLengths: row_lengths,
        asked.LocalWidth: local_width,
        asked.WriteSlots: write_slots,
        asked.PackCandidates: pack_candidates,
        asked.MergeCandidates: merge_candidates,
        asked.MergeColumns: merge_columns,
        asked.LocaliseIds: localise_ids,
        asked.LocaliseColumns: localise_columns,
    }


def sharding(place: asked.Place) -> dcp.Sharding:
    return dcp.Sharding(place.world, place.inter)


def owners(request: asked.Owners) -> base.Outcome:
    return base.Outcome(dcp.owner(sharding(request.place), request.positions))


def local_indices(request: asked.LocalIndices) -> base.Outcome:
    return base.Outcome(dcp.local_index(sharding(request.place), request.positions))


def global_positions(request: asked.GlobalPositions) -> base.Outcome:
    place = request.place
    return base.Outcome(dcp.global_position(sharding(place), place.rank, request.local))


def local_lengths(request: asked.LocalLengths) -> base.Outcome:
    place = request.place
    return base.Outcome(dcp.local_lengths(sharding(place), place.rank, request.lengths).to(torch.int32))


def row_lengths(request: asked.RowLengths) -> base.Outcome:
    place = request.place
    made = dcp.row_lengths(sharding(place), place.rank, request.context_lens, request.next_n)
    return base.Outcome(made.to(torch.int32))


def local_width(request: asked.LocalWidth) -> base.Outcome:
    return base.Outcome(torch.tensor([dcp.local_width(sharding(request.place), request.max_seq_len)]))


def write_slots(request: asked.WriteSlots) -> base.Outcome:
    place = request.place
    made = dcp.write_slots(sharding(place), place.rank, request.positions, request.tables, request.page_rows)
    return base.Outcome(made)


def pack_candidates(request: asked.PackCandidates) -> base.Outcome:
    place = request.place
    scores, ids = dcp.candidates(sharding(place), place.rank, request.scores, request.ids, request.lengths)
    return base.Outcome((scores, ids.to(torch.int32)))


def merge_candidates(request: asked.MergeCandidates) -> base.Outcome:
    return base.Outcome(dcp.merge(request.scores, request.ids, request.k).to(torch.int32))


def merge_columns(request: asked.MergeColumns) -> base.Outcome:
    return base.Outcome(dcp.merge_columns(request.scores, request.k).to(torch.int32))


def localise_ids(request: asked.LocaliseIds) -> base.Outcome:
    return base.Outcome(_slots(request.ids, request.tables, request.page_rows, request.place))


def localise_columns(request: asked.LocaliseColumns) -> base.Outcome:
    place = request.place
    mine = dcp.own_candidates(request.columns, request.ids, place.rank)
    ids = dcp.global_position(sharding(place), place.rank, mine).where(mine >= 0, dcp.PAD)
    return base.Outcome(_slots(ids, request.tables, request.page_rows, place))


def _slots(ids: Tensor, tables: Tensor, page_rows: int, place: asked.Place) -> tuple[Tensor, Tensor]:
    bounds, slots = dcp.localise(sharding(place), place.rank, ids, tables, page_rows)
    return bounds.to(torch.int32), slots.to(torch.int32)
