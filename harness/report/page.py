"""One run as one self-contained HTML page: no script or style from anywhere else.

Reads a run's folder and fills ``page.html.j2``. Every text of a record is escaped by the
template engine; only the drawings of `harness.report.heat`, which hold no text of a record, are
put in as they are. How this would fail silently: a run cut short that looks whole; the page says
at its top what did not end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.judge import ledger
from harness.judge.verdict import Status, Verdict
from harness.record import stages, store, summary
from harness.report import heat


def render(run: store.Run) -> str:
    """The page of ``run``."""
    return templates().get_template("page.html.j2").render(**context(run))


def templates(*folders: str) -> Environment:
    """Templates of ``folders`` of the package and of this one, which has the style that all pages share."""
    return Environment(
        loader=ChoiceLoader([PackageLoader("harness", folder) for folder in (*folders, "report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def context(run: store.Run) -> dict[str, Any]:
    """What the template is filled with."""
    loaded, manifest = store.load(run), run.manifest()
    records, book = loaded.records, ledger.load()
    complete = bool(manifest.get("complete"))
    about = manifest.get("provenance") or {}
    return {
        "run": run.id,
        "path": about.get("path", "?"),
        "manifest": manifest,
        "complete": complete,
        "planted": summary.planted(records),
        "loaded": loaded,
        "statuses": list(map(str, Status)),
        "said": summary.statuses(records),
        "counts": count_rows(records),
        "grades": summary.GRADES,
        "not_green": summary.NOT_GREEN,
        "suites": matrix(records),
        "subjects": summary.subjects(records),
        "stages": stages.sections(records, book),
        "stage_columns": stages.COLUMNS,
        "unsupported": summary.refusals(records).most_common(),
        "failures": [failure(record) for record in summary.red(records)],
        "findings": summary.findings(records, book),
        "stale": summary.stale(records, book) if complete else [],
        "provenance": flatten(about),
        "executors": sorted({str(record["executor"]) for record in records}),
        "seconds": sum(float(record["seconds"]) for record in records),
    }


def groups(records: Sequence[summary.Record]) -> dict[str, list[summary.Record]]:
    """Records by suite, or by suite and path where there are several."""
    several = len({str(record["path"]) for record in records}) > 1
    made = summary.grouped(records)
    return {f"{suite} on {path}" if several else suite: members for (suite, path), members in made.items()}


def count_rows(records: Sequence[summary.Record]) -> list[tuple[str, int, dict[str, int]]]:
    """(suite, cases, counts by column) for the table of counts, columns as in `summary.tally`."""
    counted = {
        name: sum(summary.tally(members).values(), Counter()) for name, members in groups(records).items()
    }
    return [(name, counts.total(), dict(counts)) for name, counts in counted.items()]


def matrix(records: Sequence[summary.Record]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Suite to its tiles, one a case, for the verdict matrix."""
    return [
        (name, sorted(map(tile, members), key=lambda one: str(one["case"])))
        for name, members in groups(records).items()
    ]


def tile(record: summary.Record) -> dict[str, Any]:
    """One case of the verdict matrix."""
    said = record["grade"] if record["status"] == Status.AGREE else record["reason"]
    return {**record, "said": said, "known": len(record.get("findings") or ())}


def failure(record: summary.Record) -> dict[str, Any]:
    """One failing case: its text, coordinates and heat map."""
    verdict = Verdict.from_record(record)
    drawing = heat.svg(verdict.heat, label="differing cells over row and column")
    return {
        "case": verdict.case,
        "path": verdict.path,
        "status": str(verdict.status),
        "reason": verdict.reason,
        "where": dict(verdict.where),
        "text": verdict.text(),
        "heat": Markup(drawing),
        "most": max((max(row, default=0) for row in verdict.heat), default=0),
    }


def flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as (dotted name, text) pairs."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            pairs += flatten(value, f"{name}.")
        else:
            pairs.append((name, plain(value)))
    return pairs


def plain(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return " ".join(map(str, value)) or "none"
    return str(value)
