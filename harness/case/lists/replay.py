"""The cases of suite replay."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="replay",
    about="a captured decode step replayed over changing contents",
    kinds={"replay": ("n", "h", "d", "bucket", "v", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
)
