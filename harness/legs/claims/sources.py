"""Figures from elsewhere: lm-eval's results files and Markdown tables.

What is read is what is printed. A file or row that names no n is audited over the n that is given, and
without one each proportion is only told to be unclear; guessing GSM8K's 1319 would make every
wrong n look right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs.claims import sheets
from harness.legs.claims.arithmetic import LARGEST_N, Printed, printed
from harness.legs.claims.cited import Cited, Unread
from harness.legs.claims.reported import Score


def read(path: Path, n: int | None = None) -> tuple[list[Cited], list[Unread]]:
    """(every proportion in ``path``, what looks like one and is not read).

    ``path``: a folder or file of lm-eval results, or a Markdown file; ``n``: questions behind a figure that
    names no n.

    Raises `InputError` when no proportion can be read, or when the file is of no known kind.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; give lm-eval results or a Markdown file")
    files = sorted(path.rglob("results*.json")) if path.is_dir() else [path]
    found = [one for file in files for one in _file(file, n)]
    cited = [one for one in found if isinstance(one, Cited)]
    unread = [one for one in found if isinstance(one, Unread)]
    if not cited:
        what = "no results*.json with gsm8k scores" if path.is_dir() else "no proportion"
        more = f" that can be read: {unread[0].where}: {unread[0].said}" if unread else ""
        raise InputError(f"{path} holds {what}{more}")
    return cited, unread


def _file(file: Path, n: int | None) -> Iterator[Cited | Unread]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    if file.suffix == ".json":
        return _results(file, text, n)
    if file.suffix in (".md", ".markdown", ".txt"):
        return sheets.read(file.name, text, n)
    raise InputError(f"{file} is of no known kind, allowed are .json, .md, .markdown and .txt")


def _results(file: Path, text: str, given: int | None) -> Iterator[Cited]:
    """Scores of lm-eval's results file: ``results[task]["exact_match,filter"]`` at full precision."""
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()
        tasks: dict[str, Any] = dict(content["results"])
        counted: dict[str, Any] = dict(content.get("n-samples") or {})
    except UnicodeEncodeError:
        raise InputError(f"{file} has half of a surrogate pair, allowed are whole letters") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{file} is no lm-eval results file: it has no table 'results'") from None
    for name, table in (("results", tasks), ("n-samples", counted)):
        wrong = next((task for task, inner in table.items() if not isinstance(inner, dict)), None)
        if wrong is not None:
            raise InputError(f"{file} has {name} of {wrong} that is no table")
    for task, scores in tasks.items():
        n = counted.get(task, {}).get("effective")
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= LARGEST_N):
            raise InputError(f"{file} has n-samples {n!r} for {task}, allowed are 1 to {LARGEST_N}")
        n = given if n is None else n
        for key, value in scores.items():
            metric, _, name = str(key).partition(",")
            if metric != "exact_match" or not _is_number(value):
                continue
            if isinstance(value, int) and value not in (0, 1):
                raise InputError(f"{file} has a whole score of {task} that is not 0 or 1")
            error = scores.get(f"exact_match_stderr,{name}")
            error = error if _is_number(error) else None
            if not all(math.isfinite(part) for part in (value, error) if isinstance(part, float)):
                raise InputError(f"{file} has a score of {task} that is no finite number")
            score = Score(_exactly(value), None, None if error is None else _exactly(error))
            yield Cited(f"{file.name}: {task}", name, score, n)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _exactly(value: float | int) -> Printed:
    """A number of a results file, to ten decimals: what survives a double."""
    return printed(f"{value:.10f}")
