"""The cases of suite pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="pipeline",
    about="writer to selected keys, end to end",
    kinds={"decode": ("n", "h", "d", "ctx", "world", "inter", "k", "pair", "f", "s")},
    smoke=SMOKE,
    full=full,
)
