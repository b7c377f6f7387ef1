"""Schedules only decide who computes what: units, split sizes and chunkings give the same bits.

Two runs of one and the same schedule agree by luck, so the schedules are checked to differ.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("identity")
def test_identity(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
