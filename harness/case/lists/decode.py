"""The cases of suite decode."""

from __future__ import annotations

from collections.abc import Iterator

from harness.case.lists.common import LONG, MIXED, ROUND_FILLS, ROUND_LENGTHS, ROUND_TABLES, SHORT, SPEC
from harness.case.suite import Suite

SMOKE = (
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
    "decode-n2-h16-d128-ctx65,257-ttight-u12-l0-fbytes-s26",
)


def full() -> Iterator[str]:
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


SUITE = Suite(
    name="decode",
    about="scores of B * N rows over paged keys",
    kinds={"decode": ("n", "h", "d", "ctx", "t", "u", "l", "f", "s")},
    smoke=SMOKE,
    full=full,
)
