"""Keys and passwords kept out of commands, logs and messages, before any of these is stored or printed.

Contract: of a command's words, values of options and variables with a secret name become digests, since what
is masked is part of a leg's identity and two different values must stay two. Of free text, values that are
known (variables with a secret name, the server's or this process's) and what is spelled like a key go. The
failure to fear is both ways: a key in a log that people publish, and an error line (``KeyError: 'x'``) that
is masked away, so free text is only touched at names that nothing but a secret has.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.legs import credentials

SHORTEST = 8
"""Letters of a variable's value that is looked for in texts; a shorter one stands in too many words."""

_NAME = (
    r"[\w.-]*(?:api[-_]?key|access[-_]?key|secret|password|passwd|(?:hf|hub|auth|access|bearer)[-_]?token)"
)
SPELLED = re.compile(
    rf"""(?ix)
    (?: (?<![\w.-]) {_NAME} ["']? (?: \s*[=:]\s* ) ["']?
      | (?<![\w.-]) --? {_NAME} \s+
      | \b bearer \s+ | \b authorization ["']? \s*[=:]\s* ["']? (?:basic|bearer|token)? \s+
    ) (?P<value> [^\s"',;)}}\]&]+ )
    | (?P<key> \b (?:sk-|hf_|ghp_|glpat-) [\w-]{{16,}} )"""
)
OPTION = re.compile(r"^(?P<name>-{0,2}[\w.-]+)=(?P<value>.+)$", re.DOTALL)


def known(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables with a secret name, of ``environment`` and of this process, longest first.

    Paths are none: a variable may say where a key lies.
    """
    found = {
        value
        for name, value in {**os.environ, **environment}.items()
        if credentials.secret(name) and len(value) >= SHORTEST and not value.startswith(("/", "."))
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def text(said: str, values: Iterable[str] | None = None) -> str:
    """``said`` without keys; ``values``: those that are known (default: this process's)."""
    for value in known({}) if values is None else values:
        said = said.replace(value, credentials.HIDDEN)
    return SPELLED.sub(lambda found: _cover(found, credentials.HIDDEN), said)


def words(command: Sequence[str], values: Iterable[str] = ()) -> list[str]:
    """The words of a command, secret values as digests."""
    made: list[str] = []
    expected = False
    for word in command:
        option = OPTION.match(word)
        if expected and not word.startswith("-"):
            made.append(digest(word))
        elif option and credentials.secret(option["name"]):
            made.append(f"{option['name']}={digest(option['value'])}")
        else:
            made.append(_spelled(word, values))
        expected = word.startswith("-") and not option and credentials.secret(word)
    return made


def digest(value: str) -> str:
    """What stands for a secret where two different ones must stay two."""
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()[:12]


def _spelled(word: str, values: Iterable[str]) -> str:
    for value in values:
        word = word.replace(value, digest(value))
    return SPELLED.sub(lambda found: _cover(found, digest(found["value"] or found["key"])), word)


def _cover(found: re.Match[str], put: str) -> str:
    which = "value" if found["value"] else "key"
    if found[which].startswith(("sha256:", credentials.HIDDEN)):
        return found[0]
    start, end = (place - found.start() for place in found.span(which))
    return found[0][:start] + put + found[0][end:]


def log(file: Path, values: Iterable[str]) -> None:
    """Cover keys in a log that is written by nobody just now, byte for byte, so that places in it stay."""
    try:
        with open(file, "r+b") as stream:
            place = 0
            for line in stream:
                covered = _covered(line, values)
                if covered != line:
                    stream.seek(place)
                    stream.write(covered)
                place += len(line)
                stream.seek(place)
    except OSError:
        return  # there is none, or it is somebody else's


def _covered(line: bytes, values: Iterable[str]) -> bytes:
    said = line.decode("latin-1")
    for value in values:
        shown = value.encode().decode("latin-1")
        said = said.replace(shown, "*" * len(shown))
    said = SPELLED.sub(lambda found: _cover(found, "*" * len(found["value"] or found["key"])), said)
    return said.encode("latin-1")
