"""The cases of suite layout."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.suite import Suite

SMOKE = (
    "layout-h16-d128-ctx130,64-tshuffled-s1",
    "layout-h32-d256-ctx257-tstrided-s2",
    "layout-h64-d128-ctx70,1-twide-s3",
    "layout-h128-d128-ctx64,65-tshuffled-s4",
)


def full() -> Iterator[str]:
    for heads in range(16, 129, 16):
        dim, style = (256, "strided") if heads % 32 else (128, "shuffled")
        yield f"layout-h{heads}-d{dim}-ctx300,64,1,128-t{style}-s{heads}"


SUITE = Suite(
    name="layout",
    about="single codes planted in the planes, found where the layout says",
    kinds={"": ("h", "d", "ctx", "t", "s")},
    smoke=SMOKE,
    full=full,
)
