"""Quantising to E2M1 codes and E8M0 scales: the same bytes as the oracle, by the production rule.

A wrong tie or scale rule moves single codes only, so the bytes are compared and never the decoded values.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("quantise")
def test_quantise(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
