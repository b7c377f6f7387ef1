"""The cases that a run goes through: ``smoke`` in a minute or two, ``full`` a superset of it.

Together they spread over N, H, D, fills, table styles, lengths on both sides of every edge
(16, 64, 256, 2048) and schedules, so that each fault of the catalogue turns some case red.
A list that grows case by case loses its spread unnoticed; ``suites/self/test_case_lists.py``
counts what it covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from harness.case.cases import SUITES, Case, CaseError, parse

LISTS = ("smoke", "full")

SHORT = "0,1,15,16,17,63,64,65,255,256,257"
LONG = "2047,2048,2049,3"
SPEC = "700,437,0,64"
MIXED = "513,1,512,511,0,130"

WINDOWS = (
    "0@0:1,0@37:41,0@5:5,0@100:357+3,0@255:257,0@256:512,0@640:700,"
    "1@17:300+3,1@433:437,2@63:64,2@0:0,2@0:64,2@16:33"
)
"""Over lengths 700, 437, 64: starts off and on multiples of 16, shorter than a tile, empty."""
EDGES = "0@0:2047+3,0@2040:2049,0@1791:1793,1@0:16,1@1:17,1@15:16,1@240:257,2@0:0"
"""Over lengths 2049, 257, 0."""

SMOKE: dict[str, tuple[str, ...]] = {
    "quantise": (
        "quantise-r48-d128-fboundary-s1",
        "quantise-r32-d256-fboundary-s2",
        "quantise-r48-d128-fwide-s3",
        "quantise-r48-d128-fnatural-s4",
        "quantise-r32-d128-fbytes-s5",
        "quantise-r1-d128-fboundary-s6",
    ),
    "layout": (
        "layout-h16-d128-ctx130,64-tshuffled-s1",
        "layout-h32-d256-ctx257-tstrided-s2",
        "layout-h64-d128-ctx70,1-twide-s3",
        "layout-h128-d128-ctx64,65-tshuffled-s4",
    ),
    "write": (
        "write-r40-h16-d128-fboundary-s1",
        "write-r24-h32-d128-fnatural-s2",
        "write-r16-h64-d256-fboundary-s3",
        "write-r1-h16-d128-fnatural-s4",
    ),
    "schedule": (
        "schedule-n1-ctx1,255,256,257-u4,8,64,512-l0",
        f"schedule-n2-ctx{SPEC}-u16,8,10,512-l768",
        f"schedule-n3-ctx{SHORT}-u33,36,513-l257",
        f"schedule-n4-ctx{LONG}-u16,20,36,112,512-l4096",
        "schedule-n5-ctx0x3-u15,20-l0",
        f"schedule-n6-ctx{MIXED}-u36,66,600-l0",
        "schedule-n7-ctx131072,1-u14,700,1400-l0",
        f"schedule-n8-ctx{LONG}-u32,224,512-l2049",
        "schedule-n1-ctx1x513-u513,1024-l0",
        "schedule-n3-ctx5,0,17,258-u0,12-l0",
        "schedule-n1-ctx4096-u1,2,3,5,15,16,17-l0",
        f"schedule-w{WINDOWS}-u17,18,40,4096-l0",
        f"schedule-w{EDGES}-u10,11,20,64,4096-l4096",
        "schedule-w0@0:0+1-u1,2-l0",
        "schedule-w0@65000:65536+1,1@0:1+300-u301,512,4096-l131072",
    ),
    "decode": (
        f"decode-n1-h64-d128-ctx{SHORT}-tshuffled-u0-l0-fbytes-s1",
        f"decode-n2-h64-d128-ctx{LONG}-tshuffled-u64-l0-faddress-s2",
        f"decode-n3-h32-d128-ctx{SPEC}-tshuffled-u24-l0-fnatural-s3",
        f"decode-n4-h32-d128-ctx{SPEC}-tshuffled-u28-l768-fbytes-s4",
        f"decode-n8-h16-d128-ctx{SHORT}-tshuffled-u88-l300-fwide-s5",
        f"decode-n1-h128-d256-ctx{MIXED}-tshuffled-u8-l0-fbytes-s6",
        f"decode-n2-h128-d128-ctx{SHORT}-tshuffled-u24-l257-fnatural-s7",
        f"decode-n4-h64-d128-ctx{MIXED}-tstrided-u44-l600-faddress-s8",
        "decode-n3-h64-d256-ctx65,256,2-tshuffled-u9-l0-faddress-s9",
        f"decode-n1-h32-d128-ctx{LONG}-tshuffled-u28-l2100-fboundary-s10",
        f"decode-n4-h128-d256-ctx{SPEC}-tshuffled-u20-l0-fnatural-s11",
        f"decode-n2-h16-d128-ctx{SHORT}-tshuffled-u0-l0-fties-s12",
        "decode-n2-h32-d128-ctx256,512x2-ttight-u12-l0-fbytes-s13",
        f"decode-n1-h64-d128-ctx{SPEC}-twide-u9-l4096-fwide-s14",
        "decode-n8-h64-d128-ctx5,0,17,258-tshuffled-u40-l0-fbytes-s15",
        "decode-n5-h48-d128-ctx300,64-tshuffled-u20-l0-faddress-s16",
        "decode-n6-h96-d128-ctx33,257-tstrided-u18-l0-fnatural-s17",
        "decode-n7-h112-d128-ctx129,7-tshuffled-u14-l0-fbytes-s18",
        f"decode-n3-h64-d128-ctx{LONG}-tshuffled-u12-l0-fnatural-s19",
        "decode-n2-h128-d128-ctx1030,1,2049-tshuffled-u6-l0-fwide-s20",
        f"decode-n4-h16-d256-ctx{SHORT}-tshuffled-u44-l0-fties-s21",
        f"decode-n1-h16-d128-ctx{MIXED}-tshuffled-u6-l0-fboundary-s22",
        "decode-n2-h16-d128-ctx70,300,1-tfar-u12-l0-fbytes-s23",
        "decode-n2-h16-d128-ctx70,300,1-tvast-u12-l0-fbytes-s24",
        "decode-n1-h16-d128-ctx40000,300-tshuffled-u4-l0-fbytes-s25",
    ),
    "prefill": (
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
    ),
    "varqlen": (
        f"varqlen-h64-d128-ctx{SPEC}-q3,0,1,4-p5-tshuffled-u0-l0-fbytes-s1",
        f"varqlen-h32-d128-ctx{SHORT}-q1,2,3,4,1,2,3,4,8,1,2-p1-tshuffled-u48-l0-faddress-s2",
        f"varqlen-h32-d128-ctx{SPEC}-q4,2,3,1-p0-tshuffled-u24-l0-fnatural-s3",
        "varqlen-h128-d128-ctx2,300-q5,3-p8-tstrided-u24-l400-fbytes-s4",
        "varqlen-h16-d256-ctx64,257,1-q2,1,3-p2-twide-u12-l0-fnatural-s5",
        f"varqlen-h16-d128-ctx{LONG}-q2,1,3,2-p0-tshuffled-u40-l0-fwide-s6",
        f"varqlen-h64-d128-ctx{LONG}-q1,8,2,4-p1-tshuffled-u16-l0-fnatural-s7",
        "varqlen-h16-d128-ctx300x40-q8x40-p3-tshuffled-u330-l0-fbytes-s8",
    ),
    "identity": (
        f"identity-n2-h64-d128-ctx{SPEC}-tshuffled-u8,10,12,16-l0-fnatural-s1",
        "identity-n3-h32-d128-ctx1000,257,3-tshuffled-u9,12,21,60-l0-fbytes-s2",
        f"identity-n4-h16-d256-ctx{MIXED}-tshuffled-u24,28,44-l0-fnatural-s5",
        f"identity-h64-d128-ctx700,437,64-w{WINDOWS}-c1,5,9-tshuffled-u17,20,40-l0-fnatural-s3",
        "identity-h32-d128-ctx1030-w0@0:1020+6,0@513:800,0@300:301-c2,3-tshuffled-u8,12,40-l1100-fwide-s4",
    ),
}  # fmt: skip


@cache
def listed(suite: str, which: str) -> tuple[Case, ...]:
    """Cases of ``suite`` in list ``which``, smoke first. Raises ValueError on another name."""
    if suite not in SUITES:
        raise CaseError(f"suite is {suite!r}, allowed are {', '.join(SUITES)}")
    if which not in LISTS:
        raise ValueError(f"cases is {which!r}, allowed are {', '.join(LISTS)}")
    ids = dict.fromkeys(SMOKE[suite])
    if which == "full":
        ids |= dict.fromkeys(parse(text).id for text in FULL[suite]())
    return tuple(parse(text) for text in ids)


ROUND_FILLS = ("bytes", "natural", "address", "wide", "boundary", "ties")
ROUND_TABLES = ("shuffled", "strided", "shuffled", "wide")
ROUND_LENGTHS = (SHORT, SPEC, LONG, MIXED)


def _full_quantise() -> Iterator[str]:
    for seed in range(11, 15):
        for fill in ("boundary", "wide", "natural", "bytes"):
            yield f"quantise-r256-d{128 if seed % 2 else 256}-f{fill}-s{seed}"


def _full_layout() -> Iterator[str]:
    for heads in range(16, 129, 16):
        dim, style = (256, "strided") if heads % 32 else (128, "shuffled")
        yield f"layout-h{heads}-d{dim}-ctx300,64,1,128-t{style}-s{heads}"


def _full_write() -> Iterator[str]:
    for seed, heads in enumerate((16, 32, 64, 128), 11):
        for fill in ("boundary", "natural"):
            yield f"write-r96-h{heads}-d{128 if seed % 2 else 256}-f{fill}-s{seed}"


def _full_schedule() -> Iterator[str]:
    for next_n in range(1, 9):
        for lengths in ROUND_LENGTHS:
            batch = lengths.count(",") + 1
            units = [next_n * batch, next_n * (batch + 1), next_n * 3 * batch, next_n * 40]
            yield f"schedule-n{next_n}-ctx{lengths}-u{','.join(map(str, units))}-l0"
            yield f"schedule-n{next_n}-ctx{lengths}-u{next_n * 64}-l5000"
    for counts in ("3,4,5,6,7,8", "4096"):
        yield f"schedule-w0@0:2047,0@1:2048,1@2048:2049-u{counts}-l0"
        yield f"schedule-w0@0:2047,0@256:256,1@255:256-u{counts}-l9999"


def _full_decode() -> Iterator[str]:
    turn = 0
    for next_n in range(1, 9):
        for heads in (16, 32, 64, 128) if next_n in (1, 2, 3, 4, 8) else (48, 80):
            fill, style = ROUND_FILLS[turn % 6], ROUND_TABLES[turn % 4]
            lengths = ROUND_LENGTHS[(turn // 2 + next_n) % 4]
            dim = 256 if turn % 5 == 2 else 128
            batch = lengths.count(",") + 1
            units = (0, next_n * batch, next_n * (batch + 5), next_n * 4 * batch)[turn % 4]
            yield f"decode-n{next_n}-h{heads}-d{dim}-ctx{lengths}-t{style}-u{units}-l0-f{fill}-s{100 + turn}"
            turn += 1
    for heads, dim in ((16, 128), (32, 256), (64, 128), (128, 256)):
        for fill in ROUND_FILLS:
            yield f"decode-n2-h{heads}-d{dim}-ctx{SPEC}-tshuffled-u16-l0-f{fill}-s{heads}"
    yield "decode-n4-h64-d128-ctx8200,300-tshuffled-u128-l0-fnatural-s40"
    yield "decode-n1-h32-d128-ctx5x40-tshuffled-u0-l0-faddress-s42"


def _full_prefill() -> Iterator[str]:
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


def _full_varqlen() -> Iterator[str]:
    for turn, heads in enumerate((16, 32, 48, 64, 96, 128)):
        fill, style = ROUND_FILLS[turn], ROUND_TABLES[turn % 4]
        dim = 256 if turn % 3 == 2 else 128
        counts, units = "1,0,2,3,1,8,1,2,3,1,4", (0, 60)[turn % 2]
        yield (
            f"varqlen-h{heads}-d{dim}-ctx{SHORT}-q{counts}-p{turn}-t{style}-u{units}-l0-f{fill}-s{300 + turn}"
        )
        yield f"varqlen-h{heads}-d128-ctx{LONG}-q2,5,0,4-p3-tshuffled-u90-l2300-f{fill}-s{310 + turn}"


def _full_identity() -> Iterator[str]:
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


FULL = {
    "quantise": _full_quantise,
    "layout": _full_layout,
    "write": _full_write,
    "schedule": _full_schedule,
    "decode": _full_decode,
    "prefill": _full_prefill,
    "varqlen": _full_varqlen,
    "identity": _full_identity,
}
