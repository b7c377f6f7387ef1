"""Scores of sequences with their own query counts; padding rows stay untouched.

A padding row with a real window overwrites memory nobody checks, so the padding is compared as well.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("varqlen")
def test_varqlen(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
