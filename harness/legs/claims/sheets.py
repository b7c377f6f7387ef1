"""Accuracy figures in Markdown tables, lm-eval's own among them.

Contract: a figure is read in a column of scores, as a whole cell; whatever else in the file looks like a
proportion is told, once a column. An n that cannot be read is no reason to take another. The failure to fear
is a figure that is dropped in silence beside others that are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.exits import InputError
from harness.legs.claims import cells, columns, markdown
from harness.legs.claims.arithmetic import LARGEST_N
from harness.legs.claims.cited import UNKNOWN_N, Cited, Unread
from harness.legs.claims.columns import QUESTIONS, Columns
from harness.legs.claims.markdown import Sheet

PROSE = re.compile(rf"(?<![\w.,+-])(?:{cells.PROPORTION.pattern})(?!\w|[.,]\d)", re.ASCII)
"""A proportion in running text."""

READ = "figures are read in tables, in columns named as scores (accuracy, score, strict, flexible, ...)"


def read(name: str, text: str, n: int | None) -> Iterator[Cited | Unread]:
    """Figures of the file ``name``, over ``n`` questions where a row names none. Raises `InputError`."""
    sheets, outside = markdown.read(text)
    for sheet in sheets:
        of = columns.of(sheet.header)
        for line, row in sheet.rows:
            yield from _row(f"{name}:{line}", of, row, n)
        yield from _others(name, of, sheet)
    found = [(line, match[0]) for line, said in outside for match in PROSE.finditer(said)]
    if found:
        yield Unread(f"{name}:{found[0][0]}", f"{_many(len(found), found[0][1])} in text, not read; {READ}")


def _row(where: str, of: Columns, row: Sequence[str], n: int | None) -> Iterator[Cited | Unread]:
    own, why = _questions(where, of.header, row, n)
    for place in of.scores:
        cell, score = row[place], cells.score(row[place])
        if not of.is_accuracy(row):
            if cells.PROPORTION.fullmatch(cell):
                yield Unread(where, f"{cell} is of a metric that is not known to be an accuracy")
        elif score is None:
            if any(letter.isdigit() for letter in cell):
                yield Unread(where, f"{of.header[place]} {cell} is no figure as it is read here")
        else:
            beside = row[of.errors[place]] if place in of.errors else ""
            error = score.error or cells.error(beside, cell)
            yield Cited(where, of.which(row, place), replace(score, error=error), own, why)
            if error is None and ("±" in cell or "+" in cell or any(letter.isdigit() for letter in beside)):
                yield Unread(where, f"{beside or cell} does not tell the unit of the error of {cell}")


def _questions(
    where: str, header: Sequence[str], row: Sequence[str], n: int | None
) -> tuple[int | None, str]:
    """(n of ``row``, or ``n`` where it names none; why it is not known)."""
    for name, cell in zip(header, row, strict=True):
        if name in QUESTIONS and any(letter.isdigit() for letter in cell):
            found = cells.questions(cell)
            if found is not None and not 1 <= found <= LARGEST_N:
                raise InputError(f"{where} has n {found}, allowed are 1 to {LARGEST_N}")
            return found, f"its {name} is {cell}, which is no whole number" if found is None else ""
    return n, UNKNOWN_N if n is None else ""


def _others(name: str, of: Columns, sheet: Sheet) -> Iterator[Unread]:
    for place in of.others:
        found = [(line, match[0]) for line, row in sheet.rows if (match := PROSE.search(row[place]))]
        if found:
            line, first = found[0]
            said = f"{_many(len(found), first)} in column {of.header[place]!r}, not read; {READ}"
            yield Unread(f"{name}:{line}", said)


def _many(count: int, first: str) -> str:
    return first if count == 1 else f"{count} figures such as {first}"
