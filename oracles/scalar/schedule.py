"""Scalar twin of `oracles.schedule`: loops that read as the definition does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

Pairs = set[tuple[int, int]]


def decode_units(next_n: int, max_bs: int) -> int:
    return next_n * max(math.ceil(512 / next_n), max_bs)


def _split_size(per_row: Sequence[int], repeat: int, units: int, largest: int) -> int:
    for size in range(1, largest + 1):
        if repeat * sum(math.ceil(chunks / size) for chunks in per_row) <= units:
            return size
    return max(per_row)


def decode_schedule(
    context_lens: Sequence[int], *, units: int, next_n: int, max_seq_len: int, block_k: int = 256
) -> list[tuple[int, ...]]:
    if units % next_n or units // next_n < len(context_lens):
        raise ValueError(f"units is {units}")
    per_sequence = [math.ceil(context / block_k) for context in context_lens]
    size = _split_size(per_sequence, next_n, units, math.ceil(max_seq_len / block_k))
    entries: list[tuple[int, ...]] = []
    for sequence, context in enumerate(context_lens):
        for first in range(0, per_sequence[sequence], size):
            count = min(first + size, per_sequence[sequence]) - first
            entries += [(sequence * next_n + n, first, count, context) for n in range(next_n)]
    return entries + [(0, 0, 1, 0)] * (units - len(entries))


def prefill_schedule(
    windows: Sequence[tuple[int, int, int]], *, units: int, max_seq_len: int, block_k: int = 256
) -> list[tuple[int, ...]]:
    """``windows`` are (sequence, start, end) of each row."""
    if units < len(windows):
        raise ValueError(f"units is {units}")
    per_row = [math.ceil(end / block_k) for _, _, end in windows]
    size = _split_size(per_row, 1, units, math.ceil(max_seq_len / block_k)) if windows else 1
    entries: list[tuple[int, ...]] = []
    for row, (sequence, start, end) in enumerate(windows):
        for first in range(0, per_row[row], size):
            count = min(first + size, per_row[row]) - first
            entries.append((row, sequence, first, count, start, end))
    return entries + [(0, 0, 0, 1, 0, 0)] * (units - len(entries))


def visible_pairs(windows: Sequence[tuple[int, int, int]], block_k: int = 256) -> Pairs:
    """(row, chunk) of every key that some row sees, key by key."""
    return {(row, key // block_k) for row, (_, start, end) in enumerate(windows) for key in range(start, end)}


def coverage(
    entries: Sequence[tuple[int, int, int]], visible: Pairs, allowed: Pairs
) -> tuple[Pairs, Pairs, Pairs]:
    """(missing, doubled, foreign) pairs; every foreign pair is listed."""
    times = Counter((row, chunk) for row, first, count in entries for chunk in range(first, first + count))
    missing = {pair for pair in visible if not times[pair]}
    doubled = {pair for pair in times if times[pair] > 1 and pair in allowed}
    return missing, doubled, {pair for pair in times if pair not in allowed}
