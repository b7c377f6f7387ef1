"""The cases of suite topk."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="topk",
    about="the k largest visible scores, as sets, ties and all",
    kinds={
        "decode": ("n", "ctx", "k", "stable", "l", "f", "s"),
        "prefill": ("w", "k", "stable", "l", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
)
