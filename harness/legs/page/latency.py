"""Latency in order of measurement: does the machine drift, and in which sample?

Contract: answers stand in the order in which they ended, samples in the order in which they began, with
the time between samples left out. What has no latency (imported runs) is left out and counted, not taken
as 0. The shade holds the middle 80 % of each stretch, so one slow request does not look like a drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from harness.legs.page import drawing
from harness.legs.page.drawing import LINE, Axes, Figure

STRETCHES, FEWEST, MOST = 240, 5, 30
"""Stretches that all samples together are cut into; those of a long sample at least and at most."""

FEW = 60
"""Answers up to which each is a dot of its own."""


@dataclass(frozen=True)
class Run:
    """The latencies of one sample, seconds, in order. ``began``: time of its first answer."""

    leg: str
    sample: int
    began: str
    seconds: np.ndarray
    unknown: int

    def quarter(self, last: bool) -> float:
        """Median of the first or last quarter; NaN below 4 answers."""
        size = len(self.seconds) // 4
        part = self.seconds[-size:] if last else self.seconds[:size]
        return float(np.median(part)) if size else float("nan")


def of_samples(table: pd.DataFrame) -> list[Run]:
    """Every sample, in order of its first answer; those without times keep the order of the table."""
    runs = [
        _run(str(rows["leg"].iloc[0]), int(rows["sample"].iloc[0]), rows)
        for _, rows in table.groupby(["leg", "sample"], sort=False)
    ]
    return sorted(runs, key=lambda one: one.began)


def _run(leg: str, sample: int, rows: pd.DataFrame) -> Run:
    """Failed requests have a latency of their last try, which says nothing of the server's pace."""
    rows = rows.assign(time=rows["time"].fillna("").astype(str)).sort_values("time", kind="stable")
    times = rows.loc[rows["time"] != "", "time"]
    replied = rows.loc[rows["status"] != "failed", "latency"]
    seconds = pd.to_numeric(replied.astype("object")).to_numpy(dtype="float64")
    known = seconds[~np.isnan(seconds)]
    return Run(leg, sample, str(times.iloc[0]) if len(times) else "", known, len(seconds) - len(known))


def picture(runs: Sequence[Run], legs: Mapping[str, int]) -> drawing.Picture | None:
    """Latency over the answers of all samples; ``legs`` leg to the index of its colour. None without any."""
    known = [one for one in runs if len(one.seconds)]
    if not known:
        return None
    label = (
        f"Latency of {sum(len(one.seconds) for one in known)} answers in order of measurement, sample by "
        "sample: median and the middle 80 %. The table below has the figures."
    )
    names = [f"{drawing.text(one.leg, 24, 2)} {one.sample}" for one in known]
    turned = len(known) > 1 and sum(len(name.split("\n")[0]) for name in names) > 90
    longest = max(len(line) for name in names for line in name.split("\n"))

    def paint(figure: Figure) -> None:
        panel = figure.subplots()
        start, middles = 0, []
        for run in known:
            _draw(panel, run, start, drawing.colour(legs.get(run.leg, 0)), STRETCHES // len(known))
            middles.append(start + len(run.seconds) / 2)
            start += len(run.seconds)
            panel.axvline(start, color=LINE, linewidth=0.6)
        panel.set_xticks(middles, names, rotation=90 if turned else 0, fontsize=8)
        panel.tick_params(axis="x", length=0)
        panel.set_xlim(0, start)
        panel.set_ylim(bottom=0)
        panel.set_ylabel("latency, s")
        panel.grid(axis="y")
        panel.set_title("median and middle 80 %, samples in order of measurement")

    return drawing.Picture("latency", label, 3.0 + (0.07 * longest if turned else 0.0), paint)


def _draw(panel: Axes, run: Run, start: int, tint: str, wanted: int) -> None:
    count = len(run.seconds)
    if count <= FEW:
        panel.plot(start + np.arange(count) + 0.5, run.seconds, "o", color=tint, markersize=3)
        return
    cuts = np.linspace(0, count, min(MOST, max(FEWEST, wanted)) + 1).astype(int)
    parts = [run.seconds[low:high] for low, high in pairwise(cuts)]
    low, middle, high = (np.array([np.quantile(part, level) for part in parts]) for level in (0.1, 0.5, 0.9))
    places = start + (cuts[:-1] + cuts[1:]) / 2
    panel.fill_between(places, low, high, color=tint, alpha=0.22, linewidth=0)
    panel.plot(places, middle, color=tint, linewidth=1.4)
