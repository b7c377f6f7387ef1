"""Decode over shards with one wrong rule: what was got wrong on paths like this one, and near neighbours.

Made by name, so that a rank process can make the same path again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.paths.base import Answers, Outcome
from harness.paths.oracle import OraclePath, selecting, sharding
from harness.paths.requests import sharding as asked
from harness.paths.requests.scoring import DecodeSchedule, DecodeScores
from harness.paths.requests.selecting import SelectDecode
from harness.paths.requests.sharding import Place
from oracles import dcp

Answer = Callable[[Any], Outcome]


class FaultyPath(OraclePath):
    """The oracle, but for the answers of fault ``fault``."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    @cached_property
    def table(self) -> Answers:
        return {**super().table, **FAULTS[self.fault]}


def one_at_a_time(answer: Answer) -> Answer:
    """As if S were 1."""
    return lambda request: answer(replace(request, place=replace(request.place, inter=1)))


def uniform(request: asked.RowLengths) -> Outcome:
    """Every row of a sequence gets the part of the newest."""
    made = sharding.row_lengths(replace(request, next_n=1)).value
    return Outcome(made.repeat_interleave(request.next_n))


def counted_back(request: asked.RowLengths) -> Outcome:
    """The older rows counted back from the local length of the newest."""
    newest = sharding.row_lengths(replace(request, next_n=1)).value
    older = torch.arange(request.next_n - 1, -1, -1, dtype=torch.int32)
    return Outcome((newest[:, None] - older).clamp(min=0).flatten())


def rounded_up_width(request: asked.LocalWidth) -> Outcome:
    return Outcome(torch.tensor([-(-request.max_seq_len // request.place.world)]))


def slot_of_padding(request: asked.WriteSlots) -> Outcome:
    """Padding takes the slot of position 0."""
    return sharding.write_slots(replace(request, positions=request.positions.clamp(min=0)))


def rank_major_ids(request: asked.PackCandidates) -> Outcome:
    """Global ids as if the ranks' keys lay one after the other."""
    scores, ids = sharding.pack_candidates(request).value
    local = request.ids + request.place.rank * request.scores.shape[1]
    return Outcome((scores, local.where(ids >= 0, -1)))


def padding_with_a_score(request: asked.PackCandidates) -> Outcome:
    """Padding sends the score of key 0 instead of -inf."""
    scores, ids = sharding.pack_candidates(request).value
    first = request.scores[:, :1] if request.scores.shape[1] else torch.zeros(len(ids), 1)
    return Outcome((torch.where(ids >= 0, scores, first), ids))


def end_of_the_keys(request: asked.PackCandidates) -> Outcome:
    """The first id past the rank's keys is taken for a key."""
    return sharding.pack_candidates(replace(request, lengths=request.lengths + 1))


def ids_packed_first(request: asked.MergeCandidates) -> Outcome:
    """Counts the valid ids of a rank, and takes as many from the front."""
    count = (request.ids >= 0).sum(2, keepdim=True)
    front = torch.arange(request.ids.shape[2]) < count
    return sharding.merge_candidates(replace(request, ids=request.ids.where(front, -1)))


def padding_as_candidate(request: asked.MergeCandidates) -> Outcome:
    """A row that has fewer keys than k is filled up with key 0."""
    return Outcome(sharding.merge_candidates(request).value.clamp(min=0))


def own_first(request: asked.MergeCandidates) -> Outcome:
    """Ties go to the candidates of whoever merges."""
    order = torch.arange(request.place.world).roll(-request.place.rank)
    scores = request.scores[order].transpose(0, 1).flatten(1)
    ids = request.ids[order].transpose(0, 1).flatten(1)
    best = scores.masked_fill(ids < 0, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    taken = ids.gather(1, best)[:, : request.k]
    return Outcome(torch.nn.functional.pad(taken, (0, request.k - taken.shape[1]), value=-1))


def id_in_the_score(request: asked.MergeCandidates) -> Outcome:
    """Score and id in one number that has ten bits for the id."""
    scores, ids = (part.transpose(0, 1).flatten(1) for part in (request.scores, request.ids))
    return Outcome(torch.take_along_dim(ids, _packed(scores, ids.long(), ids < 0, request.k), dim=1))


def column_in_the_score(request: asked.MergeColumns) -> Outcome:
    """The same with two bits for the column."""
    scores = request.scores.transpose(0, 1).flatten(1)
    columns = torch.arange(scores.shape[1]).expand_as(scores)
    padding = scores == -torch.inf
    taken = _packed(scores, columns << 8, padding, request.k)
    return Outcome(torch.take_along_dim(columns.masked_fill(padding, -1), taken, dim=1).to(torch.int32))


def _packed(scores: Tensor, names: Tensor, padding: Tensor, k: int) -> Tensor:
    """Places of the k largest by a number of score and name, those of padding last."""
    bits = scores.view(torch.int32).long()
    order = torch.where(bits < 0, -(1 << 31) - bits, bits)
    key = (order * (1 << 10) - names).masked_fill(padding, torch.iinfo(torch.int64).min)
    return key.sort(dim=1, descending=True).indices[:, :k]


def by_process(request: asked.MergeColumns) -> Outcome:
    """Ties as they happen to fall in this process."""
    flat = request.scores.transpose(0, 1).flatten(1)
    order = torch.randperm(flat.shape[1], generator=torch.Generator().manual_seed(os.getpid()))
    best = flat[:, order].sort(dim=1, descending=True, stable=True)
    columns = order[best.indices].where(best.values > -torch.inf, -1)[:, : request.k]
    padded = torch.nn.functional.pad(columns, (0, request.k - columns.shape[1]), value=-1)
    return Outcome(padded.to(torch.int32))


def neighbours_columns(request: asked.LocaliseColumns) -> Outcome:
    """The block of candidates of the next rank."""
    place = request.place
    sent = request.ids.shape[1]
    moved = (request.columns + sent).where(request.columns >= 0, -1)
    return sharding.localise_columns(replace(request, columns=moved % (sent * place.world)))


def global_ids_in_the_local_table(request: asked.LocaliseIds) -> Outcome:
    """B40: an owned id is looked up as it is."""
    place, rows = request.place, request.page_rows
    ids = request.ids.long()
    mine = (ids >= 0) & (dcp.owner(dcp.Sharding(place.world, place.inter), ids) == place.rank)
    page = (ids.clamp(min=0) // rows).clamp(max=request.tables.shape[1] - 1)
    slots = request.tables.long().gather(1, page) * rows + ids % rows
    return _compact(slots, mine)


def every_id_is_its_own(request: asked.LocaliseIds) -> Outcome:
    """Each rank converts all ids."""
    place, rows = request.place, request.page_rows
    ids = request.ids.long()
    local = dcp.local_index(dcp.Sharding(place.world, place.inter), ids.clamp(min=0))
    slots = request.tables.long().gather(1, local // rows) * rows + local % rows
    return _compact(slots, ids >= 0)


def with_holes(request: asked.LocaliseIds) -> Outcome:
    """As many entries as ids, -1 for those of other ranks."""
    bounds, slots = sharding.localise_ids(request).value
    rows, k = request.ids.shape
    filled = torch.full((rows, k), -1, dtype=torch.int32)
    for row in range(rows):
        own = slots[bounds[row] : bounds[row + 1]]
        filled[row, : len(own)] = own
    return Outcome((torch.arange(rows + 1, dtype=torch.int32) * k, filled.flatten()))


def first_sequence_everywhere(request: asked.LocaliseIds) -> Outcome:
    """All rows through the table of the first."""
    return sharding.localise_ids(replace(request, tables=request.tables[:1].expand_as(request.tables)))


def one_too_few(request: SelectDecode) -> Outcome:
    """The last place of the local selection stays empty."""
    ids = selecting.decode(request).value
    ids[:, -1] = -1
    return Outcome(ids)


def window_one_longer(request: SelectDecode) -> Outcome:
    """B32: a window of the top-k that is one longer than the scorer's."""
    longer = (request.context_lens + 1).clamp(max=request.logits.shape[1])
    return selecting.decode(replace(request, context_lens=longer))


def of_the_first_rows(request: DecodeSchedule) -> Outcome:
    """B21: a schedule of as many lengths as there are sequences, taken from the front of all rows."""
    front = request.context_lens.clone()
    front[len(front) // 2 :] = front[: len(front) - len(front) // 2]
    return OraclePath().decode_schedule(replace(request, context_lens=front))


def table_of_another_row(request: DecodeScores) -> Outcome:
    """Rows of a sequence counted as sequences: row r reads the table of row r + 1."""
    moved = request.planes.block_tables.roll(-1, 0) if request.next_n == 1 else request.planes.block_tables
    return OraclePath().decode(replace(request, planes=replace(request.planes, block_tables=moved)))


def _compact(slots: Tensor, kept: Tensor) -> Outcome:
    bounds = torch.cat((torch.zeros(1, dtype=torch.int64), kept.sum(1).cumsum(0)))
    return Outcome((bounds.to(torch.int32), slots[kept].to(torch.int32)))


def shifted(request: asked.GlobalPositions) -> Outcome:
    """The inverse of another rule: rank-major."""
    place: Place = request.place
    return Outcome(request.local + place.rank * len(request.local))


FAULTS: Mapping[str, Mapping[type, Answer]] = {
    "local-length-uniform": {asked.RowLengths: uniform},
    "local-length-counted-back": {asked.RowLengths: counted_back},
    "owner-round-robin-only": {asked.Owners: one_at_a_time(sharding.owners)},
    "index-round-robin-only": {asked.LocalIndices: one_at_a_time(sharding.local_indices)},
    "lengths-round-robin-only": {asked.LocalLengths: one_at_a_time(sharding.local_lengths)},
    "slots-round-robin-only": {asked.WriteSlots: one_at_a_time(sharding.write_slots)},
    "ids-round-robin-only": {asked.PackCandidates: one_at_a_time(sharding.pack_candidates)},
    "filter-round-robin-only": {asked.LocaliseIds: one_at_a_time(sharding.localise_ids)},
    "local-selection-short": {SelectDecode: one_too_few},
    "local-window-one-longer": {SelectDecode: window_one_longer},
    "width-rounded-up": {asked.LocalWidth: rounded_up_width},
    "slot-of-padding": {asked.WriteSlots: slot_of_padding},
    "gather-order": {asked.PackCandidates: rank_major_ids},
    "gather-order-back": {asked.GlobalPositions: shifted},
    "padding-with-a-score": {asked.PackCandidates: padding_with_a_score},
    "one-key-too-many": {asked.PackCandidates: end_of_the_keys},
    "merge-drops-interleaved-padding": {asked.MergeCandidates: ids_packed_first},
    "merge-fills-with-key-0": {asked.MergeCandidates: padding_as_candidate},
    "merge-unstable": {asked.MergeCandidates: own_first},
    "merge-unstable-columns": {asked.MergeColumns: by_process},
    "id-in-the-score": {asked.MergeCandidates: id_in_the_score},
    "column-in-the-score": {asked.MergeColumns: column_in_the_score},
    "columns-of-the-neighbour": {asked.LocaliseColumns: neighbours_columns},
    "global-id-local-table": {asked.LocaliseIds: global_ids_in_the_local_table},
    "filter-without-owner": {asked.LocaliseIds: every_id_is_its_own},
    "filter-leaves-holes": {asked.LocaliseIds: with_holes},
    "table-of-sequence-0": {asked.LocaliseIds: first_sequence_everywhere},
    "schedule-of-the-first-rows": {DecodeSchedule: of_the_first_rows},
    "table-of-another-row": {DecodeScores: table_of_another_row},
}
