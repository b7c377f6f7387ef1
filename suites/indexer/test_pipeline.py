"""Writer to selected keys in one chain: the first stage that differs from the oracle's is named.

Stages that agree each on its own can still be joined wrongly, which only the chain shows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("pipeline")
def test_pipeline(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
