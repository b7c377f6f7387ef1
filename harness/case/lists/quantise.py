"""The cases of suite quantise."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite, only

SMOKE = (
    "quantise-r48-d128-fboundary-s1",
    "quantise-r32-d256-fboundary-s2",
    "quantise-r48-d128-fwide-s3",
    "quantise-r48-d128-fnatural-s4",
    "quantise-r32-d128-fbytes-s5",
    "quantise-r1-d128-fboundary-s6",
)


def full() -> Iterator[str]:
    for seed in range(11, 15):
        for fill in ("boundary", "wide", "natural", "bytes"):
            yield f"quantise-r256-d{128 if seed % 2 else 256}-f{fill}-s{seed}"


SUITE = Suite(
    name="quantise",
    about="rows to E2M1 codes and E8M0 scale bytes",
    kinds={"": ("r", "d", "f", "s")},
    smoke=SMOKE,
    full=full,
    fills=only("natural", "boundary", "bytes", "wide"),
)
