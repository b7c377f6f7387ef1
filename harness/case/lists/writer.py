"""The cases of suite writer: both pairings, every fill, with and without padding and all-query rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

FILLS: Mapping[str, str] = {
    "natural": "Gaussian data, LayerNorm as models have it: keys may have more than one right value",
    "spread": "as natural, but every row and group has an exponent of its own",
    "boundary": "group maxima at 6*2^k and one step either side, all midpoints, both signs, -0",
    "zero": "groups, heads and keys that are zero, some of them -0",
    "quiet": "group maxima around 7e-6, 3e-5 and 2^-126: where the scale has its floor",
    "special": "NaN and infinities in queries, keys and weights",
    "onehot": "one dim a head, all dims of the rotation: the energy must turn up at the partner",
    "fp32norm": "LayerNorm weights 1.001 to 1.0022, bias -1 - 2^-12: lost when either is rounded to bfloat16",
    "offset": "keys whose mean is a thousand deviations: E[x^2] - mean^2 is off by 4 % of their variance",
    "far": "as spread, in a pool of 2 GiB: slots past 2^16 and 2^25, pages past byte 2^31",
    "slots32": "as spread, slots come as int32: refused, or read as what they are",
}

SMOKE = (
    "writer-r12-h16-d128-pairneox-all0-p3-fspread-s1",
    "writer-r10-h64-d128-pairinterleaved-all1-p2-fspread-s2",
    "writer-r11-h80-d128-pairneox-all0-p0-fboundary-s3",
    "writer-r10-h16-d128-pairinterleaved-all0-p1-fboundary-s4",
    "writer-r12-h16-d128-pairneox-all1-p0-fonehot-s5",
    "writer-r12-h16-d128-pairinterleaved-all0-p0-fonehot-s6",
    "writer-r8-h16-d128-pairinterleaved-all1-p2-fquiet-s8",
    "writer-r9-h16-d128-pairneox-all0-p0-fzero-s9",
    "writer-r15-h16-d128-pairneox-all0-p1-fspecial-s10",
    "writer-r6-h128-d128-pairinterleaved-all1-p2-ffp32norm-s11",
    "writer-r7-h16-d128-pairneox-all1-p3-fnatural-s48",
    "writer-r1-h16-d128-pairneox-all0-p0-fnatural-s13",
    "writer-r16-h16-d128-pairinterleaved-all0-p0-foffset-s14",
    "writer-r12-h16-d128-pairneox-all0-p2-ffar-s15",
    "writer-r10-h16-d128-pairneox-all0-p1-fslots32-s16",
)


def full() -> Iterator[str]:
    heads, rows, padded = (16, 32, 64, 80, 128), (17, 40, 64, 65), (0, 1, 7, 24)
    turn = 0
    for fill in FILLS:
        for pairing in ("neox", "interleaved"):
            for every in (0, 1):
                yield (
                    f"writer-r{rows[turn % 4]}-h{heads[turn % 5]}-d128-pair{pairing}-all{every}"
                    f"-p{padded[(turn // 2) % 4]}-f{fill}-s{100 + turn}"
                )
                turn += 1
    yield "writer-r509-h16-d128-pairneox-all0-p3-fspread-s99"
    for fill, pairing, every in (("quiet", "neox", 1), ("special", "interleaved", 0)):
        yield f"writer-r{OVER - 2}-h16-d128-pair{pairing}-all{every}-p2-f{fill}-s{98 - every}"


def check(case: Case) -> None:
    """Not more rows than can be checked one by one. Raises `CaseError`."""
    if case.r + case.p > MOST:
        raise CaseError(f"r + p is {case.r + case.p}, allowed in suite {case.suite} are at most {MOST} rows")


OVER = 257
"""Rows from which on aiter's writer takes its other instance."""
MOST = 1 << 12
"""Rows of a case, padding included."""

SUITE = Suite(
    name="writer",
    about="the fused writer: normalise, rotate, quantise, scatter",
    kinds={"writer": ("r", "h", "d", "pair", "all", "p", "f", "s")},
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    limits={"d": (128,)},
    check=check,
)
