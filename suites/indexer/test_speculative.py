"""A draft loop: at every launch the schedule covers the windows that the launch scores.

Another launch's schedule or lengths stay in bounds, and the newest keys are never scored.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("speculative")
def test_speculative(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
