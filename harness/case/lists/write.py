"""The cases of suite write."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite, only

SMOKE = (
    "write-r40-h16-d128-fboundary-s1",
    "write-r24-h32-d128-fnatural-s2",
    "write-r16-h64-d256-fboundary-s3",
    "write-r1-h16-d128-fnatural-s4",
)


def full() -> Iterator[str]:
    for seed, heads in enumerate((16, 32, 64, 128), 11):
        for fill in ("boundary", "natural"):
            yield f"write-r96-h{heads}-d{128 if seed % 2 else 256}-f{fill}-s{seed}"


SUITE = Suite(
    name="write",
    about="rows quantised and scattered into pages, negative slots skipped",
    kinds={"": ("r", "h", "d", "f", "s")},
    smoke=SMOKE,
    full=full,
    fills=only("natural", "boundary"),
)
