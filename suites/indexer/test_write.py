"""Quantise and scatter into pages: the same planes as the oracle, skipped slots untouched.

A skipped slot that is written shows only in memory that nobody reads, so whole planes are compared.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("write")
def test_write(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
