"""Decode over shards: real rank processes select what one rank with all keys selects, and agree on it.

Every mistake in who holds what stays in bounds, so scores, ids and slots are all followed to the key.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("dcp-decode")
def test_dcp_decode(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
