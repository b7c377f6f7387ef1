"""Suite speculative: a draft loop, launch by launch."""

from harness.checks.speculative.suite import check

__all__ = ["check"]
