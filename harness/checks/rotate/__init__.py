"""Suite rotate: DeepSeek-V4's rotate-and-quantise kernels."""

from harness.checks.rotate.suite import check

__all__ = ["check"]
