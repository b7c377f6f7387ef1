"""Suite topk: the selected keys."""

from harness.checks.topk.suite import check

__all__ = ["check"]
