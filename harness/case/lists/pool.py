"""The cases of suite pool."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="pool",
    about="shapes, bytes and places of the planes of all layers",
    kinds={"": ("layers", "page", "blocks", "d")},
    smoke=SMOKE,
    full=full,
    geometry=False,
)
