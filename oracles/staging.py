"""DCP prefill staging: the shards' keys in one order, in pages of their own (spec indexer.md 6).

Contract: rank r holds the positions p of a sequence with (p // inter) % world == r, in rising order, in
pages of its own. Staging puts key j of all sequences laid end to end at row j of pages 0, 1, 2 ..., so
that column j of the scores is key j. Codes lie by row, scales do not: both the read and the write bend
the scale's row. It fails silently when they do not: every index stays in bounds, and keys come back
with the exponent of another row, which after a LayerNorm is nearly the same one.

The layout is stated in numbers of its own and taken from nowhere, so that a wrong constant elsewhere
cannot be wrong here as well. Rules are named arguments: a fault is this function with one wrong rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PAGE = 64
LANES = 16
BENDS = ("bent", "flat")
ORDERS = ("global", "rank-major", "gathered")


@dataclass(frozen=True)
class Shard:
    """What one rank holds of the keys of B sequences; R rows a page, K = D/128.

    k_codes uint8 [blocks, K, 4, R, 16]; k_scales uint8 [blocks, K, 4, R]; block_tables int32 [B, W]:
    the block of each page of its own keys of a sequence.
    """

    k_codes: Tensor
    k_scales: Tensor
    block_tables: Tensor


@dataclass(frozen=True)
class Staged:
    """All keys: k_codes uint8 [pages, K, 4, R, 16], k_scales uint8 [pages, K, 4, R], int32 [B, columns]."""

    k_codes: Tensor
    k_scales: Tensor
    block_tables: Tensor


@dataclass(frozen=True)
class Source:
    """Where each of the L staged keys comes from, int64 [L] each.

    Its sequence, its position in it, the rank that holds it, and its place among that rank's keys of
    the sequence.
    """

    sequence: Tensor
    position: Tensor
    rank: Tensor
    local: Tensor


def held(length: int, rank: int, world: int, inter: int) -> Tensor:
    """Positions int64 [n] of a sequence of ``length`` keys that ``rank`` holds, in its order."""
    position = torch.arange(length)
    return position[position // inter % world == rank]


def sources(lengths: Sequence[int], world: int, inter: int) -> Source:
    """The source of every key of all sequences laid end to end."""
    parts = []
    for sequence, length in enumerate(lengths):
        part = torch.empty(4, length, dtype=torch.int64)
        for rank in range(world):
            position = held(length, rank, world, inter)
            part[0, position], part[1, position], part[2, position] = sequence, position, rank
            part[3, position] = torch.arange(len(position))
        parts.append(part)
    return Source(*torch.cat(parts, dim=1).unbind(0))


def gather_index(lengths: Sequence[int], world: int, inter: int, local_cu: Tensor) -> Tensor:
    """Row of the all-gathered keys that key j is, int64 [L].

    Every rank reads local_cu[b+1] - local_cu[b] keys of sequence b (int [B+1], the same on all ranks);
    the reads of rank r are rows r * local_cu[B] and on. Raises ValueError when a rank reads too little.
    """
    starts = local_cu.long()
    for sequence, length in enumerate(lengths):
        most = max(len(held(length, rank, world, inter)) for rank in range(world))
        if int(starts[sequence + 1] - starts[sequence]) < most:
            raise ValueError(
                f"local_cu gives sequence {sequence} {int(starts[sequence + 1] - starts[sequence])} keys, "
                f"a rank holds {most}"
            )
    source = sources(lengths, world, inter)
    return source.rank * starts[-1] + starts[source.sequence] + source.local


def pages_of(length: int, world: int, *, page_rows: int = PAGE) -> int:
    """Pages that every rank has for a sequence of ``length``: one holds page_rows * world positions."""
    return -(-length // (page_rows * world))


def scale_place(page_rows: int = PAGE, *, tiles: int | None = None) -> Tensor:
    """Where the scale of each row of a page lies in the plane's row axis, int64 [page_rows].

    The page is cut into tiles of 16 rows; the scales of one row of each tile lie side by side. With 64
    rows, 0, 1, 2, 15, 16, 17, 63 lie at 0, 4, 8, 60, 1, 5, 63. ``tiles``: a number of them that is not the
    page's own (the fault page-size-lanes: places are taken twice or lie past the page).
    """
    if page_rows < LANES or page_rows % LANES:
        raise ValueError(f"page_rows is {page_rows}, allowed are positive multiples of {LANES}")
    row = torch.arange(page_rows)
    if tiles is not None:
        return row % LANES * tiles + row // LANES
    return torch.argsort(row.reshape(-1, LANES).T.flatten())


def stage(
    shards: Sequence[Shard],
    lengths: Sequence[int],
    inter: int,
    columns: int,
    *,
    read: str = "bent",
    write: str = "bent",
    order: str = "global",
    tiles: int | None = None,
    empty: int = 0,
) -> Staged:
    """Both planes of all keys in one order, and a table of ``columns`` pages: 0, 1, 2 ..., then zeros.

    Rows past the last key hold ``empty``. ``read`` and ``write``: how the scale's row is addressed on either
    side (`BENDS`). ``order`` (`ORDERS`): rank-major lays the ranks' keys end to end, gathered leaves
    them as the all-gather brings them, with what a rank reads past its keys. ``tiles``: of `scale_order`.
    Raises ValueError when the table cannot hold the pages or a shard's table its keys.
    """
    for name, rule, allowed in (("read", read, BENDS), ("write", write, BENDS), ("order", order, ORDERS)):
        if rule not in allowed:
            raise ValueError(f"{name} is {rule!r}, allowed are {', '.join(allowed)}")
    codes, scales = _read_all(shards, lengths, inter, order, read, tiles)
    page_rows = shards[0].k_codes.shape[3]
    pages = -(-len(codes) // page_rows)
    if pages > columns:
        raise ValueError(f"columns is {columns}, the keys take {pages} pages")
    first = shards[0]
    k_codes = torch.full((pages, *first.k_codes.shape[1:]), empty, dtype=torch.uint8)
    k_scales = torch.full((pages, *first.k_scales.shape[1:]), empty, dtype=torch.uint8)
    key = torch.arange(len(codes))
    k_codes[key // page_rows, :, :, key % page_rows] = codes
    k_scales[key // page_rows, :, :, _place(page_rows, write, tiles)[key % page_rows]] = scales
    tables = torch.zeros(len(lengths), columns, dtype=torch.int32)
    tables[:, :pages] = torch.arange(pages, dtype=torch.int32)
    return Staged(k_codes, k_scales, tables)


def _place(page_rows: int, rule: str, tiles: int | None) -> Tensor:
    return scale_place(page_rows, tiles=tiles) if rule == "bent" else torch.arange(page_rows)


def _read_all(
    shards: Sequence[Shard], lengths: Sequence[int], inter: int, order: str, read: str, tiles: int | None
) -> tuple[Tensor, Tensor]:
    """(codes uint8 [L, K, 4, 16], scales uint8 [L, K, 4]) of all keys in ``order``."""
    world, page_rows = len(shards), shards[0].k_codes.shape[3]
    source = sources(lengths, world, inter)
    if order == "rank-major":
        by_rank = torch.argsort(source.rank, stable=True)
        source = Source(
            *(getattr(source, name)[by_rank] for name in ("sequence", "position", "rank", "local"))
        )
    elif order == "gathered":
        source = _as_gathered(lengths, world, inter)
    codes = torch.empty(len(source.rank), *_key_shape(shards[0].k_codes), dtype=torch.uint8)
    scales = torch.empty(codes.shape[:-1], dtype=torch.uint8)
    place = _place(page_rows, read, tiles)
    for rank, shard in enumerate(shards):
        mine = (source.rank == rank).nonzero().flatten()
        local, sequence = source.local[mine], source.sequence[mine]
        if len(local) and int(local.max()) // page_rows >= shard.block_tables.shape[1]:
            raise ValueError(f"the table of rank {rank} has no page for key {int(local.max())}")
        block, row = shard.block_tables[sequence, local // page_rows].long(), local % page_rows
        codes[mine], scales[mine] = shard.k_codes[block, :, :, row], shard.k_scales[block, :, :, place[row]]
    return codes, scales


def _key_shape(k_codes: Tensor) -> tuple[int, int, int]:
    """[K, 4, 16] of a key plane."""
    _, k_tiles, groups, _, octets = k_codes.shape
    return k_tiles, groups, octets


def _as_gathered(lengths: Sequence[int], world: int, inter: int) -> Source:
    """The first L rows of what ranks read that pad each sequence to whole rounds of ``inter``."""
    padded = [-(-length // (inter * world)) * inter for length in lengths]
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(padded))
    local = torch.cat([torch.arange(count) for count in padded])
    rank = torch.arange(world).repeat_interleave(len(local))
    total = sum(lengths)
    return Source(
        sequence.repeat(world)[:total], local.repeat(world)[:total], rank[:total], local.repeat(world)[:total]
    )
