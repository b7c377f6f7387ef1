"""The cases of suite prefill."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import EDGES, ROUND_FILLS, ROUND_TABLES, WINDOWS
from harness.case.suite import Suite

SMOKE = (
    f"prefill-h64-d128-ctx700,437,64-w{WINDOWS}-c5-tshuffled-u0-l0-fbytes-s1",
    f"prefill-h32-d128-ctx2049,257,0-w{EDGES}-c4-tshuffled-u64-l0-faddress-s2",
    f"prefill-h64-d128-ctx700,437,64-w{WINDOWS}-c7-tshuffled-u24-l0-fnatural-s3",
    f"prefill-h16-d128-ctx700,437,64-w{WINDOWS}-c1-tstrided-u40-l800-fwide-s4",
    "prefill-h128-d128-ctx300,90-w0@0:200+4,0@33:300,1@3:7,1@0:90-c3-tshuffled-u12-l0-fnatural-s5",
    "prefill-h128-d256-ctx257,64-w0@16:255+3,0@0:257,1@5:6,1@0:64-c2-tshuffled-u12-l0-fbytes-s6",
    "prefill-h32-d256-ctx257,64-w0@17:255+3,1@5:6,1@0:64-c0-twide-u8-l0-faddress-s7",
    "prefill-h32-d128-ctx256,512-w0@1:256,0@64:128,1@0:510+3,1@128:400-c4-ttight-u16-l0-fboundary-s8",
    "prefill-h16-d128-ctx130x3-w0@0:128+3,1@63:65,1@64:130,2@1:2,2@129:130-c2-tshuffled-u8-l130-fties-s9",
    "prefill-h80-d128-ctx70,3-w0@2:69,0@0:70,1@0:1+3-c0-tshuffled-u5-l0-faddress-s10",
    f"prefill-h64-d128-ctx2049,257,0-w{EDGES}-c3-tshuffled-u10-l0-fnatural-s11",
    f"prefill-h64-d256-ctx700,437,64-w{WINDOWS}-c0-tshuffled-u17-l0-fwide-s12",
    "prefill-h16-d128-ctx300,64-w0@0:298+3,1@5:60+3-c2-tfar-u12-l0-fbytes-s13",
    "prefill-h16-d128-ctx300,64-w0@0:298+3,1@5:60+3-c2-tvast-u12-l0-fbytes-s14",
    "prefill-h16-d128-ctx33000-w0@0:32999+2-c0-tshuffled-u2-l0-fbytes-s15",
    "prefill-h16-d128-ctx400-w0@0:100+270-c0-tshuffled-u280-l0-fbytes-s16",
)


def full() -> Iterator[str]:
    turn = 0
    for heads in range(16, 129, 16):
        for dim in (128, 256) if heads in (16, 32, 64, 128) else (128,):
            fill, style = ROUND_FILLS[turn % 6], ROUND_TABLES[turn % 4]
            where = (f"700,437,64-w{WINDOWS}", f"2049,257,0-w{EDGES}")[turn % 2]
            units, chunk = (0, 24, 40)[turn % 3], (0, 1, 3, 6)[turn % 4]
            yield f"prefill-h{heads}-d{dim}-ctx{where}-c{chunk}-t{style}-u{units}-l0-f{fill}-s{200 + turn}"
            turn += 1
    for fill in ROUND_FILLS:
        yield f"prefill-h64-d128-ctx700,437,64-w{WINDOWS}-c5-tshuffled-u20-l0-f{fill}-s50"
    yield "prefill-h64-d128-ctx3000,64-w0@0:2970+30,1@0:60+4-c16-tshuffled-u0-l0-fnatural-s51"


SUITE = Suite(
    name="prefill",
    about="scores of ragged rows with their own windows",
    kinds={"prefill": ("h", "d", "ctx", "w", "c", "t", "u", "l", "f", "s")},
    smoke=SMOKE,
    full=full,
)
