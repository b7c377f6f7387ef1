"""Source positions of operations, innermost call first, with files relative to a known root.

A finding is only useful when it points at a line someone can open; a path of the machine
that ran it would make two records of one finding differ, so roots are cut off.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

_POSITION = re.compile(r'"([^"]+)":(\d+)(?::\d+)?')


def roots(extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Directories to cut from file names, longest first: ``extra``, then the import path."""
    known = {os.path.realpath(entry) for entry in (*extra, *sys.path) if entry and os.path.isdir(entry)}
    known.discard(os.sep)
    return tuple(sorted(known, key=len, reverse=True))


def relative(file: str, known: Sequence[str]) -> str:
    """``file`` without the longest of the ``known`` roots that holds it; its base name when none does."""
    real = os.path.realpath(file)
    for root in known:
        if real.startswith(root.rstrip(os.sep) + os.sep):
            return os.path.relpath(real, root).replace(os.sep, "/")
    return os.path.basename(real)


def describe(mlir_location: str, known: Sequence[str]) -> str:
    """``file:line < file:line`` for an MLIR location's text; empty when it holds no position."""
    chain: list[str] = []
    for file, line in _POSITION.findall(mlir_location):
        position = f"{relative(file, known)}:{line}"
        if not chain or chain[-1] != position:
            chain.append(position)
    return " < ".join(chain)
