"""Is what a campaign folder holds what the harness writes? Checked once, before anything is read out of it.

Contract: after `check` every manifest, probe and line of answers in the folder has the types and values that
it is written with. A line that a kill tore is passed over, since its question has no answer then. The
failure to fear is an edited or damaged file that still reads as a measurement: an answer that counts as five,
or a cut reply that counts as whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from harness.exits import InputError
from harness.legs import journal, probe
from harness.legs.shown import short
from harness.legs.stored_line import Amount, Count, Line, Stored, Text, context

TORN = b'{"question":'
"""How every line begins, so also one that a kill tore."""

ALLOWED = {
    "int_type": "a whole number of 0 or more",
    "greater_than_equal": "a whole number of 0 or more",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "missing": "a file as the harness wrote it",
}
"""What each kind of error of the checking library means is allowed."""


class Segment(Stored):
    """A part of a log; see `harness.legs.logs.Segment`."""

    start: Count = Field(alias="from")
    to: Count | None
    mark: str | None = None

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if self.to is not None and self.to < self.start:
            raise ValueError(f"to is {self.to}, allowed is {self.start} (where it starts) or more")
        return self


class Patterns(Stored):
    """Lines of a log that match; see `harness.legs.logs.looked`."""

    required: dict[str, Count] = Field(default_factory=dict)
    forbidden: dict[str, Count] = Field(default_factory=dict)
    log: bool


class Crash(Stored):
    """How a server ended; see `harness.legs.crash.signature`."""

    ended: Text
    compared: Text
    digest: Text
    lines: list[Text] = Field(default_factory=list)
    signature: list[Text] = Field(default_factory=list)
    time: str | None = None


class Manifest(Stored):
    """What is known of a sample beside its answers; null is refused where the journal refuses it."""

    status: Literal["running", "finished", "crashed", "stopped"] = "running"
    identity: dict[str, Any] = Field(default_factory=dict)
    expected: Count | None = None
    attempts: Count = 0
    started: str | None = None
    finished: str | None = None
    crashes: list[Crash] = Field(default_factory=list)
    log_segments: list[Segment] = Field(default_factory=list)
    patterns: Patterns = Patterns(log=False)
    acceptance: Amount | None = None
    harness: list[Text] = Field(default_factory=list)


class Replies(Stored):
    """A probe's replies; see `harness.legs.probe.summed`."""

    replies: list[list[str | None]]


def check(directory: Path) -> None:
    """Raises `InputError`, one sentence: the file, the line, the field, what is allowed."""
    for folder in sorted(directory.glob("*/*")):
        file = folder / journal.MANIFEST
        if not folder.name.isdecimal() or not (file.exists() or (folder / journal.SAMPLES).exists()):
            continue
        if folder.name != str(int(folder.name)):
            raise InputError(f"{folder} is a sample's folder, allowed is the name {int(folder.name)}")
        check_sample(folder)


def check_sample(folder: Path) -> None:
    """`check` of one sample."""
    manifest = read(folder / journal.MANIFEST)
    _check(folder / journal.MANIFEST, Manifest, manifest)
    if (folder / probe.PROBE).exists():
        _check(folder / probe.PROBE, Replies, read(folder / probe.PROBE))
    for number, line in _lines(folder / journal.SAMPLES):
        _check(f"{folder / journal.SAMPLES} line {number}", Line, line, context(manifest))


def read(file: Path) -> Any:
    """What the JSON of ``file`` holds. Raises `InputError` where it cannot be read, or written again."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(found, ensure_ascii=False).encode()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None
    except UnicodeEncodeError:
        raise InputError(f"{file} has half of a surrogate pair, allowed are whole letters") from None
    except (ValueError, RecursionError):
        raise InputError(f"{file} is no JSON, allowed is the file as the harness wrote it") from None
    return found


def _lines(file: Path) -> Iterator[tuple[int, Any]]:
    """(number, what it holds) of every line that is whole."""
    try:
        lines = file.read_bytes().split(b"\n") if file.exists() else []
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None
    for number, line in enumerate(map(bytes.strip, lines), 1):
        try:
            if line:
                yield number, json.loads(line)
        except (ValueError, RecursionError):
            if not line.startswith(TORN[: len(line)]):
                raise InputError(f"{file} line {number} is no JSON, allowed is an answer's record") from None


def wrong(kind: type[Stored], found: Any, beside: dict[str, Any] | None = None) -> str:
    """What is wrong with ``found``, one sentence; empty where it is a ``kind``."""
    try:
        kind.model_validate(found, context=beside)
    except ValidationError as error:
        return _sentence(error)
    return ""


def _check(where: Path | str, kind: type[Stored], found: Any, beside: dict[str, Any] | None = None) -> None:
    said = wrong(kind, found, beside)
    if said:
        raise InputError(f"{where}: {said}")


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name, told, more = ".".join(map(str, first["loc"])), first["type"], first.get("ctx", {})
    if told == "value_error":
        return f"{name}: {more['error']}" if name else str(more["error"])
    if told == "missing":
        return f"{name} is missing, allowed is {ALLOWED[told]}"
    told_more = {"literal_error": f"{more.get('expected')}", "less_than_equal": f"{more.get('le')} or less"}
    allowed = told_more.get(told) or ALLOWED[told]
    return f"{name or 'it'} is {short(first['input'])}, allowed is {allowed}"
