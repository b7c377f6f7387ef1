"""Scalar twin of `oracles.publish`: every row of every launch, one at a time, from the definition."""

from __future__ import annotations

Row = tuple[int, int, int, int]
"""(step, part, sequence, keys the row sees)."""


def part_of(sequence: int, sequences: int, parts: int) -> int:
    """The micro-batch of a sequence: every part but the last takes sequences // parts of them."""
    return min(sequence // (sequences // parts), parts - 1)


def rows(context_lens: list[int], next_n: int, steps: int, parts: int) -> list[Row]:
    """Rows of all launches: by step, by sequence (and so by part), newest draft position last."""
    made = []
    for step in range(steps + 2):
        verify = step in (0, steps + 1)
        for sequence, length in enumerate(context_lens):
            grown = length + (step - 1 if step else 0)
            for older in reversed(range(next_n if verify else 1)):
                part = part_of(sequence, len(context_lens), parts)
                made.append((step, part, sequence, max(0, grown - older)))
    return made


def units(next_n: int, max_bs: int) -> int:
    """Smallest multiple of next_n that holds 512 entries and next_n for each of max_bs sequences."""
    count = next_n
    while count < 512 or count < next_n * max_bs:
        count += next_n
    return count
