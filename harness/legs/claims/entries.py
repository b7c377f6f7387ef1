"""One entry of a file of reported figures: its fields, its printed numbers, and its standing.

Contract: a field is of its type and known by name, and an entry that does not simply stand says why. The
failure to fear is a figure that was taken back and is read as one that stands, so standing is never guessed
where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.exits import InputError
from harness.legs.claims.arithmetic import Printed, printed

STANDINGS = ("stands", "withdrawn", "superseded", "partial")
"""stands; withdrawn, superseded (by another entry) and partial (only part of it was reported) say why."""


class ReportError(InputError):
    """A file of reported figures that cannot be read; one sentence naming entry and field."""


def listed(content: Mapping[str, Any], kind: str) -> list[Any]:
    """The entries ``[[kind]]``; `checked` refuses those that are no tables."""
    found = content.get(kind, [])
    return found if isinstance(found, list) else [None]


def checked(record: Any, number: int, kind: str, fields: Mapping[str, type]) -> dict[str, Any]:
    """Entry ``number`` of ``[[kind]]``, whose fields are ``fields``. Raises `ReportError`."""
    if not isinstance(record, dict):
        raise ReportError(f"{kind} {number} is no table")
    for name, value in record.items():
        if name not in fields:
            raise ReportError(f"{kind} {number} has an unknown field {name}, allowed are {', '.join(fields)}")
        if not isinstance(value, fields[name]) or isinstance(value, bool):
            raise ReportError(f"{kind} {number} has {name} {value!r}, allowed is {fields[name].__name__}")
    for name in ("id", "source"):
        if not record.get(name):
            raise ReportError(f"{kind} {number} lacks field {name}")
    return dict(record)


def standing(found: Mapping[str, Any], kind: str) -> str:
    """What ``found`` says of its standing. Raises `ReportError`, also where it does not say why."""
    name, word = found["id"], found.get("standing", "")
    if word not in STANDINGS:
        raise ReportError(f"{kind} {name} has standing {word!r}, allowed are {', '.join(STANDINGS)}")
    if word != "stands" and not found.get("why"):
        raise ReportError(f"{kind} {name} is {word} and lacks field why")
    if (word == "superseded") != bool(found.get("superseded_by")):
        raise ReportError(f"{kind} {name} is {word}, allowed is superseded_by where it is superseded")
    return str(word)


def figure_of(owner: str, name: str, text: str) -> Printed:
    """The number ``text`` of field ``name``. Raises `ReportError`."""
    try:
        return printed(text)
    except ValueError as error:
        raise ReportError(f"{owner} has {name} that is wrong: {error}") from None
