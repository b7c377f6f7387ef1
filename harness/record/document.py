"""The JSON document of a run, and the checks that a file asked for can be written at all."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness import exits
from harness.record import store


def check_output(field: str, file: Path | None) -> None:
    """Raise `InputError` naming ``field`` unless ``file`` can be written; before any long work."""
    if file is None:
        return
    if file.is_dir():
        raise exits.InputError(f"{field} {file} is a directory, a file name is wanted")
    if not file.parent.is_dir():
        raise exits.InputError(f"{field} {file} lies in a directory that does not exist")
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise exits.InputError(f"{field} {file} cannot be written: {str(error.strerror).lower()}") from None


def write_text(file: Path, text: str) -> None:
    """Write atomically; raises `CannotRun` with one sentence when the disk refuses."""
    try:
        store.write_atomically(file, text)
    except OSError as error:
        raise exits.CannotRun(f"{file} could not be written: {str(error.strerror).lower()}") from None


def write_json(
    file: Path, about: Mapping[str, Any], records: Iterable[Mapping[str, Any]], *, complete: bool
) -> None:
    """Write ``{"provenance": {...}, "complete": ..., "records": [...]}``."""
    content = {
        "provenance": dict(about),
        "complete": complete,
        "records": [dict(record) for record in records],
    }
    write_text(file, json.dumps(content, indent=1) + "\n")
