"""Bisection of things in a row that git does not know: versions of a package.

As git bisect does it, but without merges; around one that cannot be told, the nearest is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.bisect.judging import Said, Word


def search(row: Sequence[str], ask: Callable[[str, int], Said]) -> tuple[str, ...]:
    """Candidates for the first bad one, in order; more than one only where skips leave several.

    ``row``: the first is good, the last is bad. ``ask``: is called with one of it and the number of
    candidates left.
    """
    good, bad, skipped = 0, len(row) - 1, set[int]()
    while True:
        open_ = [place for place in range(good + 1, bad) if place not in skipped]
        if not open_:
            return tuple(row[good + 1 : bad + 1])
        place = min(open_, key=lambda one: abs(2 * one - good - bad))
        word = ask(row[place], bad - good).word
        if word is Word.GOOD:
            good = place
        elif word is Word.BAD:
            bad = place
        else:
            skipped.add(place)
