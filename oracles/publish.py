"""What a draft loop's launches are: rows, windows, size of the schedule each reads (spec indexer.md 7).

Contract: a verify step scores N rows a sequence, then K draft steps one row a sequence, whose lengths
grow by one a step; then the next verify step, on the same buffers. Every launch has lengths and a schedule
of its own, and micro-batches those of their own sequences. It fails silently when a launch is given
another's: rows and columns are in bounds, and the newest keys are never scored.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from oracles import schedule
from oracles.schedule import Coverage
from oracles.windows import Windows, decode_windows


def micro_batches(sequences: int, parts: int) -> list[tuple[int, int]]:
    """(first, past the last) sequence of each part: equally many, what is left over goes to the last.

    Raises ValueError when there are fewer sequences than parts.
    """
    if not 1 <= parts <= sequences:
        raise ValueError(f"parts is {parts}, allowed are 1 to {sequences}")
    share = sequences // parts
    return [(part * share, sequences if part == parts - 1 else (part + 1) * share) for part in range(parts)]


@dataclass(frozen=True)
class Launch:
    """One launch: micro-batch ``part`` of ``step``, its sequences from ``first`` on.

    lengths int [B']; ``next_n`` rows each; ``units`` entries of the schedule buffer belong to it.
    """

    step: int
    part: int
    first: int
    lengths: Tensor
    next_n: int
    units: int

    @property
    def windows(self) -> Windows:
        """Windows of its rows, sequences counted from the part's first."""
        return decode_windows(self.lengths, self.next_n)


def launches(context_lens: Tensor, next_n: int, steps: int, parts: int) -> list[Launch]:
    """The launches of verify step 0, draft steps 1 .. ``steps`` and verify step ``steps`` + 1, in order.

    ``context_lens`` int [B] are those of the verify step.
    """
    made = []
    for step in range(steps + 2):
        rows = next_n if step in (0, steps + 1) else 1
        lengths = context_lens + max(0, step - 1)
        for part, (first, last) in enumerate(micro_batches(len(context_lens), parts)):
            units = schedule.decode_units(rows, last - first)
            made.append(Launch(step, part, first, lengths[first:last], rows, units))
    return made


def buffer_units(next_n: int, max_bs: int) -> int:
    """Entries of one buffer for every launch of a loop: f(next_n), which is at least f(1)."""
    return schedule.decode_units(next_n, max_bs)


def covered(launch: Launch, entries: Tensor) -> Coverage:
    """What the schedule int [P, 4] gets wrong for the windows of ``launch``."""
    return schedule.decode_coverage(entries, launch.lengths, launch.next_n)
