"""Differing cells as they are met block by block, and how they spread over a result.

All are counted, the first `KEPT` are kept. A heat map made of the kept ones alone would show a
large difference as one in its first rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

KEPT = 1 << 18
HEAT_ROWS, HEAT_COLUMNS = 32, 64


def heat_of(cells: Tensor, size: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """At most 32 x 64 counts of ``cells`` over the first axis and the last one."""
    rows, columns = (size[0], size[-1]) if len(size) > 1 else (1, size[0] if size else 1)
    high, wide = min(HEAT_ROWS, rows), min(HEAT_COLUMNS, columns)
    down = cells[:, 0] * high // rows if len(size) > 1 else torch.zeros(len(cells), dtype=torch.long)
    index = down * wide + cells[:, -1] * wide // columns
    counts = torch.bincount(index, minlength=high * wide).reshape(high, wide)
    return tuple(tuple(row) for row in counts.tolist())


class Gathered:
    """Cells of a result of shape ``size``; ``add`` takes them block by block."""

    def __init__(self, size: tuple[int, ...]) -> None:
        self.size, self.count, self.room = tuple(size), 0, KEPT
        self.kept: list[Tensor] = []
        self.kept_values: list[Tensor] = []
        self.warm: Tensor | None = None

    def add(self, wrong: Tensor, first_row: int, values: Tensor) -> None:
        cells = wrong.nonzero()
        if not len(cells):
            return
        self.count += len(cells)
        found = values[cells[:, 0], cells[:, 1]]
        cells = cells + torch.tensor([first_row, 0], device=cells.device)
        heat = torch.tensor(heat_of(cells, self.size))
        self.warm = heat if self.warm is None else self.warm + heat
        self.kept.append(cells[: self.room])
        self.kept_values.append(found[: self.room])
        self.room -= len(self.kept[-1])

    def cells(self) -> Tensor:
        return torch.cat(self.kept)

    def values(self) -> Tensor:
        return torch.cat(self.kept_values)

    def heat(self) -> tuple[tuple[int, ...], ...]:
        return () if self.warm is None else tuple(tuple(row) for row in self.warm.tolist())
