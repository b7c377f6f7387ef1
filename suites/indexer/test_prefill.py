"""Ragged prefill scores: whole batch and chunk by chunk give the bits of the oracle.

A window that starts late leaves cells as they were, so the buffer is poisoned before the call.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("prefill")
def test_prefill(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
