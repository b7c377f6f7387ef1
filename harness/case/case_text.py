"""The values of a case's fields as text and back: numbers, repeated numbers, windows.

A spelling that reads as something else than it was written as makes another case of an id,
so every number is matched whole and bounded before it is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.case.case_limits import LAST, LIMITS, LISTS, CaseError

Window = tuple[int, int, int]
"""(sequence, start, end): the row sees start <= t < end of that sequence's keys."""


def short(text: str) -> str:
    """``text``, cut to what a sentence can hold."""
    return text if len(text) <= 60 else text[:57] + "..."


def read(name: str, text: str, said: str) -> object:
    """The value of field ``name`` spelled ``text``; its range is checked elsewhere.

    ``said`` is what is allowed, for the sentence. Raises `CaseError` naming field and range.
    """
    if name == "v":
        return tuple(tuple(_read_list(name, vector, said)) for vector in text.split("_"))
    if name == "w":
        return tuple(window for item in text.split(",") for window in _read_windows(item))
    if name in LISTS:
        return tuple(_read_list(name, text, said))
    return _read_int(text, f"field {name} is {short(text)!r}, {said}") if name in LIMITS else text


def _read_list(name: str, text: str, said: str) -> Iterator[int]:
    return (value for item in text.split(",") for value in _read_repeated(name, item, said))


def _read_int(text: str, said: str) -> int:
    if not re.fullmatch(r"[0-9]+", text) or len(text) > 12:
        raise CaseError(f"{said} (whole numbers)")
    return int(text)


def _read_repeated(name: str, item: str, said: str) -> Iterator[int]:
    value, repeated, times = item.partition("x")
    number = _read_int(value, f"field {name} has a member {short(item)!r}, {said}")
    if not repeated:
        return iter((number,))
    most = LAST["ctx" if name == "v" else name]
    if not re.fullmatch(r"[0-9]{1,12}", times) or not 1 <= int(times) <= most:
        raise CaseError(f"field {name} repeats a value {short(times)!r} times, allowed are 1 to {most}")
    return iter([number] * int(times))


def _read_windows(item: str) -> Iterator[Window]:
    match = re.fullmatch(r"([0-9]{1,12})@([0-9]{1,12}):([0-9]{1,12})(?:\+([0-9]{1,12}))?", item)
    if match is None:
        raise CaseError(
            f"field w has {short(item)!r}, allowed is SEQ@START:END or SEQ@START:END+COUNT (whole numbers)"
        )
    seq, start, end = (int(match[i]) for i in (1, 2, 3))
    count = int(match[4]) if match[4] else 1
    if not 1 <= count <= LAST["w"]:
        raise CaseError(f"field w has a window of {count} rows, allowed are 1 to {LAST['w']}")
    return ((seq, start, end + i) for i in range(count))


def spell(name: str, value: object) -> str:
    """The canonical text of field ``name``: runs of equal numbers and of growing windows are folded."""
    if not isinstance(value, tuple):
        return str(value)
    if name == "v":
        return "_".join(spell("ctx", vector) for vector in value)
    if name == "w":
        return ",".join(_spell_windows(value))
    return ",".join(f"{item}x{count}" if count > 1 else f"{item}" for item, count in _runs(value))


def _runs(values: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            yield values[start], i - start
            start = i


def _spell_windows(windows: tuple[Window, ...]) -> Iterator[str]:
    start = 0
    for i in range(1, len(windows) + 1):
        seq, left, right = windows[start]
        if i == len(windows) or windows[i] != (seq, left, right + i - start):
            yield f"{seq}@{left}:{right}" + (f"+{i - start}" if i - start > 1 else "")
            start = i
