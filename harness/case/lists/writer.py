"""The cases of suite writer."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="writer",
    about="the fused writer: normalise, rotate, quantise, scatter",
    kinds={"writer": ("r", "h", "d", "pair", "all", "p", "f", "s")},
    smoke=SMOKE,
    full=full,
)
