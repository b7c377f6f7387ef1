"""TOML files that people write, read in one place: campaigns and reported figures.

Contract: what is read has whole numbers of 64 bits, as TOML defines them, and every file that is none is one
sentence. The failure to fear is a number that no later sentence can even print: Python reads 5000 hexadecimal
digits, and refuses to write them in decimal.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.exits import InputError

WHOLE = range(-(2**63), 2**63)
"""What a whole number of TOML is."""


def read(file: Path) -> dict[str, Any]:
    """What ``file`` holds. Raises `InputError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file} cannot be read: it is no UTF-8 text") from None
    try:
        found = tomllib.loads(text)
        wide = next((name for name, number in _numbers(found, "") if number not in WHOLE), None)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is no TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{file} is no TOML: it is nested too deeply") from None
    except ValueError:  # more decimal digits than Python turns into a number
        raise InputError(f"{file} is no TOML: a whole number in it has more than 64 bits") from None
    if wide is not None:
        raise InputError(f"{file} is no TOML: {wide} has more than 64 bits")
    return found


def _numbers(found: Any, name: str) -> Iterator[tuple[str, int]]:
    """(name, value) of every whole number in ``found``."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _numbers(value, f"{name}.{key}" if name else key)
    elif isinstance(found, list):
        for place, value in enumerate(found, 1):
            yield from _numbers(value, f"{name} {place}")
    elif isinstance(found, int):
        yield name, found
