"""The cases that a run goes through: ``smoke`` in a minute or two, ``full`` a superset of it.

Together they spread over N, H, D, fills, table styles, lengths on both sides of every edge
(16, 64, 256, 2048) and schedules, so that each fault of the catalogue turns some case red.
A list that grows case by case loses its spread unnoticed; ``suites/self/test_case_lists.py``
counts what it covers. The lists themselves are in ``harness.case.lists``, a module a suite.
"""

from __future__ import annotations

from functools import cache

from harness.case.cases import Case, CaseError, parse
from harness.case.lists import SUITES

LISTS = ("smoke", "full")


@cache
def listed(suite: str, which: str) -> tuple[Case, ...]:
    """Cases of ``suite`` in list ``which``, smoke first. Raises ValueError on another name."""
    if suite not in SUITES:
        raise CaseError(f"suite is {suite!r}, allowed are {', '.join(SUITES)}")
    if which not in LISTS:
        raise ValueError(f"cases is {which!r}, allowed are {', '.join(LISTS)}")
    ids = dict.fromkeys(SUITES[suite].smoke)
    if which == "full":
        ids |= dict.fromkeys(parse(text).id for text in SUITES[suite].full())
    return tuple(parse(text) for text in ids)
