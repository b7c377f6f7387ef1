"""Faults of the index cache's memory: what a page is charged, and where the planes of the layers lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from harness.faults.fault import Answer, Fault
from harness.faults.plants import always
from harness.paths.base import Outcome
from harness.paths.requests.pooling import PoolGeometry
from oracles import pool
from oracles.pool import Extent, Pool

SPEC = "ATOM atom/model_ops/attentions/mla_kv_pool.py: MlaKvPool.entry_bytes"
ALLOCATE = "ATOM atom/model_ops/attentions/mla_kv_pool.py: MlaKvPool.allocate"
SMALL = "pool-layers2-page64-blocks2-d128"


def charged_as_fp8(request: PoolGeometry, right: Pool) -> Pool:
    return replace(right, entry_bytes=request.layers * pool.page_bytes("fp8", request.page_rows, request.dim))


def codes_alone(request: PoolGeometry, right: Pool) -> Pool:
    """Pages are charged for their codes."""
    codes = prod(pool.page_shapes("fp4", request.page_rows, request.dim)["codes"])
    return replace(right, entry_bytes=request.layers * codes)


def layers_a_page_short(request: PoolGeometry, right: Pool) -> Pool:
    """Each layer of a plane begins a page early, over the last page of the layer before it."""

    def moved(extent: Extent) -> Extent:
        page = prod(extent.shape[1:])
        return replace(extent, offset=extent.offset - extent.layer * page)

    return replace(right, extents=tuple(map(moved, right.extents)))


def a_page_short(request: PoolGeometry, right: Pool) -> Pool:
    """The allocation ends a page of all layers early."""
    *others, last = right.arenas
    return replace(right, arenas=(*others, last - right.entry_bytes))


def in_form(form: str, change: Callable[[PoolGeometry, Pool], Pool]) -> dict[type, Any]:
    """``change`` in pools of ``form``."""

    def answer(request: PoolGeometry, right: Answer) -> Outcome:
        outcome = right(request)
        if request.form != form:
            return outcome
        return replace(outcome, value=change(request, outcome.value))

    return {PoolGeometry: answer}


def one(name: str, wrong: str, seen: str, weak: str, source: str, how: dict[type, Any]) -> Fault:
    return Fault(name, "pool", wrong, seen, weak, SMALL, source, always(how))


B48 = "sglang #19016, ROCm/ATOM #2216 (B48)"

FAULTS: tuple[Fault, ...] = (
    one(
        "pool-charged-as-fp8",
        "pages of an FP4 cache are charged what those of an FP8 cache take",
        B48,
        "serving: the pool is smaller than it could be, and works",
        SPEC,
        in_form("fp4", charged_as_fp8),
    ),
    one(
        "pool-scales-uncharged",
        "pages of an FP4 cache are charged for their codes and not for their scales",
        f"neighbour of {B48}",
        "memory that is not filled to the last page",
        SPEC,
        in_form("fp4", codes_alone),
    ),
    one(
        "pool-layers-overlap",
        "each layer of a plane begins over the last page of the layer before it",
        "neighbour of ROCm/ATOM #2008 (B17)",
        "shapes; runs that never use the last page",
        ALLOCATE,
        in_form("fp4", layers_a_page_short),
    ),
    one(
        "pool-page-short",
        "the allocation ends a page before the planes do",
        "neighbour of ROCm/ATOM #2008 (B17)",
        "shapes; runs that never use the last page",
        ALLOCATE,
        in_form("fp4", a_page_short),
    ),
)
