"""Top-k selection: the k largest visible keys of every row, as sets.

Two selections of one row may list their keys in different orders and take different keys of a tie class,
and be right both; a comparison of sorted values would also pass one key taken twice and another never.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("topk")
def test_topk(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
