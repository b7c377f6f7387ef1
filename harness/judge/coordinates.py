"""What a cell of a score matrix means, and what differing cells have in common.

A row is a query token of a sequence, a column a key position, hence a page, a slot in it, a
chunk of 256, a wave's 64 of those, a tile of 16 and a lane in the tile. A pattern is named
only when it tells something: a property that every compared cell shares says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.judge.compare import Difference

PAGE, CHUNK, WAVE, TILE = 64, 256, 64, 16
FEW = 4
"""Most values of a property that are worth listing."""
SPARED = 8
"""Most values of a property that are worth listing as the ones that hold no difference."""
MOST = 3
"""Most properties a pattern names."""


@dataclass(frozen=True)
class Grid:
    """Rows and columns of a score matrix.

    seq, start, end int64 [T]: sequence and window of each row; token int64 [T]: its place among
    the rows of its sequence; tables int64 [B, W]: physical page of each logical page.
    """

    seq: Tensor
    start: Tensor
    end: Tensor
    token: Tensor
    tables: Tensor

    def where(self, row: int, column: int) -> dict[str, int | str]:
        """Coordinates of one cell, outermost first; ``block`` is the physical page."""
        sequence, page = int(self.seq[row]), column // PAGE
        spot: dict[str, int | str] = {
            "row": row,
            "column": column,
            "sequence": sequence,
            "token": int(self.token[row]),
            "window": f"{int(self.start[row])}:{int(self.end[row])}",
            "page": page,
        }
        if page < self.tables.shape[1]:
            spot["block"] = int(self.tables[sequence, page])
        spot |= {"slot": column % PAGE, "chunk": column // CHUNK, "wave": column % CHUNK // WAVE}
        return spot | {"tile": column % WAVE // TILE, "lane": column % TILE}

    def visible(self, most: int = 1 << 20) -> Tensor:
        """Cells inside the windows, int64 [n, 2]; evenly thinned rows when there are more than ``most``."""
        counts = (self.end - self.start).clamp(min=0)
        rows = torch.arange(len(counts))
        step = max(1, -(-int(counts.sum()) // most))
        rows, counts = rows[::step], counts[::step]
        row = rows.repeat_interleave(counts)
        first = (counts.cumsum(0) - counts).repeat_interleave(counts)
        return torch.stack([row, torch.arange(len(row)) - first + self.start[row]], dim=1)


def token_in_sequence(seq: Tensor) -> Tensor:
    """Place of each row among the rows of its sequence, int64 [T]; rows of a sequence are neighbours."""
    row = torch.arange(len(seq))
    starts = torch.ones(len(seq), dtype=torch.bool)
    starts[1:] = seq[1:] != seq[:-1]
    return row - torch.where(starts, row, torch.zeros_like(row)).cummax(0).values if len(seq) else row


def _block(grid: Grid, cells: Tensor) -> Tensor:
    page = (cells[:, 1] // PAGE).clamp(max=grid.tables.shape[1] - 1)
    return grid.tables[grid.seq[cells[:, 0]], page]


Property = Callable[[Grid, Tensor], Tensor]

PROPERTIES: Mapping[str, Property] = {
    "row": lambda grid, cells: cells[:, 0],
    "sequence": lambda grid, cells: grid.seq[cells[:, 0]],
    "token": lambda grid, cells: grid.token[cells[:, 0]],
    "column": lambda grid, cells: cells[:, 1],
    "block": _block,
    "chunk": lambda grid, cells: cells[:, 1] // CHUNK,
    "slot": lambda grid, cells: cells[:, 1] % PAGE,
    "wave": lambda grid, cells: cells[:, 1] % CHUNK // WAVE,
    "tile": lambda grid, cells: cells[:, 1] % WAVE // TILE,
    "lane": lambda grid, cells: cells[:, 1] % TILE,
}  # fmt: skip

EDGES: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "the last visible column of its row": lambda column, start, end: column == end - 1,
    "the column just past the end of its row": lambda column, start, end: column == end,
    "the first visible column of its row": lambda column, start, end: column == start,
    "the column just before the start of its row": lambda column, start, end: column == start - 1,
    "before the start of its row": lambda column, start, end: column < start,
    "past the end of its row": lambda column, start, end: column >= end,
}


def pattern(difference: Difference, grid: Grid, most: int = MOST) -> str:
    """What the differing cells share, in words, at most ``most`` things; empty when that is nothing."""
    cells = difference.cells
    if difference.layer not in ("mask", "bits", "bound") or cells.shape[-1:] != (2,) or not len(cells):
        return ""
    if difference.layer != "mask" and difference.count == difference.total:
        return "every visible cell"
    edge, everything = _edge(difference, grid), grid.visible()
    shared = [
        _shared(name, of(grid, cells), of(grid, everything))
        for name, of in PROPERTIES.items()
        if len(cells) > 1
    ]
    told = sorted(filter(None, shared), key=_strength)
    return "; ".join(filter(None, [edge, *told][:most]))


def _strength(said: str) -> int:
    """One value tells more than a few, and a few more than all but a few."""
    return next(
        rank for rank, start in enumerate(("all in", "only in", "in every")) if said.startswith(start)
    )


def _edge(difference: Difference, grid: Grid) -> str:
    row, column = difference.cells.unbind(1)
    for name, of in EDGES.items():
        if bool(of(column, grid.start[row], grid.end[row]).all()):
            hint = " (mask off by one?)" if difference.layer == "mask" and "column" in name else ""
            each = "it is" if len(difference.cells) == 1 else "each is"
            return f"{each} {name}{hint}"
    return ""


def _shared(name: str, values: Tensor, everything: Tensor) -> str:
    """``all in slot 63``, ``only in lanes 1, 3`` or ``in every slot but 0, 21``; empty if none holds."""
    mine, all_of_them = values.unique(), everything.unique()
    others = all_of_them[~torch.isin(all_of_them, mine)]
    if not len(others):
        return ""
    if len(mine) == 1:
        return f"all in {name} {int(mine[0])}"
    if len(mine) <= FEW and len(all_of_them) > 2 * len(mine):
        return f"only in {name}s {_listed(mine)}"
    if len(others) <= SPARED and len(all_of_them) > 3 * len(others) and name != "column":
        return f"in every {name} but {_listed(others)}"
    return ""


def _listed(values: Tensor) -> str:
    return ", ".join(str(int(value)) for value in values)
