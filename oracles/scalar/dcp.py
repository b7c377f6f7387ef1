"""Scalar twin of `oracles.dcp`: positions dealt out one by one, lists of Python numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def deal(world: int, interleave: int, length: int) -> list[list[int]]:
    """Positions each rank holds, in order: S to rank 0, S to rank 1, ... and around again."""
    hands: list[list[int]] = [[] for _ in range(world)]
    rank, given = 0, 0
    for position in range(length):
        if given == interleave:
            rank, given = (rank + 1) % world, 0
        hands[rank].append(position)
        given += 1
    return hands


def row_lengths(
    world: int, interleave: int, rank: int, context_lens: Sequence[int], next_n: int
) -> list[int]:
    """How many keys of each row's global window ``rank`` holds."""
    lengths = []
    for context in context_lens:
        for row in range(next_n):
            seen = list(range(context))[: max(0, context - (next_n - 1 - row))]
            lengths.append(len(deal(world, interleave, len(seen))[rank]))
    return lengths


def write_slot(
    world: int, interleave: int, rank: int, position: int, table: Sequence[int], page_rows: int
) -> int:
    """Slot of ``position``, -1 where another rank holds it or it is padding."""
    if position < 0:
        return -1
    hand = deal(world, interleave, position + 1)[rank]
    if not hand or hand[-1] != position:
        return -1
    local = len(hand) - 1
    return table[local // page_rows] * page_rows + local % page_rows


def candidates(
    positions: Sequence[int], scores: Sequence[float], ids: Sequence[int], length: int
) -> tuple[list[float], list[int]]:
    """What a rank that holds ``positions`` sends for one row."""
    sent = [(scores[key], positions[key]) if 0 <= key < length else (-math.inf, -1) for key in ids]
    return [score for score, _ in sent], [position for _, position in sent]


def merge(scores: Sequence[Sequence[float]], ids: Sequence[Sequence[int]], k: int) -> list[int]:
    """One row; ``scores`` and ``ids`` by rank."""
    pairs = [
        (-score, key)
        for their_scores, their_ids in zip(scores, ids, strict=True)
        for score, key in zip(their_scores, their_ids, strict=True)
        if key >= 0
    ]
    chosen = [key for _, key in sorted(pairs)[:k]]
    return chosen + [-1] * (k - len(chosen))


def merge_columns(scores: Sequence[Sequence[float]], k: int) -> list[int]:
    """One row; a candidate of -inf is padding."""
    flat = [score for their_scores in scores for score in their_scores]
    ranking = sorted((-score, column) for column, score in enumerate(flat) if score > -math.inf)
    chosen = [column for _, column in ranking[:k]]
    return chosen + [-1] * (k - len(chosen))


def localise(
    world: int, interleave: int, rank: int, ids: Sequence[int], table: Sequence[int], page_rows: int
) -> list[int]:
    """Slots of one row's ids that ``rank`` holds, in their order."""
    slots = [write_slot(world, interleave, rank, position, table, page_rows) for position in ids]
    return [slot for slot in slots if slot >= 0]
