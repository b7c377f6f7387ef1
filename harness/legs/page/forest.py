"""The forest plot: accuracy of every leg and of each of its samples, both filters side by side.

Contract: a leg that is not measured has a row that says so, and no mark: a grey accuracy would be read as
one, and a missing row as agreement. Why stands above, with what may be said. An interval that is undefined is
a mark without a line, never a line of length 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from harness.legs.page import drawing
from harness.legs.page.drawing import INK, LINE, SOFT, Axes, Figure
from harness.legs.pool.answers import FILTERS, Alone, matrix, single
from harness.legs.pool.pooled import Pooled

ROW, LINE_OF_TEXT, AROUND = 0.2, 0.15, 0.95
"""Inches: a row, each further line of its label, and what is above and below the rows."""

Mark = tuple[float, float, float]
"""Accuracy and its interval, as proportions; NaN where undefined."""


@dataclass(frozen=True)
class Row:
    """One line of the plot: a leg (without ``marks`` where it is not measured), or a sample of it."""

    label: str
    marks: dict[str, Mark]
    leg: bool
    measured: bool

    @property
    def height(self) -> float:
        return ROW + LINE_OF_TEXT * self.label.count("\n") + (0.1 if self.leg else 0)


def rows(pooled: Pooled, table: pd.DataFrame) -> list[Row]:
    """The base leg first, then the others as they were measured, then those without an answer."""
    names = list(dict.fromkeys(one.leg for one in pooled.legs))
    ordered = sorted(names, key=lambda leg: leg != pooled.base)
    made = [row for leg in ordered for row in _of_leg(leg, pooled, table)]
    silent = [leg for leg in pooled.refused if leg not in names]
    return made + [_refused(leg) for leg in silent]


def _of_leg(leg: str, pooled: Pooled, table: pd.DataFrame) -> Iterator[Row]:
    if leg in pooled.refused:
        yield _refused(leg)
        return
    yield Row(drawing.text(leg), {one.which: _mark(one) for one in pooled.legs if one.leg == leg}, True, True)
    for sample, counted in samples(table, leg).items():
        shown = {which: _wilson(*counts) for which, counts in counted.items()}
        yield Row(f"sample {sample}", shown, False, True)


def _refused(leg: str) -> Row:
    return Row(drawing.text(leg), {}, True, False)


def _mark(one: Alone) -> Mark:
    return one.accuracy, one.interval.low, one.interval.high


def _wilson(right: int, answered: int) -> Mark:
    _, interval = single(right, answered)
    return (right / answered if answered else math.nan), interval.low, interval.high


def samples(table: pd.DataFrame, leg: str) -> dict[int, dict[str, tuple[int, int]]]:
    """Sample to filter to (right, answered)."""
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for which in FILTERS:
        answers = matrix(table, leg, which)
        for sample in answers.columns:
            column = answers[sample].dropna()
            found.setdefault(int(sample), {})[which] = (int(column.sum()), len(column))
    return found


def picture(pooled: Pooled, table: pd.DataFrame) -> drawing.Picture:
    """The plot; its table is that of the legs."""
    shown = rows(pooled, table)
    height = sum(row.height for row in shown) + AROUND
    label = (
        f"Accuracy of {sum(row.leg for row in shown)} legs and their samples with 95 % intervals, strict and "
        f"flexible side by side; a broken line marks the base leg {pooled.base}. "
        "The table below has the figures."
    )

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(FILTERS), sharey=True, sharex=True)
        places = _places(shown)
        for panel, which in zip(panels, FILTERS, strict=True):
            _panel(panel, which, shown, places, pooled)
        _labels(panels[0], shown, places)

    return drawing.Picture("forest", label, height, paint)


def _places(shown: list[Row]) -> list[float]:
    """The height at which each row lies, inches from the top."""
    places, below = [], 0.0
    for row in shown:
        places.append(below + row.height / 2)
        below += row.height
    return places


def _panel(panel: Axes, which: str, shown: list[Row], places: list[float], pooled: Pooled) -> None:
    for row, place in zip(shown, places, strict=True):
        if which in row.marks:
            _draw(panel, row, place, row.marks[which])
        if not row.measured:
            text = panel.text(0.01, place, "not measured", transform=panel.get_yaxis_transform(), color=SOFT,
                              va="center", fontsize=8, fontstyle="italic")  # fmt: skip
            text.set_in_layout(False)
        if row.leg and place > places[0]:
            panel.axhline(place - row.height / 2, color=LINE, linewidth=0.5)
    base = next((one for one in pooled.legs if (one.leg, one.which) == (pooled.base, which)), None)
    if base is not None and not math.isnan(base.accuracy):
        panel.axvline(100 * base.accuracy, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    answered = any(math.isfinite(row.marks[which][0]) for row in shown if which in row.marks)
    panel.set_title(which if answered else f"{which}: no answer")
    panel.set_xlabel("accuracy, % (95 % interval)")
    panel.set_ylim(sum(row.height for row in shown), 0)
    panel.grid(axis="x")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    if not answered:
        panel.set_xticks([])


def _draw(panel: Axes, row: Row, place: float, mark: Mark) -> None:
    value, low, high = (100 * number for number in mark)
    if math.isnan(value):
        return
    tint = INK if row.measured else SOFT
    if math.isfinite(low):
        panel.plot([low, high], [place, place], color=tint, linewidth=2.2 if row.leg else 0.9)
    filled = tint if row.leg and row.measured else drawing.GROUND
    panel.plot(value, place, "s" if row.leg else "o", color=tint, markerfacecolor=filled,
               markersize=6 if row.leg else 4)  # fmt: skip


def _labels(panel: Axes, shown: list[Row], places: list[float]) -> None:
    panel.set_yticks(places, [row.label for row in shown])
    for tick, row in zip(panel.get_yticklabels(), shown, strict=True):
        tick.set_fontweight("bold" if row.leg else "normal")
        tick.set_color(INK if row.measured and row.leg else SOFT)
