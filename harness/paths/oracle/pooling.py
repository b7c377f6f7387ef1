"""The oracle's answer about the memory of index caches."""

from __future__ import annotations

from harness.paths import base
from harness.paths.requests.pooling import PoolGeometry
from oracles import pool


def answers(path: base.Path) -> base.Answers:
    return {PoolGeometry: geometry}


def geometry(request: PoolGeometry) -> base.Outcome:
    made = pool.layer_major(request.form, request.layers, request.page_rows, request.blocks, request.dim)
    return base.Outcome(made)
