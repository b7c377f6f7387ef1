"""What somebody printed: figures that are read, and figures that are only told to be there."""

from __future__ import annotations

from dataclasses import dataclass

from harness.legs.claims.reported import Score

UNKNOWN_N = "nobody says over how many questions; give --n"


@dataclass(frozen=True)
class Cited:
    """A proportion somebody printed. ``where``: file and place; ``n`` None: not known, and ``why``."""

    where: str
    which: str
    score: Score
    n: int | None
    why: str = UNKNOWN_N


@dataclass(frozen=True)
class Unread:
    """Figures at ``where`` that are not audited, ``said``: which and why."""

    where: str
    said: str
