"""In-tree index caches: one allocation, cut into planes.

The tensors are made where nothing is allocated (the meta device): their strides and places are those
of real ones. How it would fail silently: a plane cut one page short still has a shape.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.flydsl.abi import GROUP
from harness.paths.requests.pooling import PoolGeometry, pool_of

LOAD = 16
"""Bytes of a row of packed keys of one group, and of the widest load."""


def answers(path: base.Path) -> base.Answers:
    return {PoolGeometry: geometry}


def geometry(request: PoolGeometry) -> base.Outcome:
    """Planes of all layers; fp4 in one buffer, codes first, fp8 a row of each layer after the other."""
    layers, blocks, rows = request.layers, request.blocks, request.page_rows
    if request.form == "fp4":
        groups = request.dim // GROUP
        buffer = torch.empty(layers * blocks * rows * groups * (LOAD + 1), dtype=torch.uint8, device="meta")
        codes, scales = buffer.split([buffer.numel() // (LOAD + 1) * LOAD, buffer.numel() // (LOAD + 1)])
        planes: dict[str, list[Tensor]] = {
            "codes": list(codes.view(layers, blocks, groups // 4, 4, rows, LOAD)),
            "scales": list(scales.view(layers, blocks, groups // 4, 4, rows)),
        }
    else:
        width = request.dim + request.dim // 128 * torch.float32.itemsize
        padded = width + -width % LOAD
        buffer = torch.empty(layers * blocks * rows * padded, dtype=torch.uint8, device="meta")
        planes = {"rows": list(buffer.view(layers, blocks, rows, padded))}
    return base.Outcome(pool_of(planes, buffer.numel() // blocks), facts={"executor": "torch"})
