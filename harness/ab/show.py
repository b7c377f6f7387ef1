"""A comparison for people: a table by suite, what changed and where, signatures, the verdict in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.ab.compare import (
    DIFFERS,
    ERROR,
    GONE,
    MEANINGS,
    NEW,
    NOT_ASKED,
    SAME,
    UNSUPPORTED,
    Change,
    Compared,
)

WORDS = (SAME, DIFFERS, GONE, NEW, UNSUPPORTED, ERROR, NOT_ASKED)
STYLES = {
    SAME: "green",
    DIFFERS: "bold red",
    GONE: "bold red",
    NEW: "yellow",
    UNSUPPORTED: "yellow",
    ERROR: "red",
}
SHOWN = 3
"""Changes shown of one case; the document has them all."""


def table(found: Sequence[Compared]) -> Table:
    """Cases by suite and by what became of them."""
    made = Table(show_edge=False, pad_edge=False)
    made.add_column("suite")
    for word in ("cases", *WORDS, "tensors", "MB", "seconds"):
        made.add_column(word, justify="right")
    by_suite: dict[str, list[Compared]] = {}
    for one in found:
        by_suite.setdefault(one.suite, []).append(one)
    for suite, some in by_suite.items():
        made.add_row(*_row(suite, some))
    if len(by_suite) > 1:
        made.add_section()
        made.add_row(*_row("all", found))
    return made


def _row(name: str, some: Sequence[Compared]) -> list[Text | str]:
    counts = Counter(one.status for one in some)
    cells = [
        Text(str(counts[word]) if counts[word] else "-", style=STYLES.get(word, "") if counts[word] else "")
        for word in WORDS
    ]
    size = sum(one.bytes for one in some) / 1e6
    seconds = sum(one.seconds for one in some)
    return [
        name,
        str(len(some)),
        *cells,
        str(sum(one.tensors for one in some)),
        f"{size:.1f}",
        f"{seconds:.1f}",
    ]


def details(console: Console, found: Sequence[Compared]) -> None:
    """Every case that is not the same, with its first changes or its reason; cases that are alike once."""
    alike: dict[tuple[str, ...], list[Compared]] = {}
    for one in found:
        if one.status not in (SAME, NOT_ASKED, UNSUPPORTED) or one.notes:
            alike.setdefault((one.status, *_likeness(one)), []).append(one)
    for first, *others in alike.values():
        console.print(
            Text(f"{first.status:<12}{first.case}", style=STYLES.get(first.status, "")), soft_wrap=True
        )
        for line in _lines(first):
            console.print(Text(f"  {line}"), soft_wrap=True)
        if others:
            console.print(f"  and {len(others)} cases more, as {others[0].case}", soft_wrap=True)
    _reasons(console, found)


def _likeness(one: Compared) -> tuple[str, ...]:
    """What cases that are told once have in common; a cell that differs is told by itself."""
    if any(change.where for change in one.changes):
        return (one.case,)
    return (*(change.text() for change in one.changes), one.reason, *one.notes)


def _lines(one: Compared) -> list[str]:
    lines = [change.text() for change in one.changes[:SHOWN]]
    if len(one.changes) > SHOWN:
        lines.append(f"and {len(one.changes) - SHOWN} changes more")
    notes = (*([one.reason] if one.status == ERROR else []), *one.notes)
    return lines + [f"note  {note}" for note in notes]


def _reasons(console: Console, found: Sequence[Compared]) -> None:
    """Why cases are unsupported on both sides, counted."""
    reasons = Counter(one.reason for one in found if one.status == UNSUPPORTED)
    for reason, count in reasons.most_common():
        console.print(Text(f"unsupported {count} times: {reason}", style="yellow"), soft_wrap=True)


def signatures(console: Console, changes: Sequence[Change], alone: Sequence[str], checked: int) -> None:
    """Changed signatures, and what is to be said of functions that were not compared."""
    for change in changes:
        console.print(Text(change.text(), style="bold red"), soft_wrap=True)
    for said in alone:
        console.print(Text(f"note  {said}", style="yellow"), soft_wrap=True)
    said = f"signatures of {checked} functions compared: {len(changes) or 'no'} changes"
    if not checked:
        said = "no function was met on both sides, so no signature was compared"
    console.print(said, soft_wrap=True)


def nothing(found: Sequence[Compared], path: str) -> str:
    """Why nothing was compared, of which suites: the first of them by its most frequent reason."""
    by_suite: dict[str, Counter[str]] = {}
    for one in found:
        by_suite.setdefault(one.suite, Counter())[one.status] += 1
    without = {suite: counts for suite, counts in by_suite.items() if not counts[SAME]}
    if not without:
        return "nothing was compared: no case was asked"
    suites = ", ".join(without)
    status = sum(without.values(), Counter()).most_common(1)[0][0]
    reasons = {
        NOT_ASKED: f"path {path} has no operation that its cases ask for",
        UNSUPPORTED: "neither tree answers",
        NEW: "only the head answers",
    }
    return f"nothing of {suites} was compared: {reasons[status]}"


def meaning(name: str) -> str:
    """What a status word says, for ``--help``."""
    return f"  {name:<13}{MEANINGS[name]}"


def headline(base: Path, head: Path, path: str, suites: Sequence[str], which: str) -> str:
    return f"ab path {path}, {which} cases of {', '.join(suites)}\n  base  {base}\n  head  {head}"
