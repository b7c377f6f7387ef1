"""The gate: FP4 is taken exactly where the kernels can do it, and what cannot be served raises.

A wrong gate gives right scores on every model that was tried; only the table of all shapes shows it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("gate")
def test_gate(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
