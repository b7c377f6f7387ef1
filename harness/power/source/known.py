"""Faults in source text that change nothing, each with the reason: ``known.toml``.

An entry is matched by file and by the changed lines before and after, never by line number, and counts
for nothing once a line changes, so that a reason cannot outlive the text it is about.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.exits import InputError

FILE = Path(__file__).with_name("known.toml")
FIELDS = {"file", "before", "after", "reason"}
Key = tuple[str, str, str]


def load(file: Path = FILE) -> dict[Key, str]:
    """(file, before, after) to reason. Raises `InputError` for an entry with other fields, or none."""
    found: dict[Key, str] = {}
    for number, entry in enumerate(tomllib.loads(file.read_text()).get("equivalent", ()), 1):
        if set(entry) != FIELDS or not all(isinstance(one, str) and one for one in entry.values()):
            raise InputError(f"{file.name} entry {number} has {sorted(entry)}, allowed are {sorted(FIELDS)}")
        found[key(entry)] = entry["reason"]
    return found


def key(entry: Mapping[str, Any]) -> Key:
    """Lines without the blanks around them."""
    before, after = (
        "\n".join(map(str.strip, entry[name].splitlines())).strip() for name in ("before", "after")
    )
    return str(entry["file"]), before, after
