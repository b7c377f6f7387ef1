"""The figures of a sweep as a picture: one bar a kernel and acceptance rule, killed, inert and survived.

Contract: what is drawn is `table.counts`, nothing is computed here. A file whose ending is no format that
can be drawn is refused before a sweep begins, not after.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.exits import CannotRun, InputError
from harness.power.acceptance import RULES
from harness.power.table import OURS

ENDINGS = (".svg", ".png")
COLOURS = {"killed": "#2b7a4b", "inert": "#b9bec5", "survived": "#c0392b"}


def check(field: str, file: Path) -> None:
    """Raise `InputError` for another ending, `CannotRun` where matplotlib is missing."""
    if file.suffix not in ENDINGS:
        raise InputError(f"{field} is {file}, allowed are names that end in {' or '.join(ENDINGS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotRun(f"{field} needs matplotlib: pip install 'fp4-indexer-harness[legs]'")


def draw(found: Mapping[str, Mapping[str, Any]], file: Path) -> None:
    """A row of bars for each kernel, ours first; shares of all its faults, with the survivors' number."""
    from harness.legs.page.drawing import Figure

    rules = (OURS, *RULES)
    figure = Figure(figsize=(8, 0.8 + 0.28 * len(found) * (len(rules) + 1)), layout="constrained")
    axes = figure.subplots()
    ticks: list[float] = []
    labels: list[str] = []
    for number, (name, one) in enumerate(found.items()):
        for place, rule in enumerate(rules):
            height = number * (len(rules) + 1) + place
            missed = one["missed"].get(rule, 0)
            if missed is None:  # a rule that cannot be put to this kernel
                continue
            parts = {
                "killed": one["killed"] - missed,
                "inert": one["inert"],
                "survived": one["survived"] + missed,
            }
            left, whole = 0.0, max(1, one["mutants"])
            for part, count in parts.items():
                share = 100 * count / whole
                axes.barh(height, share, left=left, color=COLOURS[part], label=part)
                left += share
            axes.text(101, height, f"{parts['survived']} survived", va="center", fontsize=7)
            ticks.append(height)
            labels.append(f"{name}: {rule}" if rule == OURS else rule)
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 115)
    axes.set_xlabel("share of the kernel's mechanical faults, %")
    handles, names = axes.get_legend_handles_labels()
    kept = dict(zip(names, handles, strict=True))
    figure.legend(kept.values(), kept.keys(), loc="outside upper center", ncols=3, fontsize=8)
    figure.savefig(file)
