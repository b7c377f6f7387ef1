"""Suite fp8: the FP8 default."""

from harness.checks.fp8.suite import check

__all__ = ["check"]
