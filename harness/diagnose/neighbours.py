"""Which cases a fault that fits one case is held against next: fresh seeds, and other shapes.

Contract: a case given here is of the suite and kind of the one in question, so that the same operations are
asked. It would fail silently if all were of one shape: two faults that differ elsewhere would both stand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.case import case_lists
from harness.case.cases import Case
from harness.diagnose.diagnosis import FRESH

STEP = 1000003
"""From a seed to the next fresh one."""
OTHERS = 3
"""Cases of other shapes on which one fault that is left must fit."""
SEEDS = 1 << 31
HEAVY = ("far", "vast")


def fresh(case: Case) -> Iterator[Case]:
    """Cases like ``case``: its own with other seeds, else listed ones of its kind."""
    if "s" in case.names:
        for number in range(1, FRESH + 1):
            yield case.but(s=(case.s + number * STEP) % SEEDS)
        return
    yield from itertools.islice(_alike(case), FRESH)


def shapes(case: Case) -> tuple[Case, ...]:
    """Listed cases of the suite and kind of ``case``, small, middling and large."""
    listed = sorted(_alike(case), key=_cost)
    places = (len(listed) * part // (OTHERS + 1) for part in range(1, OTHERS + 1))
    return tuple(dict.fromkeys(listed[place] for place in places)) if listed else ()


def _alike(case: Case) -> Iterator[Case]:
    for other in case_lists.listed(case.suite, "smoke"):
        if other.kind == case.kind and other != case and other.t not in HEAVY:
            yield other


def _cost(case: Case) -> int:
    return max(1, case.rows) * max(case.longest, case.r, 1) * max(1, case.h)
