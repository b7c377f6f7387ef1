"""Prompt lengths against index_topk: what of a leg ever exercised the sparse indexer.

Contract: legs with the same counts share one curve, since they were asked the same. Step t of a reply
selects among prompt + t tokens, the first reply token being step 0. A reply without token counts is
left out and counted as left out; taken as 0 it would look like a short prompt. A prompt counts once, however
many samples asked it; a decode step counts each time, since replies differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.legs.page import drawing
from harness.legs.page.drawing import INK, Axes, Figure

BINS = 60
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Lengths:
    """Token counts that all of ``legs`` have in common. ``prompts``: tokens of each question's prompt (the
    fewest, where samples disagree, as `harness.legs.certify.prompts` has it); ``steps``: tokens selected
    among at each decode step of all replies; ``unknown``: answers without token counts.
    """

    legs: tuple[str, ...]
    prompts: np.ndarray
    steps: np.ndarray
    unknown: int


def of_legs(table: pd.DataFrame) -> list[Lengths]:
    """One entry for each different set of prompt lengths; the steps are those of all its legs."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for leg in dict.fromkeys(map(str, table["leg"])):
        groups.setdefault(_key(table[table["leg"] == leg]), []).append(leg)
    return [_lengths(tuple(legs), table[table["leg"].isin(legs)]) for legs in groups.values()]


def _key(rows: pd.DataFrame) -> tuple[object, ...]:
    known = rows[["question", "prompt_tokens"]].dropna().drop_duplicates().sort_values("question")
    return tuple(known.itertuples(index=False, name=None))


def _lengths(legs: tuple[str, ...], rows: pd.DataFrame) -> Lengths:
    prompts = pd.to_numeric(rows["prompt_tokens"].astype("object")).to_numpy(dtype="float64")
    replies = pd.to_numeric(rows["completion_tokens"].astype("object")).to_numpy(dtype="float64")
    known = ~np.isnan(prompts)
    both = known & ~np.isnan(replies) & (replies > 0)
    once = pd.Series(prompts).groupby(rows["question"].to_numpy()).min().dropna().to_numpy()
    return Lengths(legs, once, steps(prompts[both], replies[both]), int((~known).sum()))


def steps(prompts: np.ndarray, replies: np.ndarray) -> np.ndarray:
    """Tokens before each reply token: prompt, prompt + 1, ... for every pair of counts."""
    counts = replies.astype(np.int64)
    first = np.repeat(prompts.astype(np.int64), counts)
    begins = np.repeat(np.cumsum(counts) - counts, counts)
    return first + np.arange(len(first)) - begins


def picture(found: Sequence[Lengths], limits: Mapping[str, int]) -> drawing.Picture | None:
    """Histograms of prompts and of decode steps; ``limits`` leg to index_topk. None without counts."""
    known = [one for one in found if len(one.prompts)]
    if not known:
        return None
    with_steps = any(len(one.steps) for one in known)
    label = (
        "Histogram of prompt tokens"
        + (" and of the tokens present at each decode step of all samples" if with_steps else "")
        + ", with a line at index_topk. The table below has the figures."
    )

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1 + with_steps, 1, sharex=True, squeeze=False)[:, 0]
        edges = _edges(known, limits)
        _panel(panels[0], [(one.legs, one.prompts) for one in known], edges, "prompts, each once")
        if with_steps:
            _panel(panels[1], [(one.legs, one.steps) for one in known], edges, "decode steps of all samples")
        for panel in panels:
            _lines(panel, limits)
        panels[-1].set_xlabel("tokens")
        if len(known) > 1:
            panels[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)

    return drawing.Picture("tokens", label, 3.9 if with_steps else 2.3, paint)


def _edges(found: Sequence[Lengths], limits: Mapping[str, int]) -> np.ndarray:
    """Bin edges over all counts; where all prompts are one length, around it."""
    every = np.concatenate([part for one in found for part in (one.prompts, one.steps) if len(part)])
    low, high = float(every.min()), float(every.max())
    return np.linspace(low - 0.5, high + 0.5, min(BINS, int(high - low) + 1) + 1)


def _panel(panel: Axes, sets: list[tuple[tuple[str, ...], np.ndarray]], edges: np.ndarray, what: str) -> None:
    for index, (legs, values) in enumerate(sets):
        counts, _ = np.histogram(values, edges)
        tint = drawing.colour(index)
        panel.stairs(counts, edges, color=tint, linestyle=STYLES[index // len(drawing.COLOURS) % 4],
                     label=drawing.text(", ".join(legs), 24), linewidth=1.2)  # fmt: skip
        if len(sets) == 1:
            panel.stairs(counts, edges, fill=True, color=tint, alpha=0.25)
    panel.set_title(what)
    panel.set_ylabel("number")
    panel.set_ylim(bottom=0)
    panel.grid(axis="y")
    panel.set_axisbelow(True)


def _lines(panel: Axes, limits: Mapping[str, int]) -> None:
    """A line at each different index_topk, labels one below the other on the side with more room."""
    left, right = panel.get_xlim()
    for number, limit in enumerate(sorted({limit for limit in limits.values() if limit})):
        panel.axvline(limit, color=INK, linewidth=1.1, linestyle=(0, (5, 2)))
        side = 1 if limit < (left + right) / 2 else -1
        panel.annotate(f"index_topk {limit}", (limit, 0.97), xycoords=("data", "axes fraction"),
                       xytext=(4 * side, -11 * number), textcoords="offset points", fontsize=8, color=INK,
                       ha="left" if side > 0 else "right", va="top")  # fmt: skip
