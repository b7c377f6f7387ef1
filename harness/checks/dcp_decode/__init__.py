"""Suite dcp-decode: decode over shards, each rank a process."""

from harness.checks.dcp_decode.suite import check

__all__ = ["check"]
