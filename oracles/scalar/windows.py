"""Scalar twin of `oracles.windows`: (sequence, start, end) of every row, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence

Window = tuple[int, int, int]


def decode_windows(context_lens: Sequence[int], next_n: int) -> list[Window]:
    return [
        (sequence, 0, max(context - (next_n - 1 - row), 0))
        for sequence, context in enumerate(context_lens)
        for row in range(next_n)
    ]


def varqlen_windows(counts: Sequence[int], context_lens: Sequence[int], total_q: int) -> list[Window]:
    """``counts`` are the query rows of each sequence."""
    windows: list[Window] = []
    for sequence, (count, context) in enumerate(zip(counts, context_lens, strict=True)):
        keys = list(range(context))
        for row in range(count):
            hidden = count - 1 - row  # the newest keys belong to later rows
            windows.append((sequence, 0, len(keys[: max(len(keys) - hidden, 0)])))
    while len(windows) < total_q:
        windows.append((len(context_lens) - 1, 0, 0))
    return windows


def visible(window: Window, column: int) -> bool:
    _, start, end = window
    return column in range(start, end)
