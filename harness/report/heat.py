"""Heat maps as inline SVG: where in the result the differing cells lie.

A verdict carries at most 32 x 64 counts over (row, column) of the result; each becomes one
rectangle, darker for more. How this would fail silently: a scale that maps a single differing
cell to almost white; so the smallest count above zero is drawn clearly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CELL = 12
"""Side of a cell in the drawing's own units."""


def shade(count: int, most: int) -> str:
    """Colour of a cell with ``count`` differing cells: 0 is pale, the rest from orange to dark red."""
    if count <= 0:
        return "var(--cell)"
    strength = math.log1p(count) / math.log1p(max(most, 1))
    return f"hsl({28 - 24 * strength:.0f} 92% {62 - 32 * strength:.0f}%)"


def svg(heat: Sequence[Sequence[int]], *, label: str) -> str:
    """The counts as an SVG picture with axes; empty text when there are none."""
    if not heat or not heat[0]:
        return ""
    rows, columns = len(heat), max(len(row) for row in heat)
    most = max(max(row, default=0) for row in heat)
    cells = "".join(
        _cell(row, column, count, most)
        for row, counts in enumerate(heat)
        for column, count in enumerate(counts)
    )
    width, height = columns * CELL + 20, rows * CELL + 20
    axes = (
        f'<text x="20" y="12">column, 0 at the left</text>'
        f'<text transform="translate(12 {height}) rotate(-90)">row</text>'
    )
    return (
        f'<svg class="heat" role="img" aria-label="{label}" viewBox="0 0 {width} {height}" '
        f'width="{min(width, 900)}">{axes}<g transform="translate(20 20)">{cells}</g></svg>'
    )


def _cell(row: int, column: int, count: int, most: int) -> str:
    place = f'x="{column * CELL}" y="{row * CELL}" width="{CELL - 1}" height="{CELL - 1}"'
    title = f"<title>{count} differ</title>" if count else ""
    return f'<rect {place} fill="{shade(count, most)}">{title}</rect>'
