"""Decode context parallelism: which rank holds which key, and how its candidates become one selection.

Contract (spec indexer.md 6): positions of a sequence are dealt to W ranks S at a time, in turn; a
rank keeps its own in order. Everything a rank counts, scores and selects is over its own keys,
so a row's *global* window is what gets localised: a draft row has its own length on each
rank, and counting back on a local length loses the newest keys of the other rows, always in bounds.
Two exactly equal scores at the cut may change places; ranks that keep different ones may not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.layout import Index
from oracles.topk import PAD
from oracles.windows import decode_windows


@dataclass(frozen=True)
class Sharding:
    """W ranks (``world``), S consecutive positions a turn (``interleave``). Raises ValueError below 1."""

    world: int
    interleave: int

    def __post_init__(self) -> None:
        for name, value in (("world", self.world), ("interleave", self.interleave)):
            if value < 1:
                raise ValueError(f"{name} is {value}, allowed are 1 and above")

    @property
    def turn(self) -> int:
        """Positions after which every rank has had its S."""
        return self.world * self.interleave

    def check(self, rank: int) -> None:
        """Raises ValueError for a rank there is not."""
        if not 0 <= rank < self.world:
            raise ValueError(f"rank is {rank}, allowed are 0 to {self.world - 1}")


def owner(sharding: Sharding, position: Index) -> Index:
    """Rank that holds ``position``."""
    return position // sharding.interleave % sharding.world


def local_index(sharding: Sharding, position: Index) -> Index:
    """Place of ``position`` among the keys of its owner."""
    return position // sharding.turn * sharding.interleave + position % sharding.interleave


def global_position(sharding: Sharding, rank: int, local: Index) -> Index:
    """Position of key ``local`` of ``rank``; inverse of `owner` and `local_index`."""
    sharding.check(rank)
    start = local // sharding.interleave * sharding.turn + rank * sharding.interleave
    return start + local % sharding.interleave


def local_lengths(sharding: Sharding, rank: int, lengths: Tensor) -> Tensor:
    """How many of the first ``lengths`` int [...] positions ``rank`` holds, int64 [...]."""
    sharding.check(rank)
    whole = lengths.long() // sharding.turn
    rest = lengths.long() % sharding.turn - rank * sharding.interleave
    return whole * sharding.interleave + rest.clamp(0, sharding.interleave)


def row_lengths(sharding: Sharding, rank: int, context_lens: Tensor, next_n: int) -> Tensor:
    """Local window of every query row, int64 [B*N], ``context_lens`` int [B]: expand, then localise."""
    return local_lengths(sharding, rank, decode_windows(context_lens, next_n).end)


def local_width(sharding: Sharding, max_seq_len: int) -> int:
    """Columns that hold the keys of any rank for contexts up to ``max_seq_len``: those of rank 0.

    ceil(max_seq_len / W) is the same where S is 1 or S * W divides ``max_seq_len``, else it can be
    too narrow by up to S - ceil(S / W) columns.
    """
    return int(local_lengths(sharding, 0, torch.tensor(max_seq_len)))


def owned(sharding: Sharding, rank: int, length: int) -> Tensor:
    """Positions below ``length`` that ``rank`` holds, int64, by local index."""
    count = int(local_lengths(sharding, rank, torch.tensor(length)))
    return global_position(sharding, rank, torch.arange(count))


def write_slots(sharding: Sharding, rank: int, positions: Tensor, tables: Tensor, page_rows: int) -> Tensor:
    """Slot (block * page_rows + row) where ``rank`` writes each position int64 [T], -1 if it is not its own.

    ``tables`` int [T, pages] names the rank's blocks of the sequence each position belongs to;
    negative positions are padding.
    """
    mine = (positions >= 0) & (owner(sharding, positions) == rank)
    local = local_index(sharding, positions).where(mine, 0)
    block = tables.long().gather(1, (local // page_rows).unsqueeze(1)).squeeze(1)
    return (block * page_rows + local % page_rows).where(mine, PAD)


def candidates(
    sharding: Sharding, rank: int, scores: Tensor, ids: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """What ``rank`` sends: (scores float32 [T, k], global ids int64 [T, k]) of its local ``ids`` int [T, k].

    ``scores`` float32 [T, W'] are its own. An id outside the row's local length is padding: -inf, `PAD`.
    """
    ids = ids.long()
    real = (ids >= 0) & (ids < lengths.unsqueeze(1))
    if not scores.shape[1]:
        return torch.full(ids.shape, -torch.inf), torch.full_like(ids, PAD)
    taken = scores.gather(1, ids.where(real, 0))
    return taken.where(real, -torch.inf), global_position(sharding, rank, ids).where(real, PAD)


def merge(scores: Tensor, ids: Tensor, k: int) -> Tensor:
    """The k best of all ranks' candidates: int64 [T, k], scores descending, ties by id, `PAD` last.

    ``scores`` float32 and ``ids`` int [W, T, k']; candidates with a negative id are padding, wherever
    they stand. The same on every rank whatever the order of the candidates.
    """
    flat_scores, flat_ids = _by_row(scores), _by_row(ids.long())
    by_id = flat_ids.argsort(dim=1, stable=True)
    sorted_scores = flat_scores.gather(1, by_id).masked_fill(flat_ids.gather(1, by_id) < 0, -torch.inf)
    by_score = sorted_scores.sort(dim=1, descending=True, stable=True).indices
    ordered = flat_ids.gather(1, by_id).gather(1, by_score)
    last = (ordered < 0).to(torch.uint8).sort(dim=1, stable=True).indices  # a real score may be -inf
    return _cut(ordered.gather(1, last), k)


def merge_columns(scores: Tensor, k: int) -> Tensor:
    """As `merge` where scores alone travel: columns int64 [T, k] of the k best, `PAD` last.

    Column c is candidate c % k' of rank c // k'. A candidate of -inf is padding; ties go to the
    smallest column, which is the same for all ranks as each keeps its order of candidates.
    """
    flat = _by_row(scores)
    order = flat.sort(dim=1, descending=True, stable=True)
    return _cut(order.indices.where(order.values > -torch.inf, PAD), k)


def own_candidates(columns: Tensor, ids: Tensor, rank: int) -> Tensor:
    """Local ids int64 [T, k] that ``rank`` emits of merged ``columns`` int [T, k]; `PAD` for other ranks'.

    ``ids`` int [T, k'] are the local ids whose scores it sent, in that order.
    """
    sent = ids.shape[1]
    mine = (columns >= 0) & (columns // sent == rank)
    return ids.long().gather(1, (columns.long() % sent).where(mine, 0)).where(mine, PAD)


def localise(
    sharding: Sharding, rank: int, ids: Tensor, tables: Tensor, page_rows: int
) -> tuple[Tensor, Tensor]:
    """(bounds int64 [T+1], slots int64 [bounds[-1]]): the slots of those ``ids`` int [T, k] it holds.

    In the order of the ids and without gaps; ``tables`` int [T, pages] are the rank's own, by local
    page. A table of global pages would be in bounds as well.
    """
    rows = ids.shape[0]
    slots = write_slots(
        sharding, rank, ids.long().flatten(), tables.repeat_interleave(ids.shape[1], dim=0), page_rows
    ).view(rows, -1)
    counts = (slots >= 0).sum(1)
    bounds = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0)))
    return bounds, slots[slots >= 0]


def agreed(selections: Tensor) -> Tensor:
    """Rows bool [T] whose selections int [W, T, k] are the same set on every rank."""
    sets = selections.sort(2).values
    return (sets == sets[:1]).all(2).all(0)


def _by_row(gathered: Tensor) -> Tensor:
    """[T, W*k'] of [W, T, k']: column c is candidate c % k' of rank c // k'."""
    return gathered.permute(1, 0, 2).flatten(1)


def _cut(ids: Tensor, k: int) -> Tensor:
    return torch.nn.functional.pad(ids[:, :k], (0, max(0, k - ids.shape[1])), value=PAD)
