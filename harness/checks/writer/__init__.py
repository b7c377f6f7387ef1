"""Suite writer: the fused FP4 writer."""

from harness.checks.writer.suite import check

__all__ = ["check"]
