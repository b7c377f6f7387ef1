"""Suite replay: a captured step over changing contents."""

from harness.checks.replay.suite import check

__all__ = ["check"]
