"""The words of LLVM IR text, and a cursor over them.

Contract: every character of a line is some word or refused. A word that was skipped unseen could be a flag
that changes the meaning of an operation.
"""

from __future__ import annotations

import re

from harness.emulator.program import UnsupportedOperation

WORD = re.compile(
    r"""\s*(?:
      (?P<comment>;.*)
    | (?P<string>c?"(?:[^"\\]|\\.)*")
    | (?P<name>[%@](?:"(?:[^"\\]|\\.)*"|[-\w$.]+))
    | (?P<meta>!(?:[-\w$.]+|"(?:[^"\\]|\\.)*")?)
    | (?P<attribute>\#\d+)
    | (?P<hex>0x[KLMHR]?[0-9A-Fa-f]+)
    | (?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)
    | (?P<word>[A-Za-z_$.][-\w$.]*)
    | (?P<mark>\.\.\.|[][(){}<>=,*|:])
    )""",
    re.X,
)


def words(line: str, location: str = "") -> list[str]:
    """The words of ``line`` without its comment. Raises `UnsupportedOperation`."""
    found, at, end = [], 0, len(line.rstrip())
    while at < end:
        match = WORD.match(line, at)
        if match is None:
            raise UnsupportedOperation(f"text {line[at:].strip()[:40]!r}", location)
        at = match.end()
        if match.lastgroup != "comment":
            found.append(match[0].strip())
    return found


class Cursor:
    """Words read from left to right."""

    def __init__(self, found: list[str], location: str = "") -> None:
        self._words, self._at, self.location = found, 0, location

    def peek(self, ahead: int = 0) -> str:
        """The word ``ahead`` of the next one; empty at the end."""
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else ""

    def next(self) -> str:
        word = self.peek()
        if not word:
            raise self.refusal("the end of a line")
        self._at += 1
        return word

    def take(self, *words: str) -> str:
        """The next word if it is one of ``words``, else nothing is read and it is empty."""
        return self.next() if self.peek() in words and self.peek() else ""

    def expect(self, word: str) -> None:
        if self.next() != word:
            self._at -= 1
            raise self.refusal(f"{self.peek()!r} where {word!r} is expected")

    def flags(self, known: frozenset[str]) -> frozenset[str]:
        """Words of ``known`` that come next."""
        found = []
        while self.peek() in known:
            found.append(self.next())
        return frozenset(found)

    def group(self) -> list[str]:
        """What stands between the bracket that comes next and the one that closes it."""
        opening = self.next()
        closing = {"(": ")", "[": "]", "{": "}", "<": ">"}[opening]
        depth, inner = 1, []
        while depth:
            word = self.next()
            depth += (word == opening) - (word == closing)
            inner.append(word)
        return inner[:-1]

    def refusal(self, what: str) -> UnsupportedOperation:
        return UnsupportedOperation(f"LLVM IR: {what}", self.location)


def unquoted(name: str) -> str:
    """A name without its quotes: ``@"a b"`` is ``@a b``."""
    return name[0] + name[2:-1] if name[1:2] == '"' else name
