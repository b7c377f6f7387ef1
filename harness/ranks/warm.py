"""What the rank processes' common ancestor imports, so that each of them starts in hundredths of a second.

Only modules that start no threads and touch no device: a GPU that was used before a fork is lost to
the child. The environment that packages read when they are imported is set first, as for a path.
"""

from __future__ import annotations

import importlib
import importlib.util

import torch
import torch.distributed

from harness.paths import registry
from oracles import dcp, score, topk

__all__ = ["dcp", "registry", "score", "topk"]

torch.set_num_threads(1)
torch.broadcast_shapes((1,), (1,))  # imports sympy when it is first called
if not registry.has_gfx950() and all(map(importlib.util.find_spec, registry.entry("flydsl").packages)):
    registry.prepare_environment("flydsl")
    importlib.import_module("harness.emulator.backend").install()
    for module in ("harness.emulator.launching", "harness.paths.flydsl.path", "harness.paths.flydsl.host"):
        importlib.import_module(module)
    importlib.import_module("triton")
