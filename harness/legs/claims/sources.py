"""Figures from elsewhere: lm-eval's results files and Markdown tables.

What is read is what is printed. A table that names no n is audited over the n that is given, and
without one each proportion is only told to be unclear; guessing GSM8K's 1319 would make every
wrong n look right.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs.claims.arithmetic import LARGEST_N, Printed, printed
from harness.legs.claims.reported import FILTERS, Score

PROPORTION = re.compile(
    r"(?<![\w.+-])(0\.\d{2,40}|1\.0{1,40}|\d{1,3}(?:\.\d{1,40})?\s?%)"
    r"(?:\s*(?:\+/-|±|\+-)\s*(0\.\d{1,40}))?(?![\w.])",
    re.ASCII,
)
"""A proportion, and its error if given; a figure with a sign is a difference."""

N_NAMES = ("n", "questions", "items", "samples", "n-samples", "limit")


@dataclass(frozen=True)
class Cited:
    """A proportion somebody printed. ``where``: file and place; ``n`` None: nobody said over how many."""

    where: str
    which: str
    score: Score
    n: int | None


def read(path: Path, n: int | None = None) -> list[Cited]:
    """Every proportion in ``path``: a folder or file of lm-eval results, or a Markdown file.

    Raises `InputError` when there is none, or when the file is of no known kind.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; give lm-eval results or a Markdown file")
    files = sorted(path.rglob("results*.json")) if path.is_dir() else [path]
    found = [cited for file in files for cited in _file(file, n)]
    if not found:
        what = "no results*.json with gsm8k scores" if path.is_dir() else "no proportion"
        raise InputError(f"{path} holds {what}")
    return found


def _file(file: Path, n: int | None) -> Iterator[Cited]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    if file.suffix == ".json":
        return _results(file, text)
    if file.suffix in (".md", ".markdown", ".txt"):
        return _markdown(file.name, text, n)
    raise InputError(f"{file} is of no known kind, allowed are .json, .md, .markdown and .txt")


def _results(file: Path, text: str) -> Iterator[Cited]:
    """Scores of lm-eval's results file: ``results[task]["exact_match,filter"]`` at full precision."""
    try:
        content = json.loads(text)
        tasks: dict[str, Any] = dict(content["results"])
        counted: dict[str, Any] = dict(content.get("n-samples") or {})
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{file} is no lm-eval results file: it has no table 'results'") from None
    for name, table in (("results", tasks), ("n-samples", counted)):
        wrong = next((task for task, inner in table.items() if not isinstance(inner, dict)), None)
        if wrong is not None:
            raise InputError(f"{file} has {name} of {wrong} that is no table")
    for task, scores in tasks.items():
        n = counted.get(task, {}).get("effective")
        n = None if isinstance(n, bool) else n
        for key, value in scores.items():
            metric, _, name = str(key).partition(",")
            if metric != "exact_match" or not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if isinstance(value, int) and value not in (0, 1):
                raise InputError(f"{file} has a whole score of {task} that is not 0 or 1")
            error = scores.get(f"exact_match_stderr,{name}")
            if not all(math.isfinite(part) for part in (value, error) if isinstance(part, float)):
                raise InputError(f"{file} has a score of {task} that is no finite number")
            if isinstance(n, int) and not 1 <= n <= LARGEST_N:
                raise InputError(f"{file} has n-samples {n} for {task}, allowed are 1 to {LARGEST_N}")
            score = Score(_exactly(value), None, _exactly(error) if isinstance(error, float) else None)
            yield Cited(f"{file.name}: {task}", name, score, n if isinstance(n, int) else None)


def _exactly(value: float | int) -> Printed:
    """A float of a results file, to ten decimals: what survives a double."""
    return printed(f"{value:.10f}")


def _markdown(name: str, text: str, n: int | None) -> Iterator[Cited]:
    """Proportions in the cells of Markdown tables; an n is taken from a column that is called so."""
    header: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not header:
            header = [cell.lower().strip("*` ") for cell in cells]
            continue
        if all(set(cell) <= set("-: ") for cell in cells):
            continue
        own = _n_of(header, cells)
        for column, cell in zip(header, cells, strict=False):
            for match in PROPORTION.finditer(cell):
                if own is not None and not 1 <= own <= LARGEST_N:
                    raise InputError(f"{name} line {number} has n {own}, allowed are 1 to {LARGEST_N}")
                error = printed(match[2]) if match[2] else None
                which = next((one for one in FILTERS if one in column), column)
                yield Cited(f"{name}:{number}", which, Score(printed(match[1]), None, error), own or n)


def _n_of(header: list[str], cells: list[str]) -> int | None:
    for column, cell in zip(header, cells, strict=False):
        if column in N_NAMES and re.fullmatch(r"[0-9][0-9,]{0,40}", cell):
            return int(cell.replace(",", ""))
    return None
