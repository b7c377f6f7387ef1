"""The cases of suite dcp-decode: every W with every S, both exchanges, contexts from 0 keys a rank on."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import ROUND_TABLES
from harness.case.suite import NEAR, Suite, only

SMOKE = (
    "dcp-decode-world1-inter1-exids-n4-h32-d128-ctx300,64,5,0-k64-tshuffled-fbytes-s1",
    "dcp-decode-world1-inter64-exscores-n2-h16-d128-ctx255,512-k32-ttight-fties-s2",
    "dcp-decode-world2-inter1-exids-n3-h64-d128-ctx10,0,1,2,3,258-k6-tshuffled-fties-s3",
    "dcp-decode-world2-inter16-exscores-n2-h16-d128-ctx0,1,33,300-k16-tstrided-fnatural-s4",
    "dcp-decode-world2-inter64-exids-n1-h128-d128-ctx64,65,128,129,700-k48-tshuffled-fbytes-s5",
    "dcp-decode-world4-inter1-exids-n4-h32-d128-ctx100,52,0,1,2,3,4,5-k24-tshuffled-faddress-s6",
    "dcp-decode-world4-inter16-exids-n2-h32-d128-ctx71,70,256,257,3-k20-tshuffled-fties-s7",
    "dcp-decode-world4-inter16-exscores-n4-h64-d128-ctx515,64,17-k40-twide-fties-s8",
    "dcp-decode-world4-inter64-exscores-n3-h32-d128-ctx700,255,256,1-k32-tshuffled-fboundary-s9",
    "dcp-decode-world8-inter1-exids-n2-h32-d128-ctx0,1,2,3,4,5,6,7,8,513-k8-tshuffled-fties-s10",
    "dcp-decode-world8-inter1-exscores-n4-h16-d256-ctx8,9,16,300-k12-tshuffled-fbytes-s11",
    "dcp-decode-world8-inter16-exids-n3-h32-d128-ctx129,127,16,600-k32-tshuffled-fnatural-s12",
    "dcp-decode-world8-inter64-exscores-n1-h32-d128-ctx2049,511,512,513,63-k2048-tshuffled-fbytes-s13",
    "dcp-decode-world8-inter64-exids-n2-h32-d128-ctx65,63,640,64-k16-tshuffled-faddress-s14",
)

LENGTHS = ("0,1,2,3,4,5,6,7,8,9", "97,98,99,100", "15,16,17,63,64,65", "255,256,257,511,513", "1030,2049,70")
FILLS = ("ties", "bytes", "natural", "address", "boundary")


def full() -> Iterator[str]:
    turn = 0
    for world in (1, 2, 4, 8):
        for inter in (1, 16, 64):
            for exchange in ("ids", "scores"):
                for width in (1, 2, 3, 4):
                    heads, dim = (16, 32, 64, 48)[turn % 4], 256 if turn % 8 == 5 else 128
                    lengths, fill = LENGTHS[turn % 5], FILLS[(turn // 2) % 5]
                    longest = max(map(int, lengths.split(",")))
                    # A selection that takes every key of every sequence selects nothing.
                    k = min((4, 16, 64, 2048)[(turn // 4 + turn) % 4], longest // 2)
                    style = ROUND_TABLES[turn % 4]
                    yield (
                        f"dcp-decode-world{world}-inter{inter}-ex{exchange}-n{width}-h{heads}-d{dim}"
                        f"-ctx{lengths}-k{k}-t{style}-f{fill}-s{500 + turn}"
                    )
                    turn += 1
    for world, inter, exchange in ((3, 1, "ids"), (5, 16, "scores"), (6, 64, "ids"), (7, 4, "scores")):
        yield (
            f"dcp-decode-world{world}-inter{inter}-ex{exchange}-n2-h32-d128"
            f"-ctx0,1,65,700-k32-tshuffled-fties-s{600 + world}"
        )
    yield "dcp-decode-world8-inter16-exids-n4-h64-d128-ctx8200,4097,2047-k2048-tshuffled-fnatural-s610"


SUITE = Suite(
    name="dcp-decode",
    about="decode over shards in processes of their own: local scores, exchange, merge",
    kinds={"decode": ("world", "inter", "ex", "n", "h", "d", "ctx", "k", "t", "f", "s")},
    smoke=SMOKE,
    full=full,
    tables=NEAR,
    fills=only("bytes", "natural", "address", "ties", "boundary"),
)
