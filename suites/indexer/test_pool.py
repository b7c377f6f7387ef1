"""The pool: planes of all layers with the bytes that are charged for, none of them shared.

Sizing and allocation that disagree by a page show only when the last page is used.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("pool")
def test_pool(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
