"""A campaign folder as one self-contained HTML page: no script, font or style from anywhere else.

What may be said comes first, then whether it may be believed, then the figures and pictures. Every text of
a record is escaped by the template engine; only the drawings of `harness.legs.page.drawing` are put in as
they are, and those escape what they are given. How this would fail silently: a leg that is missing from
the page; every leg with a sample has a row in each table, with the reason where it has no figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from harness.legs.certify import control
from harness.legs.certify.certificate import Certificate, Point
from harness.legs.certify.tables import limits
from harness.legs.page import drawing, facts, flips, forest, latency, replies, tokens
from harness.legs.pool import tables
from harness.legs.pool.answers import FILTERS
from harness.legs.pool.pooled import Pooled
from harness.record import provenance
from harness.report.page import flatten, templates

LATENCIES = ("leg", "sample", "first answer", "answers", "p10", "p50", "p90", "first quarter", "last quarter")
"""Columns of the table of latencies, seconds; the quarters are medians."""

TOKENS = ("leg", "index_topk", "prompts", "counted", "min", "p50", "max", "at most index_topk",
          "decode steps", "above index_topk")  # fmt: skip
FLIPS = ("leg", "gained", "lost", "A/B a pair", "A/A of the leg", "A/A of the base")


def render(
    directory: Path, table: pd.DataFrame, pooled: Pooled, certificates: Mapping[str, Certificate]
) -> str:
    """The page of ``directory``; ``table``: its samples (`harness.legs.journal.table`)."""
    filled = context(directory, table, pooled, certificates)
    return templates("legs/page").get_template("legs.html.j2").render(**filled)


def context(
    directory: Path, table: pd.DataFrame, pooled: Pooled, certificates: Mapping[str, Certificate]
) -> dict[str, Any]:
    """What the template is filled with."""
    found = facts.of_folder(directory)
    prompts = {leg: _figures(one, "prompts") for leg, one in certificates.items()}
    limits = {leg: int(figures.get("index_topk") or 0) for leg, figures in prompts.items()}
    runs = latency.of_samples(table)
    legs = list(dict.fromkeys(row[0] for row in found.samples))
    return {
        "facts": found,
        "page_version": provenance.version(provenance.PROJECT),
        "legs": legs,
        "base": pooled.base,
        "said": sentences(pooled, certificates),
        "certificates": list(certificates.values()),
        "points": list(dict.fromkeys(one.name for each in certificates.values() for one in each.points)),
        "figures": lambda point: flatten(point.figures),
        "title": tables.title(pooled),
        "legs_head": tables.LEGS,
        "legs_rows": tables.legs(pooled),
        "comparisons_head": tables.COMPARISONS,
        "comparisons_rows": tables.comparisons(pooled),
        "forest": drawn(forest.picture(pooled, table)) if len(table) else None,
        "flips": [_flips(pooled, table, which) for which in FILTERS] if len(table) else [],
        "flips_head": FLIPS,
        "tokens": drawn(tokens.picture(tokens.of_legs(table), limits)),
        "tokens_head": TOKENS,
        "tokens_rows": [_tokens(leg, figures) for leg, figures in prompts.items()],
        "latency": drawn(latency.picture(runs, {leg: at for at, leg in enumerate(legs)})),
        "latency_head": LATENCIES,
        "latency_rows": [_latency(one) for one in runs],
        "samples_head": facts.HEADS,
        "disagreements": replies.of_legs(table),
    }


def drawn(picture: drawing.Picture | None) -> Markup | None:
    return None if picture is None else drawing.svg(picture)


def sentences(pooled: Pooled, certificates: Mapping[str, Certificate]) -> list[tuple[str, str]]:
    """(verdict, sentence): every comparison, the legs that do not count, then what limits what is said."""
    controls = {
        point.said: f"control {point.verdict}"
        for one in certificates.values()
        for point in one.points
        if point.name == control.NAME
    }
    last = [(controls.get(one) or _limit(one), one) for one in limits(certificates)]
    return [*((str(word), sentence) for word, sentence in tables.told(pooled)), *last]


def _limit(sentence: str) -> str:
    return "not certified" if " not certified: " in sentence else "not shown"


def _figures(certificate: Certificate, name: str) -> Mapping[str, Any]:
    """The figures of point ``name``; empty where the certificate lacks it."""
    points: list[Point] = [one for one in certificate.points if one.name == name]
    return points[0].figures if points else {}


def _tokens(leg: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    steps, above = figures.get("decode_steps") or 0, figures.get("decode_steps_above") or 0
    names = ("index_topk", "prompts", "counted", "min", "p50", "max", "short")
    known = ["unknown" if figures.get(name) is None else f"{figures[name]:g}" for name in names]
    known[-1] = known[-1] if figures.get("counted") else "unknown"  # 0 of no counts is no count
    return (leg, *known, str(steps or "unknown"), f"{100 * above / steps:.2f} %" if steps else "undefined")


def _latency(run: latency.Run) -> tuple[str, ...]:
    levels = pd.Series(run.seconds, dtype="float64").quantile([0.1, 0.5, 0.9])  # NaN without any
    shown = [*map(float, levels), run.quarter(last=False), run.quarter(last=True)]
    return (run.leg, str(run.sample), run.began or "unknown", str(len(run.seconds)), *map(_seconds, shown))


def _seconds(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3f}"


def _flips(pooled: Pooled, table: pd.DataFrame, which: str) -> dict[str, Any]:
    """Picture, table and the questions themselves, of one filter."""
    found = flips.of_legs(pooled, table, which)
    base = next((one.within for one in found if one.leg == pooled.base), ())
    others = [one for one in found if one.leg != pooled.base]
    return {
        "which": which,
        "picture": drawn(flips.picture(found, which, pooled.base, int(table["question"].max()))),
        "rows": [_flip(one, base) for one in others],
        "questions": [
            (one.leg, [("gained", _questions(one.gained)), ("lost", _questions(one.lost))]) for one in others
        ],
    }


def _flip(one: flips.Flips, base: Sequence[float]) -> tuple[str, ...]:
    """A row under `FLIPS`; ``base``: the base leg's shares within."""
    moved = [str(len(one.gained)), str(len(one.lost))] if one.compared else ["not measured"] * 2
    return (one.leg, *moved, *map(_mean, (one.against, one.within, base)))


def _mean(shares: Sequence[float]) -> str:
    """The mean share over pairs of samples, and how far single pairs lie apart."""
    if not shares:
        return "no pair"
    mean = f"{100 * sum(shares) / len(shares):.2f} %"
    return mean if len(shares) == 1 else f"{mean} ({100 * min(shares):.2f} to {100 * max(shares):.2f})"


def _questions(changes: Mapping[int, tuple[str, str, float]]) -> list[tuple[int, str]]:
    """(question, right in the base leg and here), largest changes first."""
    ordered = sorted(changes.items(), key=lambda item: (-abs(item[1][2]), item[0]))
    return [(question, f"{before} to {after}") for question, (before, after, _) in ordered]
