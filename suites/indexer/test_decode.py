"""Decode scores: bit for bit the oracle, for every number of query rows a step.

A mask off by one changes a single column of a row's window, so cells outside it are compared too.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("decode")
def test_decode(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
