"""The cases of suite dcp-decode."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="dcp-decode",
    about="decode over shards in processes of their own: local scores, exchange, merge",
    kinds={"decode": ("world", "inter", "ex", "n", "h", "d", "ctx", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
)
