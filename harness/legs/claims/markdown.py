"""Tables of a Markdown file as GitHub shows them, and the text outside of them; code is neither.

Contract: what is in a cell is what a reader sees there, without marks of emphasis. The reading is
markdown-it's, because a table taken apart at its bars loses its columns at the first bar that is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " "))
"""Spaces that numbers are set with."""

TAG = re.compile(r"<!--.*?-->|<[^>]*>", re.DOTALL)
BREAKS = {"softbreak": " ", "hardbreak": " ", "html_inline": " "}


@dataclass
class Sheet:
    """A table: the names of its columns, in small letters, and its rows as (line, cells)."""

    header: list[str] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)


def read(text: str) -> tuple[list[Sheet], list[tuple[int, str]]]:
    """(tables in order, (line, text) of every run of text outside of them)."""
    sheets: list[Sheet] = []
    outside: list[tuple[int, str]] = []
    tokens = iter(MarkdownIt("commonmark").enable("table").parse(text))
    for token in tokens:
        if token.type == "table_open":
            sheets.append(_sheet(tokens))
        elif token.type == "inline" and token.map:
            outside.append((token.map[0] + 1, _shown(token)))
        elif token.type == "html_block" and token.map:
            outside.append((token.map[0] + 1, TAG.sub(" ", token.content)))
    return sheets, outside


def _sheet(tokens: Iterator[Token]) -> Sheet:
    """The table whose opening was the last of ``tokens``."""
    rows: list[tuple[int, list[str]]] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append(((token.map or [0])[0] + 1, []))
        elif token.type == "inline":
            rows[-1][1].append(_shown(token))
    return Sheet([name.lower() for name in rows[0][1]], rows[1:])


def _shown(token: Token) -> str:
    parts = (BREAKS.get(part.type, part.content) for part in token.children or ())
    return "".join(parts).translate(SPACES).strip()
