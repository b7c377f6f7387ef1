"""The cases of suite pipeline: one rank and several, several rows a sequence, both pairings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.lists import writer
from harness.case.suite import Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

FILLS = {name: writer.FILLS[name] for name in ("spread", "boundary")}

SMOKE = (
    "pipeline-n2-h16-d128-ctx66,3-world1-inter1-k16-pairneox-fspread-s1",
    "pipeline-n1-h64-d128-ctx20-world1-inter1-k8-pairinterleaved-fboundary-s2",
    "pipeline-n3-h16-d128-ctx34,5-world2-inter16-k8-pairinterleaved-fspread-s3",
    "pipeline-n2-h32-d128-ctx4,15-world4-inter1-k5-pairneox-fspread-s4",
)


def full() -> Iterator[str]:
    turn = 0
    for world, inter in ((1, 1), (2, 1), (2, 64), (4, 16), (8, 1)):
        for pair in ("neox", "interleaved"):
            heads, rows, fill = (16, 32, 64)[turn % 3], 1 + turn % 4, ("spread", "boundary")[turn % 2]
            yield (
                f"pipeline-n{rows}-h{heads}-d128-ctx140,{rows},67-world{world}-inter{inter}-k{8 << turn % 4}"
                f"-pair{pair}-f{fill}-s{20 + turn}"
            )
            turn += 1
    yield "pipeline-n4-h32-d128-ctx300,64,17-world1-inter1-k64-pairneox-fspread-s40"


def check(case: Case) -> None:
    """Raises `CaseError` for what a decode step of raw tokens cannot be."""
    short = next((length for length in case.ctx if length < case.n), None)
    if short is not None:
        raise CaseError(
            f"field ctx has {short}, allowed in suite pipeline are lengths from n = {case.n}"
            " (the step's own tokens)"
        )
    if sum(case.ctx) > MOST:
        raise CaseError(
            f"field ctx sums to {sum(case.ctx)} keys, allowed in suite pipeline are at most {MOST}"
        )
    if case.world == 1 and case.inter != 1:
        raise CaseError(f"field inter is {case.inter}, allowed is 1 where world is 1")


MOST = 1 << 13
"""Keys of a case: each is written with all its queries, one by one where the writer is interpreted."""

SUITE = Suite(
    name="pipeline",
    about="writer to selected keys, end to end",
    kinds={"decode": ("n", "h", "d", "ctx", "world", "inter", "k", "pair", "f", "s")},
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    limits={"d": (128,)},
    check=check,
)
