"""Pooled legs as tables: for the console, as Markdown for a pull request, as a frame for CSV and Parquet.

All three are made from the same rows, so that no figure is formatted twice in two ways.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from rich.table import Table

from harness.legs.pool.answers import Alone, Interval
from harness.legs.pool.pooled import Judged, Pooled
from harness.legs.pool.words import UNDEFINED, Word, points

LEFT = ("leg", "filter", "verdict")
SHOWN = 20
"""Questions named before the list is cut."""

LEGS = (
    "leg", "filter", "right / answered", "accuracy", "error", "95 % interval", "spread", "flips",
    "acceptance",
)  # fmt: skip
COMPARISONS = (
    "leg", "filter", "questions", "gained / lost", "difference", "95 % interval", "p", "detectable",
    "equivalence p", "verdict",
)  # fmt: skip


def title(pooled: Pooled) -> str:
    """What the comparisons are against."""
    return f"against {pooled.base}, in points; equivalence margin {points(pooled.margin)}"


def legs(pooled: Pooled) -> list[tuple[str, ...]]:
    """A row for each leg and filter, under `LEGS`."""
    return [_leg(one, pooled) for one in pooled.legs]


def comparisons(pooled: Pooled) -> list[tuple[str, ...]]:
    """A row for each comparison, under `COMPARISONS`."""
    return [_comparison(one, pooled) for one in pooled.judged]


def console(pooled: Pooled) -> list[Table]:
    """Two tables: the legs, and what they come to against the base leg."""
    made = [_table(LEGS, legs(pooled))]
    if pooled.judged:
        made.append(_table(COMPARISONS, comparisons(pooled)))
        made[-1].title, made[-1].title_justify = title(pooled), "left"
    return made


def markdown(pooled: Pooled) -> str:
    """Two Markdown tables and the sentences."""
    made = lines(LEGS, legs(pooled))
    if pooled.judged:
        made += ["", f"{title(pooled)}:", "", *lines(COMPARISONS, comparisons(pooled)), ""]
    made += [f"- {said}" for said in sentences(pooled)]
    made += [_disagreement(leg, questions) for leg, questions in pooled.disagreeing.items() if questions]
    return "\n".join(made) + "\n"


def told(pooled: Pooled) -> list[tuple[Word, str]]:
    """(verdict, sentence): what each comparison comes to, then why a leg does not count, once each."""
    refused = pooled.refused
    said = [
        (one.word, f"{_label(one.between.other, pooled)} against {one.between.base}, "
                   f"{one.between.which}: {one.said}")
        for one in pooled.judged
        if not {one.between.base, one.between.other} & set(refused)
    ]  # fmt: skip
    for leg, why in refused.items():
        sentence = f"{_label(leg, pooled)} is not measured: {why}"
        if leg == pooled.base and pooled.judged:
            sentence += "; it is the base leg, so no leg is compared"
        said.append((Word.NOT_MEASURED, sentence))
    return said


def sentences(pooled: Pooled) -> list[str]:
    """The sentences of `told`."""
    return [sentence for _, sentence in told(pooled)]


def _label(leg: str, pooled: Pooled) -> str:
    """The leg's name; that of a positive control says that it is one."""
    return f"{leg} (known bad)" if leg in pooled.known_bad else leg


def _disagreement(leg: str, questions: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, questions[:SHOWN])) + (" ..." if len(questions) > SHOWN else "")
    return f"- the filters disagree on {len(questions)} questions of {leg}: {shown}"


def frames(pooled: Pooled) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(legs, comparisons) as numbers, undefined as missing."""
    content = pooled.records()
    first = pd.json_normalize(content["legs"], sep="_")
    second = pd.json_normalize(content["comparisons"], sep="_")
    if "counts" in first:
        first["counts"] = first["counts"].map(lambda counts: " ".join(f"{k}/{n}" for k, n in counts))
    return first, second


def write(pooled: Pooled, folder: Path) -> list[Path]:
    """pooled.md, legs.csv, comparisons.csv and both as Parquet in ``folder``; the files written."""
    from harness.record.document import write_text

    files = [folder / "pooled.md"]
    write_text(files[0], markdown(pooled))
    for name, frame in zip(("legs", "comparisons"), frames(pooled), strict=True):
        write_text(folder / f"{name}.csv", frame.to_csv(index=False))
        frame.to_parquet(folder / f"{name}.parquet")
        files += [folder / f"{name}.csv", folder / f"{name}.parquet"]
    return files


def _leg(one: Alone, pooled: Pooled) -> tuple[str, ...]:
    if one.leg in pooled.refused:
        return _label(one.leg, pooled), one.which, "-", str(Word.NOT_MEASURED), *["-"] * (len(LEGS) - 4)
    accepted = pooled.acceptance.get(one.leg, math.nan)
    return (
        _label(one.leg, pooled),
        one.which,
        " ".join(f"{k}/{n}" for k, n in one.counts) or "none",
        share(one.accuracy),
        share(one.error),
        interval(one.interval, share),
        share(one.spread),
        share(one.flips),
        "-" if math.isnan(accepted) else f"{accepted:.2f}",
    )


def _comparison(one: Judged, pooled: Pooled) -> tuple[str, ...]:
    found = one.between
    if {found.base, found.other} & set(pooled.refused):
        missing = ["-"] * (len(COMPARISONS) - 3)
        return _label(found.other, pooled), found.which, *missing, str(one.word)
    return (
        _label(found.other, pooled),
        found.which,
        f"{found.compared}" if found.paired else f"{found.compared} (unpaired)",
        "-" if found.gained is None else f"{found.gained} / {found.lost}",
        points(found.difference),
        interval(found.interval, points),
        small(found.p),
        points(found.detectable),
        small(found.equivalence),
        str(one.word),
    )


def share(value: float) -> str:
    """A proportion to four decimals."""
    return UNDEFINED if math.isnan(value) else f"{value:.4f}"


def small(value: float) -> str:
    """A p value to two digits."""
    return UNDEFINED if math.isnan(value) else f"{value:.2g}"


def interval(one: Interval, spell: object) -> str:
    """Bounds as ``spell`` writes them."""
    if math.isnan(one.low):
        return UNDEFINED
    assert callable(spell)
    return f"{spell(one.low)} to {spell(one.high)}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    shown = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(
            column, justify="left" if column in ("leg", "against", "filter", "verdict") else "right"
        )
    for row in rows:
        shown.add_row(*row)
    return shown


def lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return head + ["| " + " | ".join(row) + " |" for row in escaped]
