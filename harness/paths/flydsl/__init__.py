"""The in-tree FP4 path: kernels in FlyDSL, from the ABI of spec indexer.md, plainly structured.

``lanes`` (what a lane loads and computes) <- ``decode``, ``prefill``, ``quantise`` (kernels) <-
``host`` (functions a server would call) <- ``path``. ``schedules`` is plain torch, ``abi`` checks
the tensors before a launch.
"""

from harness.paths.flydsl.path import FlydslPath

__all__ = ["FlydslPath"]
