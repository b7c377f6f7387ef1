"""A task's data from files: each split a JSONL file, each line a row.

Contract: all rows of a split have the same fields, none of them null. The failure to fear is a row that lacks
one: lm-eval would ask, and score, the word None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs.evaluation.library import dataset

SPLITS = {"train": "train.jsonl", "test": "test.jsonl"}


def split_of(file: Path) -> Any:
    """A split of the data, whose rows are alike: a field that a row lacks would be asked as None.

    Raises `InputError`.
    """
    found = list(rows(file))
    if not found:
        raise InputError(f"{file} holds no row")
    wanted = set(found[0][1])
    for number, row in found:
        lacking = sorted(name for name in wanted | set(row) if row.get(name) is None)
        if lacking or not row:
            raise InputError(f"{file} line {number} has no {lacking[0] if lacking else 'field'}")
    try:
        return dataset([row for _, row in found])
    except (ValueError, TypeError, OverflowError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{file} has rows that are not of one kind: {said}") from None


def rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the line, row) of a JSONL file. Raises `InputError` for a line that is none."""
    with open(file, "rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file} line {number} is no JSON: {error}") from None
            if not isinstance(row, dict):
                raise InputError(f"{file} line {number} is no JSON object")
            yield number, row
