"""The fused writer: five outputs byte for byte, and everything it must leave alone.

A writer that is right on the keys can be wrong on the queries, so each output is compared by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("writer")
def test_writer(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
