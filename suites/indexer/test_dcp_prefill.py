"""DCP prefill: staged shards hold every key with its own exponent, and score like the unsharded pool.

A scale row that is not bent on both sides stays in bounds, so the bytes are compared, not only scores.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("dcp-prefill")
def test_dcp_prefill(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
