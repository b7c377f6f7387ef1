"""Scalar twin of `oracles.topk`: one row, sets of positions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

Row = tuple[list[int], float | None, set[int], set[int], int]


def topk(scores: Sequence[float], start: int, end: int, k: int, stable: bool) -> Row:
    """(ids padded with -1, cut, must, may, places of may) of the keys start <= t < end.

    NaNs stand first; they are allowed where everything is selected.
    """
    ranking = sorted(range(start, end), key=lambda key: _rank(scores[key], key))
    chosen = ranking[:k]
    ids = chosen + [-1] * (k - len(chosen))
    if not chosen:
        return ids, None, set(), set(), 0
    cut = scores[chosen[-1]]
    if stable or len(ranking) <= k:
        return ids, cut, set(chosen), set(), 0
    must = {key for key in ranking if scores[key] > cut}
    level = {key for key in ranking if scores[key] == cut}
    places = len(chosen) - len(must)
    if len(level) == places:
        return ids, cut, must | level, set(), 0
    return ids, cut, must, level, places


def _rank(score: float, key: int) -> tuple[int, float, int]:
    return (0, 0.0, key) if math.isnan(score) else (1, -score, key)


def numbers_in_order(ids: Sequence[int], scores: Sequence[float], start: int, end: int, k: int) -> bool:
    """Whether ``ids`` are right as far as anything is specified when NaNs are seen."""
    chosen = [key for key in ids if key >= 0]
    if len(set(chosen)) != len(chosen) or any(not start <= key < end for key in chosen):
        return False
    left = [scores[key] for key in range(start, end) if key not in chosen]
    taken = [scores[key] for key in chosen]
    in_order = all(not mine < other for mine in taken for other in left)
    return in_order and len(chosen) == min(k, max(0, end - start))


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
