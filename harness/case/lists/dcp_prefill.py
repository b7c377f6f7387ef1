"""The cases of suite dcp-prefill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import NEAR, Suite, only

if TYPE_CHECKING:
    from harness.case.cases import Case

BESIDE = "0@0:150,0@0:297+4,1@0:1,2@0:1+3,3@0:4,4@0:1,4@0:5"
"""Chunks of 1, W-1, W, W+1 tokens beside a long request, for W = 4."""

SMOKE: tuple[str, ...] = (
    "dcp-prefill-world4-inter1-h32-d128-ctx209-w0@0:1,0@0:64+2,0@0:130,0@0:206+4-k32-tshuffled-faddress-s1",
    "dcp-prefill-world2-inter16-h16-d256-ctx150,130-w0@0:15+3,0@0:149+2,1@0:64+2,1@3:129+2-k16-tstrided-faddress-s2",
    "dcp-prefill-world8-inter64-h16-d128-ctx530,1,7,8,9-w0@0:300,0@0:529+2,1@0:1,2@0:1,2@0:7,3@0:8,4@0:9"
    "-k64-twide-faddress-s3",
    f"dcp-prefill-world4-inter1-h16-d128-ctx300,1,3,4,5-w{BESIDE}-k20-tshuffled-fnatural-s4",
    "dcp-prefill-world1-inter1-h16-d128-ctx70,133-w0@0:16+2,0@0:70,1@0:1,1@7:131+3-k24-ttight-fbytes-s5",
    "dcp-prefill-world8-inter1-h16-d128-ctx128,65-w0@0:17,0@0:127+2,1@0:33,1@0:63+3-k8-ttight-fties-s6",
    # Lengths that end with a round, a page of a rank and a staged page: one more of any is too many.
    "dcp-prefill-world2-inter1-h16-d128-ctx128,64-w0@0:64,0@0:127+2,1@1:64-k24-ttight-faddress-s7",
)


def full() -> Iterator[str]:
    turn = 0
    fills = ("address", "bytes", "natural", "boundary", "ties")
    for world in (1, 2, 4, 8):
        for inter in (1, 16, 64):
            fill, style = fills[turn % 5], NEAR[turn % 4]
            heads, dim = (16, 32, 64, 128)[turn % 4], 256 if turn % 5 == 2 else 128
            small = f"{max(1, world - 1)},{world},{world + 1}"
            yield (
                f"dcp-prefill-world{world}-inter{inter}-h{heads}-d{dim}-ctx1,{small},700-w0@0:1,1@0:1,2@0:{world},"
                f"3@0:1,3@0:{world + 1},4@0:257,4@0:699+2-k48-t{style}-f{fill}-s{100 + turn}"
            )
            yield (
                f"dcp-prefill-world{world}-inter{inter}-h{heads}-d128-ctx256,255,257,0-w0@0:64+2,0@0:255+2,"
                f"1@0:100,1@0:254+2,2@0:128,2@5:256+2-k100-t{style}-faddress-s{200 + turn}"
            )
            turn += 1
    for world, inter in ((3, 1), (5, 4), (6, 32), (7, 2)):
        yield (
            f"dcp-prefill-world{world}-inter{inter}-h32-d128-ctx449,100-w0@0:200,0@0:446+4,1@0:64,1@0:98+3"
            f"-k40-tshuffled-faddress-s{300 + world}"
        )
    yield (
        "dcp-prefill-world4-inter1-h64-d128-ctx2300,2049-w0@0:1100,0@0:2297+4,1@0:64,1@0:2048+2"
        "-k2048-tshuffled-fnatural-s310"
    )


def check(case: Case) -> None:
    """A batch holds a key."""
    if not any(case.ctx):
        raise CaseError("field ctx has no key, allowed in suite dcp-prefill is at least one length from 1")


SUITE = Suite(
    name="dcp-prefill",
    about="shards staged into one order, then scored as if they had never been apart",
    kinds={"prefill": ("world", "inter", "h", "d", "ctx", "w", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
    tables=NEAR,
    fills=only("bytes", "natural", "address", "ties", "boundary"),
    check=check,
)
