"""The cases of suite pipeline: FP4 on one rank and several, the FP8 default on one; both pairings.

The fused FP8 writer leaves the queries of rows without a slot alone, so ranks that share the keys have
no FP8 chain. Flat pages are scored where they lie, tiled ones are gathered first, as a prefill has it.
"""

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
    "pipeline-n2-h16-d128-ctx66,3-k16-pairneox-fmtfn-ue1-tileflat-fspread-s5",
    "pipeline-n1-h16-d128-ctx20,5-k4-pairinterleaved-fmtfn-ue0-tileflat-fboundary-s6",
    "pipeline-n2-h16-d128-ctx17,34-k8-pairinterleaved-fmtfn-ue0-tiletiled-fspread-s7",
    "pipeline-n1-h32-d128-ctx18-k6-pairneox-fmtfn-ue1-tiletiled-fboundary-s8",
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
    for turn in range(8):
        tile, ue, pair = ("flat", "tiled")[turn % 2], turn // 2 % 2, ("neox", "interleaved")[turn // 4]
        heads, rows, fill = (16, 32, 64)[turn % 3], 1 + turn % 4, ("spread", "boundary")[(turn + ue) % 2]
        yield (
            f"pipeline-n{rows}-h{heads}-d128-ctx140,{rows},67-k{8 << turn % 4}-pair{pair}"
            f"-fmtfn-ue{ue}-tile{tile}-f{fill}-s{60 + turn}"
        )
    yield "pipeline-n2-h64-d128-ctx70,9-k16-pairneox-fmtfnuz-ue0-tileflat-fspread-s70"


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
    if case.kind == "decode" and case.world == 1 and case.inter != 1:
        raise CaseError(f"field inter is {case.inter}, allowed is 1 where world is 1")


MOST = 1 << 13
"""Keys of a case: each is written with all its queries, one by one where the writer is interpreted."""

SUITE = Suite(
    name="pipeline",
    about="writer to selected keys, end to end, in FP4 and in FP8",
    kinds={
        "decode": ("n", "h", "d", "ctx", "world", "inter", "k", "pair", "f", "s"),
        "fp8": ("n", "h", "d", "ctx", "k", "pair", "fmt", "ue", "tile", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    limits={"d": (128,)},
    check=check,
)
