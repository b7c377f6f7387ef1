"""The cases of suite pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

MOST = 1 << 50
"""Bytes of a pool: more would be no address."""

SMOKE: tuple[str, ...] = (
    "pool-layers21-page64-blocks3-d128",
    "pool-layers21-page64-blocks49084-d128",
    "pool-layers2-page64-blocks5-d256",
    "pool-layers3-page16-blocks7-d128",
    "pool-layers5-page128-blocks2-d128",
)


def full() -> Iterator[str]:
    for layers in (2, 21, 61, 79):
        for page in (16, 32, 64, 128, 256):
            for blocks in (1, 9, 50671):
                yield f"pool-layers{layers}-page{page}-blocks{blocks}-d{256 if page == 32 else 128}"


def check(case: Case) -> None:
    """Not more than can be addressed."""
    size = case.layers * case.blocks * case.page * (case.d + 16)
    if size > MOST:
        raise CaseError(f"layers * blocks * page * (d + 16) is {size}, allowed are at most {MOST} bytes")


SUITE = Suite(
    name="pool",
    about="shapes, bytes and places of the planes of all layers",
    kinds={"": ("layers", "page", "blocks", "d")},
    smoke=SMOKE,
    full=full,
    geometry=False,
    check=check,
)
