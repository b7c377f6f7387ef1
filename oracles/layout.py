"""Where the bytes of the paged key planes and of the query-scale plane lie (spec indexer.md 3).

Contract: every mapping is stated here in this project's own numbers, comes with its inverse,
and takes strides as arguments. It fails silently when the reader and the writer share one
wrong mapping, or when scale rows are moved in token order: all indices stay in bounds, and
with nearly equal scales all scores stay plausible.

Column d of a head or key vector is k-tile d // 128, group d // 32 % 4, byte d // 2 % 16, low
nibble for even d. Key plane uint8 [blocks, K, 4, page_rows, 16]; its scale plane uint8
[blocks, K, 4, page_rows] holds row r at ``bent_row(r)``. Query scales uint8
[T, K, 4, 16, pad4(H/16)]: head h at (h % 16, h // 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

PAGE_ROWS = 64
K_TILE = 128
"""Columns of one k-tile."""
GROUPS = 4
"""Scale groups of one k-tile."""
GROUP_BYTES = 16
"""Packed bytes of one group of 32 columns."""
TILE_HEADS = 16
ORDERS = ("low-first", "high-first")

Index = TypeVar("Index", int, Tensor)
"""A plain int, or an int64 tensor of any shape for many at once."""


def pack_nibbles(codes: Tensor, *, order: str = "low-first") -> Tensor:
    """Bytes uint8 [..., D/2] of ``codes`` uint8 [..., D]; low-first puts even columns in the low nibble."""
    low, high = _halves(order)
    pairs = (codes & 15).unflatten(-1, (-1, 2))
    return pairs[..., low] | (pairs[..., high] << 4)


def unpack_nibbles(packed: Tensor, *, order: str = "low-first") -> Tensor:
    """Codes uint8 [..., D] of ``packed`` uint8 [..., D/2]; inverse of `pack_nibbles`."""
    low, _ = _halves(order)
    nibbles = (packed & 15, packed >> 4)
    return torch.stack((nibbles[low], nibbles[1 - low]), dim=-1).flatten(-2)


def _halves(order: str) -> tuple[int, int]:
    """Which of a pair of columns goes into the low and into the high nibble."""
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}, allowed are {', '.join(ORDERS)}")
    return (0, 1) if order == "low-first" else (1, 0)


def bent_row(row: Index, *, page_rows: int = PAGE_ROWS) -> Index:
    """Position in the scale plane's row axis of page row ``row``; the identity for 16 rows a page."""
    multiplier = _multiplier(page_rows)
    return row % 16 * multiplier + row // 16


def flat_row(position: Index, *, page_rows: int = PAGE_ROWS) -> Index:
    """Page row whose scale sits at ``position``; inverse of `bent_row`."""
    multiplier = _multiplier(page_rows)
    return position % multiplier * 16 + position // multiplier


def _multiplier(page_rows: int) -> int:
    if page_rows < 16 or page_rows % 16:
        raise ValueError(f"page_rows is {page_rows}, allowed are positive multiples of 16")
    return page_rows // 16


def tile_pad(heads: int) -> int:
    """Last axis of the query-scale plane: head tiles H/16 rounded up to a multiple of 4."""
    if heads < 1 or heads % TILE_HEADS:
        raise ValueError(f"heads is {heads}, allowed are positive multiples of {TILE_HEADS}")
    return -(-heads // TILE_HEADS // 4) * 4


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a contiguous plane of ``shape``."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides)


def packed_offset(
    block: Index,
    ktile: Index,
    group: Index,
    row: Index,
    byte: Index,
    *,
    page_rows: int = PAGE_ROWS,
    k_tiles: int,
    strides: Sequence[int] | None = None,
) -> Index:
    """Byte offset in the key plane; ``strides`` of its five axes in bytes, contiguous when None."""
    strides = strides or contiguous((1, k_tiles, GROUPS, page_rows, GROUP_BYTES))
    return _dot((block, ktile, group, row, byte), strides)


def packed_index(
    offset: Index, *, page_rows: int = PAGE_ROWS, k_tiles: int, strides: Sequence[int] | None = None
) -> tuple[Index, ...]:
    """(block, ktile, group, row, byte) at ``offset``; inverse of `packed_offset`."""
    return _split(offset, strides or contiguous((1, k_tiles, GROUPS, page_rows, GROUP_BYTES)))


def scale_offset(
    block: Index,
    ktile: Index,
    group: Index,
    row: Index,
    *,
    page_rows: int = PAGE_ROWS,
    k_tiles: int,
    strides: Sequence[int] | None = None,
) -> Index:
    """Byte offset in the scale plane of the scale of page row ``row`` (flat; bent here)."""
    strides = strides or contiguous((1, k_tiles, GROUPS, page_rows))
    return _dot((block, ktile, group, bent_row(row, page_rows=page_rows)), strides)


def scale_index(
    offset: Index, *, page_rows: int = PAGE_ROWS, k_tiles: int, strides: Sequence[int] | None = None
) -> tuple[Index, ...]:
    """(block, ktile, group, flat row) at ``offset``; inverse of `scale_offset`."""
    *place, position = _split(offset, strides or contiguous((1, k_tiles, GROUPS, page_rows)))
    return (*place, flat_row(position, page_rows=page_rows))


def query_scale_offset(
    token: Index,
    ktile: Index,
    group: Index,
    head: Index,
    *,
    heads: int,
    k_tiles: int,
    strides: Sequence[int] | None = None,
) -> Index:
    """Byte offset in the query-scale plane of the scale of ``head``."""
    strides = strides or contiguous((1, k_tiles, GROUPS, TILE_HEADS, tile_pad(heads)))
    return _dot((token, ktile, group, head % TILE_HEADS, head // TILE_HEADS), strides)


def query_scale_index(
    offset: Index, *, heads: int, k_tiles: int, strides: Sequence[int] | None = None
) -> tuple[Index, ...]:
    """(token, ktile, group, head) at ``offset``; pad bytes have a head of ``heads`` or above."""
    strides = strides or contiguous((1, k_tiles, GROUPS, TILE_HEADS, tile_pad(heads)))
    token, ktile, group, lane, tile = _split(offset, strides)
    return token, ktile, group, tile * TILE_HEADS + lane


def _dot(place: Sequence[Index], strides: Sequence[int]) -> Index:
    total = place[0] * strides[0]
    for index, stride in zip(place[1:], strides[1:], strict=True):
        total = total + index * stride
    return total


def _split(offset: Index, strides: Sequence[int]) -> tuple[Index, ...]:
    """Indices from an offset, largest stride first (the axes of a plane do not overlap)."""
    place: dict[int, Index] = {}
    for axis in sorted(range(len(strides)), key=lambda axis: -strides[axis]):
        place[axis] = offset // strides[axis]
        offset = offset % strides[axis]
    return tuple(place[axis] for axis in range(len(strides)))


def write_keys(
    k_codes: Tensor, k_scales: Tensor, codes: Tensor, scales: Tensor, slots: Tensor, *, bend: bool = True
) -> None:
    """Scatter rows ``codes`` uint8 [R, D] and ``scales`` uint8 [R, D/32] into the planes, in place.

    ``slots`` int64 [R] is block * page_rows + row; negative slots are skipped whole. ``bend``
    false writes scales in token order (the fault scale-write-flat). Raises ValueError for a
    slot past the planes or used twice.
    """
    blocks, k_tiles, _, page_rows, _ = k_codes.shape
    kept = slots >= 0
    slot = slots[kept].long()
    if slot.numel() and int(slot.max()) >= blocks * page_rows:
        raise ValueError(f"slots reaches {int(slot.max())}, allowed are slots below {blocks * page_rows}")
    if slot.unique().numel() != slot.numel():
        raise ValueError("slots names a slot twice, allowed are distinct slots (or negative ones to skip)")
    block, row = slot // page_rows, slot % page_rows
    packed = pack_nibbles(codes[kept]).reshape(-1, k_tiles, GROUPS, GROUP_BYTES)
    k_codes[block, :, :, row, :] = packed
    place = bent_row(row, page_rows=page_rows) if bend else row
    k_scales[block, :, :, place] = scales[kept].reshape(-1, k_tiles, GROUPS)


def read_keys(
    k_codes: Tensor, k_scales: Tensor, table_row: Tensor, length: int, *, start: int = 0, bend: bool = True
) -> tuple[Tensor, Tensor]:
    """Keys ``start`` to ``length`` of one sequence: codes uint8 [L, D] and scales uint8 [L, D/32].

    ``table_row`` int32 [pages] names the block of each page; entries past the last page are not
    looked at. Raises ValueError when it is too short or names a block the planes do not have.
    """
    blocks, _, _, page_rows, _ = k_codes.shape
    reach = table_row.numel() * page_rows
    if length > reach:
        raise ValueError(f"length is {length}, allowed are 0 to {reach} for this row of block_tables")
    position = torch.arange(start, length, device=k_codes.device)
    block = table_row[position // page_rows].long()
    if bool(((block < 0) | (block >= blocks)).any()):
        raise ValueError(f"block_tables names a block outside 0 to {blocks - 1}")
    row = position % page_rows
    codes = unpack_nibbles(k_codes[block, :, :, row, :].flatten(1))
    place = bent_row(row, page_rows=page_rows) if bend else row
    return codes, k_scales[block, :, :, place].flatten(1)


def write_query_scales(scales: Tensor) -> Tensor:
    """Plane uint8 [T, K, 4, 16, pad4(H/16)] of ``scales`` uint8 [T, H, D/32]; pad tiles are zero."""
    tokens, heads, groups = scales.shape
    tiles_padded, k_tiles = tile_pad(heads), groups // GROUPS
    split = scales.reshape(tokens, heads // TILE_HEADS, TILE_HEADS, k_tiles, GROUPS)
    tiles = split.permute(0, 3, 4, 2, 1)
    plane = scales.new_zeros(*tiles.shape[:-1], tiles_padded)  # [T, K, 4, 16, pad4]
    plane[..., : heads // TILE_HEADS] = tiles
    return plane


def read_query_scales(plane: Tensor, heads: int) -> Tensor:
    """Scales uint8 [T, H, D/32] of a query-scale plane; inverse of `write_query_scales`."""
    if plane.shape[-1] != tile_pad(heads):
        raise ValueError(f"q_scales has {plane.shape[-1]} head tiles, {heads} heads need {tile_pad(heads)}")
    tiles = plane[..., : heads // TILE_HEADS].permute(0, 4, 3, 1, 2)  # [T, H/16, 16, K, 4]
    return tiles.reshape(plane.shape[0], heads, plane.shape[1] * GROUPS)
