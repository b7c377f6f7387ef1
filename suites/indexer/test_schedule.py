"""Schedule builders: entry for entry the defined schedule, every chunk covered once, short ones refused.

A short schedule truncates without a sign, so a builder that accepts one fails here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("schedule")
def test_schedule(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
