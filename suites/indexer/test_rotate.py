"""DeepSeek-V4's rotate-and-quantise kernels: codes, scales and key pages of the oracle, all else untouched.

A sign or an order of additions that is wrong shows only where values differ, so most fills are dense.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("rotate")
def test_rotate(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
