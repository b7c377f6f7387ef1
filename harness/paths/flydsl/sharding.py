"""Decode over shards in plain torch: who holds what, candidates, merge, slots (spec indexer.md 6).

A position is read as three digits, position = (round * world + rank) * inter + offset, and everything
follows from them: the rank is the owner, (round, offset) the place with it. Contract of the merge: the
outcome depends on the candidates alone and never on their order, since each rank has its own.
Fails silently when a length is localised too early or an id too late: all indices stay in bounds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests import sharding as asked
from harness.paths.requests.sharding import Place

LOWEST = -(1 << 31)


def answers(path: base.Path) -> base.Answers:
    return {
        asked.Owners: lambda it: _torch(digits(it.positions, it.place)[1]),
        asked.LocalIndices: lambda it: _torch(local_of(it.positions, it.place)),
        asked.GlobalPositions: lambda it: _torch(position_of(it.local, it.place)),
        asked.LocalLengths: lambda it: _torch(held(it.lengths, it.place)),
        asked.RowLengths: lambda it: _torch(held_by_rows(it.context_lens, it.next_n, it.place)),
        asked.LocalWidth: lambda it: _torch(width(it.max_seq_len, it.place)),
        asked.WriteSlots: lambda it: _torch(slots(it.positions, it.tables, it.page_rows, it.place)),
        asked.PackCandidates: lambda it: _torch(packed(it.scores, it.ids, it.lengths, it.place)),
        asked.MergeCandidates: lambda it: _torch(merged(it.scores, it.ids, it.k)),
        asked.MergeColumns: lambda it: _torch(merged_columns(it.scores, it.k)),
        asked.LocaliseIds: lambda it: _torch(compacted(it.ids, it.tables, it.page_rows, it.place)),
        asked.LocaliseColumns: lambda it: _torch(emitted(it)),
    }


def _torch(value: Tensor | tuple[Tensor, ...]) -> base.Outcome:
    return base.Outcome(value, facts={"executor": "torch"})


def digits(positions: Tensor, place: Place) -> tuple[Tensor, Tensor, Tensor]:
    """(round, rank, offset) of each position."""
    piece, offset = positions // place.inter, positions % place.inter
    return piece // place.world, piece % place.world, offset


def local_of(positions: Tensor, place: Place) -> Tensor:
    """Place of each position with its owner."""
    turn, _, offset = digits(positions, place)
    return turn * place.inter + offset


def position_of(local: Tensor, place: Place) -> Tensor:
    """Global position of the rank's own keys ``local``."""
    turn, offset = local // place.inter, local % place.inter
    return (turn * place.world + place.rank) * place.inter + offset


def held(lengths: Tensor, place: Place) -> Tensor:
    """How many of the first ``lengths`` positions the rank holds, int32."""
    turn, rank, offset = digits(lengths, place)
    part = torch.where(rank == place.rank, offset, (rank > place.rank) * place.inter)
    return (turn * place.inter + part).to(torch.int32)


def held_by_rows(context_lens: Tensor, next_n: int, place: Place) -> Tensor:
    """The same of every row's window, int32 [B*N]: each row's global end first."""
    newer = torch.arange(next_n, device=context_lens.device).flip(0)
    return held((context_lens[:, None] - newer).clamp(min=0).flatten(), place)


def width(max_seq_len: int, place: Place) -> Tensor:
    """Columns that hold any rank's keys: the first rank has the most of any context."""
    return held(torch.tensor([max_seq_len]), Place(place.world, place.inter, 0)).long()


def slots(positions: Tensor, tables: Tensor, page_rows: int, place: Place) -> Tensor:
    """Slot of each position in the rank's pages, -1 where it has none; ``tables`` one row a position."""
    mine = (positions >= 0) & (digits(positions, place)[1] == place.rank)
    local = torch.where(mine, local_of(positions, place), 0)
    page = torch.take_along_dim(tables.long(), local[:, None] // page_rows, dim=1)[:, 0]
    return torch.where(mine, page * page_rows + local % page_rows, -1)


def packed(scores: Tensor, ids: Tensor, lengths: Tensor, place: Place) -> tuple[Tensor, Tensor]:
    """(scores, global ids) of a rank's local top-k; what is no key of the row becomes (-inf, -1)."""
    real = (ids >= 0) & (ids < lengths[:, None])
    extended = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
    column = torch.where(real, ids, scores.shape[1]).long()
    sent = torch.take_along_dim(extended, column, dim=1)
    return sent, torch.where(real, position_of(ids, place), -1).to(torch.int32)


def rank_order(scores: Tensor) -> Tensor:
    """int64 that orders as ``scores`` float32 do, -0 and 0 alike (no NaN)."""
    bits = (scores + 0.0).view(torch.int32).long()  # -0 + 0 is 0
    return torch.where(bits < 0, LOWEST - bits, bits)


def merged(scores: Tensor, ids: Tensor, k: int) -> Tensor:
    """The k best candidates of [W, T, k'], ids int32 [T, k]: by score, then by smaller id, padding last.

    Score and id are put into one integer, whose order is total: no two real candidates are equal.
    """
    flat_ids = ids.transpose(0, 1).flatten(1).long()
    order = rank_order(scores.transpose(0, 1).flatten(1))
    key = torch.where(flat_ids >= 0, order * (1 << 31) - flat_ids, torch.iinfo(torch.int64).min)
    best = key.sort(dim=1, descending=True).indices[:, :k]
    return _wide(torch.take_along_dim(flat_ids.clamp(min=-1), best, dim=1), k)


def merged_columns(scores: Tensor, k: int) -> Tensor:
    """The k best candidates of [W, T, k'], columns int32 [T, k]: by score, then by smaller column."""
    flat = scores.transpose(0, 1).flatten(1)
    column = torch.arange(flat.shape[1]).expand_as(flat)
    key = torch.where(flat > -torch.inf, rank_order(flat) * (1 << 31) - column, torch.iinfo(torch.int64).min)
    top = key.sort(dim=1, descending=True)
    return _wide(torch.where(top.values > torch.iinfo(torch.int64).min, top.indices, -1)[:, :k], k)


def compacted(ids: Tensor, tables: Tensor, page_rows: int, place: Place) -> tuple[Tensor, Tensor]:
    """(bounds int32 [T+1], slots int32): each row's own slots, without gaps."""
    rows, k = ids.shape
    row = torch.arange(rows).repeat_interleave(k)
    slot = slots(ids.flatten().long(), tables[row], page_rows, place)
    kept = slot >= 0
    bounds = torch.searchsorted(row[kept], torch.arange(rows + 1))
    return bounds.to(torch.int32), slot[kept].to(torch.int32)


def emitted(request: asked.LocaliseColumns) -> tuple[Tensor, Tensor]:
    """`compacted` for merged columns: those of the rank's own block, by the ids it sent."""
    place, width_sent = request.place, request.ids.shape[1]
    first = place.rank * width_sent
    column = request.columns.long() - first
    mine = (request.columns >= 0) & (column >= 0) & (column < width_sent)
    local = torch.take_along_dim(request.ids.long(), torch.where(mine, column, 0), dim=1)
    ids = torch.where(mine & (local >= 0), position_of(local, place), -1)
    return compacted(ids, request.tables, request.page_rows, place)


def _wide(ids: Tensor, k: int) -> Tensor:
    return torch.nn.functional.pad(ids, (0, k - ids.shape[1]), value=-1).to(torch.int32)
