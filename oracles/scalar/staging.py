"""Scalar twin of `oracles.staging`: keys are dealt to the ranks like cards, and moved byte by byte."""

from __future__ import annotations

from collections.abc import Sequence

Key = tuple[int, int]
"""(sequence, position)."""
Home = tuple[int, int]
"""(rank, place among that rank's keys of the sequence)."""
Bytes = dict[tuple[int, ...], int]
"""A plane as (block, k-tile, group, place in the row axis, ...) to byte."""

SCALE_AT = (
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
    1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61,
    2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62,
    3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63,
)  # fmt: skip
"""Where the scale of each row of a page of 64 lies, written out."""


def deal(length: int, world: int, inter: int) -> list[Home]:
    """The home of every position of a sequence: ``inter`` keys to a rank, then on to the next."""
    hands = [0] * world
    homes = []
    rank, left = 0, inter
    for _ in range(length):
        if left == 0:
            rank, left = (rank + 1) % world, inter
        homes.append((rank, hands[rank]))
        hands[rank] += 1
        left -= 1
    return homes


def keys_in_order(lengths: Sequence[int]) -> list[Key]:
    return [(sequence, position) for sequence, length in enumerate(lengths) for position in range(length)]


def stage(
    codes: Sequence[Bytes],
    scales: Sequence[Bytes],
    tables: Sequence[Sequence[Sequence[int]]],
    lengths: Sequence[int],
    inter: int,
    k_tiles: int,
) -> tuple[Bytes, Bytes]:
    """Staged codes and scales, one plane of 64-row pages a rank in, bytes of keys only out."""
    homes = {
        (sequence, position): home
        for sequence, length in enumerate(lengths)
        for position, home in enumerate(deal(length, len(codes), inter))
    }
    staged_codes: Bytes = {}
    staged_scales: Bytes = {}
    for key, (sequence, position) in enumerate(keys_in_order(lengths)):
        rank, local = homes[sequence, position]
        block, row = tables[rank][sequence][local // 64], local % 64
        page, to = key // 64, key % 64
        for tile in range(k_tiles):
            for group in range(4):
                scale = scales[rank][block, tile, group, SCALE_AT[row]]
                staged_scales[page, tile, group, SCALE_AT[to]] = scale
                for octet in range(16):
                    staged_codes[page, tile, group, to, octet] = codes[rank][block, tile, group, row, octet]
    return staged_codes, staged_scales


def table(lengths: Sequence[int], columns: int) -> list[int]:
    """One row of the staged table."""
    pages = 0
    while pages * 64 < sum(lengths):
        pages += 1
    return [page if page < pages else 0 for page in range(columns)]
