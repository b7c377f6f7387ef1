"""A capture (`harness.capture`) as the runner runs it: on a path, or the captured results themselves."""

from __future__ import annotations

from harness.capture import judging
from harness.capture.inputs import CaptureCase
from harness.case.cases import Case
from harness.judge.verdict import Verdict
from harness.paths.base import Path


def check(case: Case, path: Path) -> Verdict:
    """Compare what ``path`` answers, or what the engine had made, with the oracle."""
    assert isinstance(case, CaptureCase)
    return judging.captured(case) if isinstance(path, judging.Captured) else judging.answered(case, path)
