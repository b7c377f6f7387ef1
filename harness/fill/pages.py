"""Where keys lie in the pool: page permutation, block tables, poison.

Pages are permuted and everything that must not be read is poison (codes 0xFF, scales 255):
rows past a length, pages of nobody, table entries past a sequence (they point at a poison
page). A pool whose pages lie in order passes with the block table ignored, so the table
style `identity` exists only to be mistrusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.fill import noise
from oracles import layout

PAGE = 64
POISON_PAGES = 3
MARGIN = 2
"""Pages (rows of a table, query rows) of poison before and after a strided slice."""


@dataclass(frozen=True)
class Placement:
    """tables int32 [B, W] over a pool of ``blocks`` pages; pads name a page nobody wrote."""

    tables: Tensor
    blocks: int


def place(lengths: tuple[int, ...], style: str, seed: int) -> Placement:
    """Give every sequence its pages. ``style``: a table style of ``harness.case.suite.TABLES``."""
    pages = [-(-length // PAGE) for length in lengths]
    total = sum(pages)
    blocks = total + POISON_PAGES
    order = torch.arange(blocks) if style == "identity" else noise.permutation(seed, "pages", blocks)
    width = table_width(max(pages), style)
    tables = order[total].to(torch.int32).repeat(len(lengths), width)
    first = 0
    for sequence, count in enumerate(pages):
        tables[sequence, :count] = order[first : first + count].to(torch.int32)
        first += count
    return Placement(tables, blocks)


def table_width(pages: int, style: str) -> int:
    """Entries a table row has for its longest sequence's ``pages``."""
    if style == "tight":
        return max(1, pages)
    padded = max(4, -(-pages // 4) * 4)
    return 4 * padded + 12 if style == "wide" else padded


def slots(lengths: tuple[int, ...], tables: Tensor) -> Tensor:
    """Slot (block * 64 + row) of every key of every sequence in turn, int64 [L]."""
    parts = []
    for sequence, length in enumerate(lengths):
        position = torch.arange(length)
        parts.append(tables[sequence, position // PAGE].long() * PAGE + position % PAGE)
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)


def written(k_codes: Tensor, k_scales: Tensor, slots: Tensor) -> dict[str, Tensor]:
    """Which bytes of the two planes were written when keys were put into ``slots``: bool of their shapes.

    By row, not by page: what a scorer reads of a page's tail is whatever the allocator left there.
    """
    codes = torch.zeros(k_codes.shape, dtype=torch.bool)
    scales = torch.zeros(k_scales.shape, dtype=torch.bool)
    block, row = slots // PAGE, slots % PAGE
    codes[block, :, :, row] = True
    scales[block, :, :, layout.bent_row(row)] = True
    return {"k_codes": codes, "k_scales": scales}


def poisoned_pool(blocks: int, dim: int, *, strided: bool) -> tuple[Tensor, Tensor]:
    """(k_codes uint8 [blocks, K, 4, 64, 16] of 0xFF, k_scales uint8 [blocks, K, 4, 64] of 255).

    ``strided``: slices of larger pools, with poison pages before and after.
    """
    extra = MARGIN if strided else 0
    tiles = dim // 128
    codes = torch.full((blocks + 2 * extra, tiles, 4, PAGE, 16), 0xFF, dtype=torch.uint8)
    scales = torch.full((blocks + 2 * extra, tiles, 4, PAGE), 255, dtype=torch.uint8)
    return codes[extra : extra + blocks], scales[extra : extra + blocks]


def embedded(tensor: Tensor, poison: int | float) -> Tensor:
    """``tensor`` as a slice along its first axis of a larger one whose other rows hold ``poison``."""
    size = (tensor.shape[0] + 2 * MARGIN, *tensor.shape[1:])
    larger = torch.full(size, poison, dtype=tensor.dtype)
    larger[MARGIN:-MARGIN] = tensor
    return larger[MARGIN:-MARGIN]


def fill_pool(codes: Tensor, scales: Tensor, k_codes: Tensor, k_scales: Tensor, where: Tensor) -> None:
    """Write keys (unpacked codes [L, D], scales [L, G]) to slots ``where`` of the planes, in place."""
    layout.write_keys(codes, scales, k_codes, k_scales, where)
