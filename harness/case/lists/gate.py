"""The cases of suite gate."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE: tuple[str, ...] = ()


def full() -> Iterator[str]:
    yield from ()


SUITE = Suite(
    name="gate",
    about="when FP4 is taken, and what is refused",
    kinds={"predicate": ("ask", "k", "d", "h", "kpool", "chip"), "refusal": ("by",)},
    smoke=SMOKE,
    full=full,
    geometry=False,
)
