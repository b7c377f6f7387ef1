"""Faults of merged ids on their way to slots: which a rank takes for its own, and where they lie."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.faults.fault import Answer, Fault
from harness.faults.plants import asking, telling
from harness.faults.stages.sharding import NARROW, ONCE, OPS, one, one_by_one
from harness.paths.base import Outcome
from harness.paths.requests import sharding as asked
from oracles import dcp
from oracles.dcp import PAD, Sharding


def of_the_neighbour(request: asked.LocaliseColumns) -> asked.LocaliseColumns:
    """The block of candidates of the rank before."""
    sent = request.ids.shape[1]
    moved = (request.columns + sent) % (sent * request.place.world)
    return replace(request, columns=moved.where(request.columns >= 0, PAD))


def global_in_local_table(request: asked.LocaliseIds, right: Answer) -> Outcome:
    """An id that the rank holds is looked up as it is."""
    ids, rows = request.ids.long(), request.page_rows
    page = (ids.clamp(min=0) // rows).clamp(max=request.tables.shape[1] - 1)
    slots = request.tables.long().gather(1, page) * rows + ids % rows
    return compact(slots, (ids >= 0) & (dcp.owner(dealt(request.place), ids) == request.place.rank))


def all_ids(request: asked.LocaliseIds, right: Answer) -> Outcome:
    """Each rank converts every id."""
    ids, rows = request.ids.long(), request.page_rows
    local = dcp.local_index(dealt(request.place), ids.clamp(min=0))
    page = (local // rows).clamp(max=request.tables.shape[1] - 1)
    return compact(request.tables.long().gather(1, page) * rows + local % rows, ids >= 0)


def with_holes(request: asked.LocaliseIds, value: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """As many entries a row as ids, -1 after the rank's own."""
    bounds, slots = value
    rows, k = request.ids.shape
    filled = torch.full((rows, k), PAD, dtype=torch.int32)
    row = torch.arange(rows).repeat_interleave(bounds.long().diff())
    filled[row, torch.arange(len(row)) - bounds.long()[row]] = slots
    return torch.arange(rows + 1, dtype=torch.int32) * k, filled.flatten()


def first_table(request: asked.LocaliseIds) -> asked.LocaliseIds:
    return replace(request, tables=request.tables[:1].expand_as(request.tables))


def dealt(place: asked.Place) -> Sharding:
    return Sharding(place.world, place.inter)


def compact(slots: Tensor, kept: Tensor) -> Outcome:
    """The kept slots int64 [T, k], row by row, and where each row's begin."""
    bounds = torch.cat((torch.zeros(1, dtype=torch.int64), kept.sum(1).cumsum(0)))
    return Outcome((bounds.to(torch.int32), slots[kept].to(torch.int32)))


FAULTS: tuple[Fault, ...] = (
    one(
        "filter-round-robin-only",
        "which of the merged ids a rank holds, and where, ignores the interleave",
        "vllm #54541, #46514 (B40)",
        ONCE,
        f"{OPS}: triton_filter_and_convert_dcp_index",
        one_by_one(asked.LocaliseIds),
    ),
    one(
        "global-id-local-table",
        "global ids are looked up in the rank's table as if they were local",
        "vllm #54541, #46514 (B40)",
        "W = 1; ids alone",
        f"{OPS}: triton_filter_and_convert_dcp_index",
        {asked.LocaliseIds: global_in_local_table},
        NARROW,
    ),
    one(
        "filter-without-owner",
        "each rank converts every merged id, its own or not",
        "neighbour of vllm #54541 (B40)",
        "W = 1",
        f"{OPS}: triton_filter_and_convert_dcp_index",
        {asked.LocaliseIds: all_ids},
        NARROW,
    ),
    one(
        "filter-leaves-holes",
        "a row keeps an entry of -1 for each id of another rank, as if it were a slot",
        "neighbour of vllm #54541 (B40)",
        "W = 1",
        f"{OPS}: _compact_filter_dcp_kernel",
        {asked.LocaliseIds: telling(with_holes)},
        NARROW,
    ),
    one(
        "table-of-sequence-0",
        "all rows' ids are looked up in the table of the first sequence",
        "neighbour of own-pages-only",
        "batch 1",
        f"{OPS}: triton_filter_and_convert_dcp_index",
        {asked.LocaliseIds: asking(first_table)},
        "dcp-decode-world2-inter1-exids-n1-h16-d128-ctx20,18-k4-tshuffled-fbytes-s1",
    ),
    one(
        "columns-of-the-neighbour",
        "a rank emits the slots of the block of candidates of the rank before it",
        "neighbour of gather-order",
        "ids that travel with the scores",
        f"{OPS}: dcp_decode_candidate_exchange",
        {asked.LocaliseColumns: asking(of_the_neighbour)},
        NARROW.replace("exids", "exscores"),
    ),
)
