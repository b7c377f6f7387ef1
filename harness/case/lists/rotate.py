"""The cases of suite rotate: V4's query and key kernels, with RoPE and transform, every fill and layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

FILLS: Mapping[str, str] = {
    "natural": "Gaussian data",
    "spread": "as natural, but every group has an exponent of its own",
    "whole": "small whole numbers, so that every order of additions gives the same",
    "walsh": "6 and all midpoints in one group after the transform (before it, where there is none)",
    "cancel": "as natural, with 2^22 and -2^22, which swallow low bits before they cancel: orders part",
    "onehot": "one column a row: the transform spreads it with the signs of one of its rows",
    "zero": "groups and rows that are zero, some of them -0",
    "quiet": "magnitudes around 2^-126, whose sums and products are no normal float32 numbers",
    "apart": "as natural, with NaNs between the rows of the input",
}
POSITIONS = 4096
"""Rows of the cos and sin tables."""
MOST = 1 << 12
"""Rows (tokens times heads) of a case."""

SMOKE = (
    "rotate-r5-h16-d128-rope0-had1-tofp4-g32-shuf1-fnatural-s1",
    "rotate-r3-h32-d256-rope0-had1-tofp4-g64-shuf1-fwalsh-s2",
    "rotate-r1-h16-d512-rope0-had1-tofp4-g32-shuf0-fcancel-s3",
    "rotate-r2-h16-d1024-rope0-had1-tofp4-g128-shuf1-fwalsh-s4",
    "rotate-r8-h16-d128-rope0-had1-tofp4-g32-shuf0-fonehot-s5",
    "rotate-r4-h64-d128-rope64-had0-tofp4-g32-shuf1-fspread-s6",
    "rotate-r3-h16-d256-rope64-had1-tofp4-g64-shuf0-fspread-s7",
    "rotate-r4-h16-d128-rope64-had1-tofp4-g32-shuf1-fquiet-s8",
    "rotate-r3-h16-d128-rope64-had1-tofp8-g128-shuf0-fcancel-s9",
    "rotate-r3-h16-d256-rope128-had1-tofp8-g32-shuf0-fspread-s10",
    "rotate-r4-h16-d128-rope64-had0-tofp8-g128-shuf0-fnatural-s11",
    "rotate-r3-h16-d128-rope0-had1-tofp4-g128-shuf0-fwhole-s12",
    "rotate-r5-h1-d128-rope0-had1-tofp4-g32-shuf0-fnatural-s13",
    "rotate-r2-h16-d128-rope0-had1-tofp4-g32-shuf0-fapart-s14",
    "rotate-r3-h16-d128-rope64-had0-tofp4-g32-shuf1-fwalsh-s15",
    "rotate-r12-h16-d128-rope64-had0-page64-g32-shuf1-fnatural-s21",
    "rotate-r9-h8-d128-rope64-had1-page64-g32-shuf1-fspread-s22",
    "rotate-r10-h4-d256-rope64-had0-page16-g64-shuf0-fspread-s23",
    "rotate-r7-h2-d512-rope64-had1-page128-g32-shuf1-fnatural-s24",
    "rotate-r6-h2-d1024-rope96-had0-page32-g32-shuf1-fnatural-s25",
    "rotate-r9-h16-d128-rope64-had0-page64-g32-shuf1-fzero-s26",
    "rotate-r6-h1-d128-rope64-had0-page64-g32-shuf1-fnatural-s27",
)


def full() -> Iterator[str]:
    dims, heads, groups, turn = (128, 256, 512, 1024), (16, 32, 64, 128), (32, 64, 128), 0
    for fill in FILLS:
        for to in ("fp4", "fp8"):
            for had in (0, 1):
                dim, group = dims[turn % 4], groups[(turn // 4) % 3]
                shuffled = int(to == "fp4" and dim // group % 4 == 0)
                rope = (64, 128)[turn % 2]
                yield (
                    f"rotate-r{turn % 5 + 1}-h{heads[turn % 3]}-d{dim}-rope{rope}-had{had}-to{to}"
                    f"-g{group}-shuf{shuffled}-f{fill}-s{100 + turn}"
                )
                yield (
                    f"rotate-r{turn % 7 + 9}-h{heads[turn % 2]}-d{dim}-rope{rope}-had{had}"
                    f"-page{(16, 64, 128)[turn % 3]}-g32-shuf{turn % 2}-f{fill}-s{200 + turn}"
                )
                turn += 1


def check(case: Case) -> None:
    """What the kernels take: head counts, RoPE widths, scale layouts. Raises `CaseError`."""
    if case.r * case.h > MOST:
        raise CaseError(f"r * h is {case.r * case.h}, allowed in suite rotate are at most {MOST} rows")
    step = 32 if case.d == 1024 else 16
    least = step if case.page else 0
    if not (least <= case.rope <= case.d and case.rope % step == 0):
        raise CaseError(
            f"field rope is {case.rope}, allowed here are multiples of {step} from {least} to {case.d}"
        )
    if not case.rope and not (case.had and case.to == "fp4"):
        raise CaseError("field rope is 0, allowed without RoPE is only had1 with tofp4")
    if case.shuf and case.page and case.g != 32:
        raise CaseError(f"field g is {case.g}, allowed for keys with shuf1 is 32")
    if case.shuf and not case.page and (case.to != "fp4" or case.h % 16 or case.d // case.g % 4):
        raise CaseError("field shuf is 1, allowed for tofp4, h a multiple of 16 and d / g a multiple of 4")


SUITE = Suite(
    name="rotate",
    about="DeepSeek-V4's kernels: RoPE, Hadamard transform, FP4 or FP8 codes, key pages",
    kinds={
        "queries": ("r", "h", "d", "rope", "had", "to", "g", "shuf", "f", "s"),
        "keys": ("r", "h", "d", "rope", "had", "page", "g", "shuf", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    limits={
        "h": (1, 2, 4, 8, 16, 32, 64, 128),
        "d": (128, 256, 512, 1024),
        "page": (16, 32, 64, 128, 256),
    },
    check=check,
)
