"""The FP8 default: quantiser, page and scorers, byte for byte and bit for bit where one answer is right.

A page written flat and read tiled holds the same bytes and no code of its own, so the writer's pages are
what the scorer is given.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.case.cases import Case
from harness.judge.verdict import Verdict


@pytest.mark.suite("fp8")
def test_fp8(case: Case, judge: Callable[[Case], Verdict]) -> None:
    """The path agrees with the oracle on every listed case."""
    judge(case)
