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
    if str(file) == "-":
        raise exits.InputError(f"{field} is '-', allowed is a file name (/dev/stdout writes to the terminal)")
    if file.is_dir():
        raise exits.InputError(f"{field} {file} is a directory, a file name is wanted")
    if not file.parent.is_dir():
        raise exits.InputError(f"{field} {file} lies in a directory that does not exist")
    if is_stream(file):
        return
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise exits.InputError(f"{field} {file} cannot be written: {str(error.strerror).lower()}") from None


def check_apart(files: Mapping[str, Path | None]) -> None:
    """Raise `InputError` when two options name one file: the later would overwrite the earlier."""
    seen: dict[Path, str] = {}
    for field, file in files.items():
        if file is None or is_stream(file):
            continue
        other = seen.setdefault(file.resolve(), field)
        if other != field:
            raise exits.InputError(f"{field} {file} is the file of {other} too, two are wanted")


def is_stream(file: Path) -> bool:
    """Whether ``file`` is there and is no regular file: a device or a pipe, never to be replaced."""
    return file.exists() and not file.is_file()


def write_text(file: Path, text: str) -> None:
    """Write atomically, through links; a device or a pipe is written to as it is.

    Raises `CannotRun` with one sentence when the disk refuses.
    """
    try:
        if is_stream(file):
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            store.write_atomically(file.resolve(), text)
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
