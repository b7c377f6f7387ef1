"""Scalar twin of `oracles.topk`: one row, sets of positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Row = tuple[list[int], float | None, set[int], set[int], int]


def topk(scores: Sequence[float], start: int, end: int, k: int, stable: bool) -> Row:
    """(ids padded with -1, cut, must, may, places of may) of the keys start <= t < end."""
    ranking = sorted(range(start, end), key=lambda key: (-scores[key], key))
    chosen = ranking[:k]
    ids = chosen + [-1] * (k - len(chosen))
    if not chosen:
        return ids, None, set(), set(), 0
    cut = scores[chosen[-1]]
    if stable:
        return ids, cut, set(chosen), set(), 0
    must = {key for key in ranking if scores[key] > cut}
    level = {key for key in ranking if scores[key] == cut}
    places = len(chosen) - len(must)
    if len(level) == places:
        return ids, cut, must | level, set(), 0
    return ids, cut, must, level, places


def selection_ok(ids: Sequence[int], must: set[int], may: set[int], places: int) -> bool:
    """Padding is any negative id, anywhere."""
    times = Counter(key for key in ids if key >= 0)
    chosen = set(times)
    return (
        all(count == 1 for count in times.values())
        and must <= chosen
        and chosen <= must | may
        and len(chosen & may) == places
    )
