"""Discordance: which questions a leg answers otherwise than the base leg, beside what it does to itself.

Contract: pairs of samples are counted alike for A/B (one sample of each leg) and A/A (two samples of one
leg), so the two shares can be held against each other. Means over samples flip more questions than a pair
does; a picture that set those against A/A pairs would make every leg look different from the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pandas as pd

from harness.legs.page import drawing
from harness.legs.page.drawing import GAINED, LOST, SOFT, Axes, Figure
from harness.legs.pool.answers import matrix
from harness.legs.pool.pooled import Pooled

ROW, AROUND = 0.34, 1.0
"""Inches: a row, and what is above and below the rows."""


@dataclass(frozen=True)
class Flips:
    """A leg under one filter. ``changes``: question to (right in the base leg, right in this one, change of
    the mean), where the means differ; ``against`` the share of questions that differ, for each pair of a
    base sample and one of this leg; ``within`` the same for each pair of this leg's own samples, and
    ``unsteady`` the questions on which some such pair differs. Rights are texts like "2/3". All are empty for
    a leg that is not ``measured``; ``compared``: whether it and the base leg are.
    """

    leg: str
    changes: dict[int, tuple[str, str, float]]
    against: tuple[float, ...]
    within: tuple[float, ...]
    unsteady: tuple[int, ...]
    measured: bool
    compared: bool

    @property
    def gained(self) -> dict[int, tuple[str, str, float]]:
        return {question: one for question, one in self.changes.items() if one[2] > 0}

    @property
    def lost(self) -> dict[int, tuple[str, str, float]]:
        return {question: one for question, one in self.changes.items() if one[2] < 0}


def of_legs(pooled: Pooled, table: pd.DataFrame, which: str) -> list[Flips]:
    """The base leg (against itself nothing is counted), then every other leg."""
    names = list(dict.fromkeys(one.leg for one in pooled.legs))
    answers = {leg: matrix(table, leg, which) for leg in names}
    base = None if pooled.base in pooled.refused else answers.get(pooled.base)
    return [
        Flips(leg, {}, (), (), (), False, False)
        if leg in pooled.refused
        else _of_leg(leg, None if leg == pooled.base else base, answers[leg])
        for leg in sorted(names, key=lambda leg: leg != pooled.base)
    ]


def _of_leg(leg: str, base: pd.DataFrame | None, own: pd.DataFrame) -> Flips:
    means = own.mean(axis=1)
    changes = {} if base is None else _changes(base, own)
    within = [share for one, other in combinations(own.columns, 2) for share in _share(own[one], own[other])]
    against = (
        []
        if base is None
        else [share for one, other in product(base, own) for share in _share(base[one], own[other])]
    )
    unsteady = tuple(int(question) for question in means.index[(means > 0) & (means < 1)])
    return Flips(leg, changes, tuple(against), tuple(within), unsteady, True, base is not None)


def _changes(base: pd.DataFrame, own: pd.DataFrame) -> dict[int, tuple[str, str, float]]:
    change = (own.mean(axis=1) - base.mean(axis=1)).dropna()
    moved = change[change != 0]
    return {int(q): (_right(base.loc[q]), _right(own.loc[q]), float(moved[q])) for q in moved.index}


def _right(row: pd.Series) -> str:
    known = row.dropna()
    return f"{int(known.sum())}/{len(known)}"


def _share(one: pd.Series, other: pd.Series) -> list[float]:
    """The share of questions that differ; none where no question was answered twice."""
    both = pd.concat([one, other], axis=1, join="inner").dropna().to_numpy()
    return [float(np.mean(both[:, 0] != both[:, 1]))] if len(both) else []


def picture(found: Sequence[Flips], which: str, base: str, last: int) -> drawing.Picture | None:
    """A row for each leg against the base and one for each leg against itself; questions are 0 to ``last``.

    None where there are no two samples to compare.
    """
    if not any(one.against or one.within for one in found):
        return None
    rows = [
        (one, against)
        for one in found
        for against in (True, False)
        if (against and one.leg != base) or (not against and one.measured)
    ]
    label = (
        f"Questions whose answer differs, {which}: each leg against {base}, gained upwards and lost "
        "downwards, above what two samples of the same leg differ by. The table below has the figures."
    )

    def paint(figure: Figure) -> None:
        questions, shares = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        for place, (one, against) in enumerate(rows):
            (_against if against else _within)(questions, shares, place, one)
        questions.set_yticks(range(len(rows)), [_name(one, against, base) for one, against in rows])
        for tick, (one, against) in zip(questions.get_yticklabels(), rows, strict=True):
            tick.set_color(drawing.INK if one.measured and against else SOFT)
        questions.set_ylim(len(rows) - 0.4, -0.6)
        questions.set_xlabel("question")
        questions.set_xlim(-0.01 * (last + 1), 1.01 * (last + 1))
        questions.set_title(f"{which}: gained up, lost down; A/A grey")
        shares.set_title("per pair of samples")
        shares.set_xlabel("questions that differ, %")
        most = 100 * max(share for one in found for share in (*one.against, *one.within))
        shares.set_xlim(-0.04 * (most or 1), 1.06 * (most or 1))
        shares.grid(axis="x")
        for panel in (questions, shares):
            panel.tick_params(axis="y", length=0)

    longest = sum(ROW + 0.13 * _name(one, against, base).count("\n") for one, against in rows)
    return drawing.Picture(f"flips-{which}", label, AROUND + longest, paint)


def _name(one: Flips, against: bool, base: str) -> str:
    if not against:
        return f"{drawing.text(one.leg, 26, 2)} A/A"
    return drawing.text(one.leg, 30, 2)


def _against(questions: Axes, shares: Axes, place: int, one: Flips) -> None:
    for moved, tint in ((one.gained, GAINED), (one.lost, LOST)):
        spans = [(float(q), place - 0.45 * change, float(place)) for q, (_, _, change) in moved.items()]
        _strokes(questions, spans, tint if one.measured else SOFT)
    _dots(shares, place, one.against, drawing.INK if one.measured else SOFT,
          "no pair" if one.measured else "not measured")  # fmt: skip
    questions.axhline(place, color=drawing.LINE, linewidth=0.5, zorder=0)


def _within(questions: Axes, shares: Axes, place: int, one: Flips) -> None:
    _strokes(questions, [(float(q), place - 0.22, place + 0.22) for q in one.unsteady], SOFT)
    _dots(shares, place, one.within, SOFT, "one sample")


def _strokes(panel: Axes, spans: list[tuple[float, float, float]], tint: str) -> None:
    if spans:
        panel.plot(*drawing.segments(spans), color=tint, linewidth=1.1, solid_capstyle="butt")


def _dots(panel: Axes, place: int, values: tuple[float, ...], tint: str, without: str) -> None:
    if not values:
        panel.text(0.02, place, without, transform=panel.get_yaxis_transform(), va="center", fontsize=8,
                   color=SOFT)  # fmt: skip
        return
    panel.plot([100 * value for value in values], [place] * len(values), "o", color=tint, markersize=4.5,
               markerfacecolor="none")  # fmt: skip
