"""The cases of suite varqlen."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import LONG, ROUND_FILLS, ROUND_TABLES, SHORT, SPEC
from harness.case.suite import Suite

SMOKE = (
    f"varqlen-h64-d128-ctx{SPEC}-q3,0,1,4-p5-tshuffled-u0-l0-fbytes-s1",
    f"varqlen-h32-d128-ctx{SHORT}-q1,2,3,4,1,2,3,4,8,1,2-p1-tshuffled-u48-l0-faddress-s2",
    f"varqlen-h32-d128-ctx{SPEC}-q4,2,3,1-p0-tshuffled-u24-l0-fnatural-s3",
    "varqlen-h128-d128-ctx2,300-q5,3-p8-tstrided-u24-l400-fbytes-s4",
    "varqlen-h16-d256-ctx64,257,1-q2,1,3-p2-twide-u12-l0-fnatural-s5",
    f"varqlen-h16-d128-ctx{LONG}-q2,1,3,2-p0-tshuffled-u40-l0-fwide-s6",
    f"varqlen-h64-d128-ctx{LONG}-q1,8,2,4-p1-tshuffled-u16-l0-fnatural-s7",
    "varqlen-h16-d128-ctx300x40-q8x40-p3-tshuffled-u330-l0-fbytes-s8",
)


def full() -> Iterator[str]:
    for turn, heads in enumerate((16, 32, 48, 64, 96, 128)):
        fill, style = ROUND_FILLS[turn], ROUND_TABLES[turn % 4]
        dim = 256 if turn % 3 == 2 else 128
        counts, units = "1,0,2,3,1,8,1,2,3,1,4", (0, 60)[turn % 2]
        yield (
            f"varqlen-h{heads}-d{dim}-ctx{SHORT}-q{counts}-p{turn}-t{style}-u{units}-l0-f{fill}-s{300 + turn}"
        )
        yield f"varqlen-h{heads}-d128-ctx{LONG}-q2,5,0,4-p3-tshuffled-u90-l2300-f{fill}-s{310 + turn}"


SUITE = Suite(
    name="varqlen",
    about="scores of sequences with their own query counts",
    kinds={"varqlen": ("h", "d", "ctx", "q", "p", "t", "u", "l", "f", "s")},
    smoke=SMOKE,
    full=full,
)
