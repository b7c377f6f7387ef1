"""Verdict records as a Parquet table: one row a verdict, made and read through pandas.

Fields that have a column type of their own are listed here; every other field is kept as JSON
text, so that a record comes back as it was. How this would fail silently: a missing whole number
that comes back as a rounded float; so those columns are of the nullable integer type.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TEXT = ("case", "suite", "path", "executor", "status", "grade", "reason", "layer", "pattern", "rerun")
WHOLE = ("count", "total")
REAL = ("seconds",)


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write verdict records as a table, one row each, by temp file and replace."""
    import pandas

    rows = [{key: _cell(key, value) for key, value in record.items()} for record in records]
    frame = pandas.DataFrame(rows)
    kinds = dict.fromkeys(WHOLE, "Int64") | dict.fromkeys(REAL, "float64")
    frame = frame.astype({str(column): kinds.get(str(column), "string") for column in frame.columns})
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        frame.to_parquet(temporary, index=False)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> list[dict[str, Any]]:
    """The records that `write` wrote, field for field."""
    import pandas

    frame = pandas.read_parquet(path).astype(object)
    rows = frame.where(frame.notna(), None).to_dict(orient="records")
    return [{str(key): _uncell(str(key), value) for key, value in row.items()} for row in rows]


def _cell(key: str, value: Any) -> Any:
    return value if key in TEXT + WHOLE + REAL else json.dumps(value)


def _uncell(key: str, value: Any) -> Any:
    if value is None:
        return None
    if key in WHOLE:
        return int(value)
    return value if key in TEXT + REAL else json.loads(value)
