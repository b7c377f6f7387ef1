"""Replays of a captured decode step: bit for bit the oracle and an eager run, over any contents.

What was baked in at the capture shows only when lengths differ from those of the capture.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("replay")
def test_replay(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
