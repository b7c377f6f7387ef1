"""The oracle as a path; areas other than scoring live in modules of their own (see `path.PARTS`)."""

from harness.paths.oracle.path import OraclePath

__all__ = ["OraclePath"]
