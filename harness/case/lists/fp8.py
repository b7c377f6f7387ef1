"""The cases of suite fp8."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="fp8",
    about="the FP8 default: quantiser, cache page and scorers",
    kinds={
        "decode": ("n", "h", "d", "ctx", "fmt", "ue", "tile", "t", "f", "s"),
        "prefill": ("h", "d", "ctx", "w", "fmt", "ue", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
)
