"""The cases of suite speculative."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="speculative",
    about="a draft loop over verify metadata: schedule and lengths as a pair",
    kinds={"decode": ("n", "h", "d", "ctx", "steps", "ub", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
)
