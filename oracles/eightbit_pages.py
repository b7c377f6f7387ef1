"""Where the bytes of an FP8 indexer page lie, and reading and writing them.

Contract (spec indexer.md 1 and 3): a page holds 64 keys; its first 64 * 128 bytes are codes, then
come 64 float32 scales in row order, the rest of the page (rows of 144 bytes have 64 * 12 of them) is
nobody's. Flat, key r starts at byte 128 r; tiled, a page is four groups of 16 keys, each eight
tiles of 16 columns, each tile 16 rows of 16 bytes. It fails silently when writer and reader disagree:
both orders fill the same bytes, the first 16 columns of each group's first key and the last 16 of its
last stay where they are, and scores stay plausible (field report B13).
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

PAGE_ROWS = 64
DIM = 128
TILE = 16
SCALE_BYTES = 4
ORDERS = ("flat", "tiled")

Index = TypeVar("Index", int, Tensor)
"""A plain int, or an int64 tensor of any shape for many at once."""


def code_offset(row: Index, column: Index, order: str) -> Index:
    """Byte of the page that holds column ``column`` of key ``row``."""
    _known(order)
    if order == "flat":
        return row * DIM + column
    tile = row // TILE * (DIM // TILE) + column // TILE
    return tile * (TILE * TILE) + row % TILE * TILE + column % TILE


def scale_offset(row: Index) -> Index:
    """First byte of the page that holds the scale of key ``row``, in either order of the codes."""
    return PAGE_ROWS * DIM + row * SCALE_BYTES


def named(offset: int, order: str) -> dict[str, int | str]:
    """What lies at byte ``offset`` of a page: slot and column, or the slot and its scale, or nothing."""
    codes = PAGE_ROWS * DIM
    if offset < codes:
        rows, columns = torch.arange(PAGE_ROWS)[:, None], torch.arange(DIM)
        slot, column = (code_offset(rows, columns, order) == offset).nonzero()[0].tolist()
        return {"slot": slot, "column": column}
    if offset < codes + SCALE_BYTES * PAGE_ROWS:
        return {"slot": (offset - codes) // SCALE_BYTES, "column": "scale"}
    return {"slot": "none", "column": "padding"}


def _known(order: str) -> None:
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}, allowed are {', '.join(ORDERS)}")


def write_keys(cache: Tensor, codes: Tensor, scales: Tensor, slots: Tensor, order: str) -> None:
    """Put keys into ``cache`` uint8 [blocks, 64, row bytes], in place; nothing else is touched.

    codes uint8 [R, 128], scales float32 [R], slots int64 [R] = block * 64 + row; negative: skipped.
    """
    pages = _pages(cache)
    kept = slots >= 0
    block, row = slots[kept] // PAGE_ROWS, slots[kept] % PAGE_ROWS
    column = torch.arange(DIM)
    pages[block[:, None], code_offset(row[:, None], column, order)] = codes[kept]
    byte = torch.arange(SCALE_BYTES)
    raw = scales[kept].contiguous().view(torch.uint8).reshape(-1, SCALE_BYTES)
    pages[block[:, None], scale_offset(row)[:, None] + byte] = raw


def read_slots(cache: Tensor, slots: Tensor, order: str) -> tuple[Tensor, Tensor]:
    """(codes uint8 [R, 128], scales float32 [R]) of the keys in ``slots`` int64 [R], none negative."""
    pages = _pages(cache)
    block, row = slots // PAGE_ROWS, slots % PAGE_ROWS
    codes = pages[block[:, None], code_offset(row[:, None], torch.arange(DIM), order)]
    raw = pages[block[:, None], scale_offset(row)[:, None] + torch.arange(SCALE_BYTES)]
    return codes, raw.contiguous().view(torch.float32).flatten()


def slots_of(table: Tensor, length: int) -> Tensor:
    """Slots int64 [length] of a sequence's keys in turn; ``table`` int [W] is its row of the block table."""
    position = torch.arange(length)
    return table[position // PAGE_ROWS].long() * PAGE_ROWS + position % PAGE_ROWS


def gather(cache: Tensor, tables: Tensor, cu_lens: Tensor, order: str) -> tuple[Tensor, Tensor]:
    """(codes uint8 [L, 128], scales float32 [L]) of all sequences one after the other.

    tables int32 [B, W]; cu_lens int32 [B + 1] is the running sum of their lengths.
    """
    lengths = cu_lens.diff().tolist()
    parts = [slots_of(table, length) for table, length in zip(tables, lengths, strict=True)]
    return read_slots(cache, torch.cat(parts), order)


def _pages(cache: Tensor) -> Tensor:
    """``cache`` as uint8 [blocks, bytes of a page], sharing memory."""
    if cache.dim() != 3 or cache.shape[1] != PAGE_ROWS or cache.shape[2] < DIM + SCALE_BYTES:
        wanted = f"[blocks, {PAGE_ROWS}, {DIM + SCALE_BYTES} or more]"
        raise ValueError(f"cache has shape {list(cache.shape)}, allowed is {wanted}")
    return cache.view(cache.shape[0], -1)
