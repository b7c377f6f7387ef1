"""The production kernels of aiter as a path."""

from harness.paths.aiter.path import AiterPath

__all__ = ["AiterPath"]
