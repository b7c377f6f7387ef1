"""The console for people: no markup, no highlighting, wide enough for the tables when it is no terminal."""

from __future__ import annotations

from rich.console import Console

WIDTH = 116
"""Columns of output that is no terminal: the table of a run on several paths."""


class PeopleConsole(Console):
    """Standard output, without markup; `exits` decides what a closed pipe means, not the library."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, width=width)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console_for_people() -> Console:
    """Standard output; wide enough for the table when it is no terminal."""
    console = PeopleConsole()
    return console if console.is_terminal else PeopleConsole(width=WIDTH)
