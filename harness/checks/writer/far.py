"""Fill far: the pages of a writer case, spread over a pool of which the last lie past 2^31 bytes.

The case is built and compared as any other, over few pages; only the request that a path sees names far
slots. Half of the pages begin past slot 2^16, where a slot in 16 bits has wrapped, the others past 2^25,
where one in a float32 has lost its last bit and a byte offset in 32 bits is negative. As many bytes lie
in front of the pool, so such an offset lands there and does not end the process. Only pages of the case are
ever touched: the rest is address space. A key that lands in another page is seen because its own has none.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.paths.requests.writing import WriteTokens
from oracles import layout

NEAR, FAR = 1 << 10, 1 << 19
"""First pages of the two halves: slot 2^16, and byte 2^31 of the codes."""
PAGE_BYTES = layout.PAGE_ROWS * layout.GROUPS * layout.GROUP_BYTES
IN_FRONT = 1 << 31
"""Bytes before the pool: as far back as an offset in 32 bits reaches."""


def pages_of(asked: WriteTokens) -> Tensor:
    """Page of the pool int64 [blocks] of each page of ``asked``; page 0 stays, where it is nobody's."""
    page = torch.arange(len(asked.k_codes))
    far = torch.where(page < len(page) // 2, NEAR, FAR) + page
    owned = bool((asked.slots[asked.slots >= 0] < layout.PAGE_ROWS).any())
    return far if owned else far.where(page > 0, 0)


def spread(asked: WriteTokens) -> WriteTokens:
    """``asked`` with its slots and its pages in a pool of 2 GiB."""
    pages = pages_of(asked)
    moved = pages[asked.slots.clamp(min=0) // layout.PAGE_ROWS] * layout.PAGE_ROWS
    slots = torch.where(asked.slots < 0, asked.slots, moved + asked.slots % layout.PAGE_ROWS)
    blocks = int(pages[-1]) + 1
    codes = torch.empty(IN_FRONT + blocks * PAGE_BYTES, dtype=torch.uint8)[IN_FRONT:]
    k_codes = codes.view(blocks, *asked.k_codes.shape[1:])
    k_scales = torch.empty(blocks, *asked.k_scales.shape[1:], dtype=torch.uint8)
    k_codes[pages], k_scales[pages] = asked.k_codes, asked.k_scales
    return replace(asked, slots=slots, k_codes=k_codes, k_scales=k_scales)


def gather(sent: WriteTokens, asked: WriteTokens) -> None:
    """Put the pages of ``sent``, which `spread` made of ``asked``, back into those of ``asked``."""
    pages = pages_of(asked)
    asked.k_codes.copy_(sent.k_codes[pages])
    asked.k_scales.copy_(sent.k_scales[pages])


def named(where: dict[str, int | str], asked: WriteTokens) -> dict[str, int | str]:
    """``where`` with the pages and slots that the path was given."""
    pages = pages_of(asked).tolist()
    made = dict(where)
    if isinstance(block := where.get("block"), int):
        made["block"] = pages[block]
    if isinstance(slot := where.get("slot of the row"), int) and slot >= 0:
        made["slot of the row"] = pages[slot // layout.PAGE_ROWS] * layout.PAGE_ROWS + slot % layout.PAGE_ROWS
    return made
