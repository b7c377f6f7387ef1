"""Suite dcp-prefill: shards staged into one order and scored."""

from harness.checks.dcp_prefill.suite import check

__all__ = ["check"]
