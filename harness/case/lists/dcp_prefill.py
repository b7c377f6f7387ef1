"""The cases of suite dcp-prefill."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="dcp-prefill",
    about="shards staged into one order, then scored as if they had never been apart",
    kinds={"prefill": ("world", "inter", "h", "d", "ctx", "w", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
)
