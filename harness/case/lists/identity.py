"""The cases of suite identity."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import EDGES, LONG, MIXED, SPEC, WINDOWS
from harness.case.suite import Suite

SMOKE = (
    f"identity-n2-h64-d128-ctx{SPEC}-tshuffled-u8,10,12,16-l0-fnatural-s1",
    "identity-n3-h32-d128-ctx1000,257,3-tshuffled-u9,12,21,60-l0-fbytes-s2",
    f"identity-n4-h16-d256-ctx{MIXED}-tshuffled-u24,28,44-l0-fnatural-s5",
    f"identity-h64-d128-ctx700,437,64-w{WINDOWS}-c1,5,9-tshuffled-u17,20,40-l0-fnatural-s3",
    "identity-h32-d128-ctx1030-w0@0:1020+6,0@513:800,0@300:301-c2,3-tshuffled-u8,12,40-l1100-fwide-s4",
)


def full() -> Iterator[str]:
    for turn, next_n in enumerate((1, 2, 4, 8)):
        fill = ("natural", "wide", "natural", "bytes")[turn]
        units = [next_n * slots for slots in (4, 5, 7, 20)]
        heads, listed_units = (64, 32, 128, 16)[turn], ",".join(map(str, units))
        yield (
            f"identity-n{next_n}-h{heads}-d128-ctx{LONG}-tshuffled-u{listed_units}-l0-f{fill}-s{400 + turn}"
        )
    for turn, heads in enumerate((16, 64, 128)):
        fill = ("natural", "wide", "natural")[turn]
        where, seed, dim = f"2049,257,0-w{EDGES}-c1,4,7", 410 + turn, (128, 256, 128)[turn]
        yield f"identity-h{heads}-d{dim}-ctx{where}-tshuffled-u10,14,64-l0-f{fill}-s{seed}"


SUITE = Suite(
    name="identity",
    about="different units, split sizes and chunkings: the same bits",
    kinds={
        "decode": ("n", "h", "d", "ctx", "t", "u", "l", "f", "s"),
        "prefill": ("h", "d", "ctx", "w", "c", "t", "u", "l", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
    many=("u", "c"),
)
