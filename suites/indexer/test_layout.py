"""Planes and pages: every byte sits where the ABI says, and scores read it from there.

A bend dropped on both the write and the read cancels out, so each side is compared by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("layout")
def test_layout(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
