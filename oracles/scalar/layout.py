"""Scalar twin of `oracles.layout`: one byte at a time, from the words of the specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Place = tuple[int, ...]


def pack_nibbles(codes: Sequence[int], *, order: str = "low-first") -> list[int]:
    packed = []
    for first, second in zip(codes[0::2], codes[1::2], strict=True):
        low, high = (first, second) if order == "low-first" else (second, first)
        packed.append(low + 16 * high)
    return packed


def unpack_nibbles(packed: Sequence[int], *, order: str = "low-first") -> list[int]:
    codes = []
    for byte in packed:
        high, low = divmod(byte, 16)
        codes += [low, high] if order == "low-first" else [high, low]
    return codes


def bent_row(row: int, *, page_rows: int = 64) -> int:
    """Four rows that share a lane, 16 apart, lie side by side: count the rows that come before."""
    order = [lane + 16 * tile for lane in range(16) for tile in range(page_rows // 16)]
    return order.index(row)


def flat_row(position: int, *, page_rows: int = 64) -> int:
    return [lane + 16 * tile for lane in range(16) for tile in range(page_rows // 16)][position]


def key_places(blocks: int, k_tiles: int, *, page_rows: int = 64) -> Iterator[Place]:
    """(block, ktile, group, row, byte) of every byte of a contiguous key plane, in memory order."""
    for block in range(blocks):
        for ktile in range(k_tiles):
            for group in range(4):
                for row in range(page_rows):
                    for byte in range(16):
                        yield block, ktile, group, row, byte


def scale_places(blocks: int, k_tiles: int, *, page_rows: int = 64) -> Iterator[Place]:
    """(block, ktile, group, flat row) of every byte of a contiguous scale plane, in memory order."""
    for block in range(blocks):
        for ktile in range(k_tiles):
            for group in range(4):
                for position in range(page_rows):
                    yield block, ktile, group, flat_row(position, page_rows=page_rows)


def query_scale_places(tokens: int, k_tiles: int, heads: int) -> Iterator[Place]:
    """(token, ktile, group, head) of every byte of a query-scale plane, in memory order; pads included."""
    tiles = heads // 16
    while tiles % 4:
        tiles += 1
    for token in range(tokens):
        for ktile in range(k_tiles):
            for group in range(4):
                for lane in range(16):
                    for tile in range(tiles):
                        yield token, ktile, group, tile * 16 + lane


def column(ktile: int, group: int, byte: int, nibble: int) -> int:
    """Column d of a key or head vector: nibble 0 is the low one."""
    return ktile * 128 + group * 32 + byte * 2 + nibble
