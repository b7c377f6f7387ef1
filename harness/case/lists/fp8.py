"""The cases of suite fp8: both formats, kinds of scale and page orders, every fill; the fused writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.lists import writer
from harness.case.lists.common import SHORT, SPEC, WINDOWS
from harness.case.suite import NEAR, Suite

if TYPE_CHECKING:
    from harness.case.cases import Case

SCORED: Mapping[str, str] = {
    "bytes": "all codes, a few exponents in each vector so that sums stay exact; scales of few bits",
    "address": "one value in one column of each key, another for every key",
    "natural": "Gaussian data through the quantiser; full bf16 weights",
    "boundary": "maxima at top*2^k and one step either side, all midpoints, zero and tiny vectors, -0",
}

TOKENS = ("natural", "spread", "boundary", "zero", "quiet", "onehot", "fp32norm", "offset", "slots32")
"""Fills of the fused writer: those of suite writer without NaNs and infinities, of which FP8 says nothing."""

FILLS: Mapping[str, str] = {name: writer.FILLS[name] for name in TOKENS} | dict(SCORED)

SMOKE = (
    "fp8-n1-h16-d128-ctx300,64,0-fmtfn-ue1-tileflat-tshuffled-faddress-s1",
    "fp8-n2-h16-d128-ctx257,16,1,65-fmtfn-ue1-tiletiled-tshuffled-faddress-s2",
    "fp8-n3-h32-d128-ctx130,2-fmtfn-ue1-tileflat-tstrided-fbytes-s3",
    "fp8-n2-h16-d128-ctx300,17-fmtfnuz-ue0-tiletiled-twide-fbytes-s4",
    "fp8-n1-h64-d128-ctx256,255-fmtfnuz-ue1-tileflat-ttight-fbytes-s5",
    "fp8-n4-h16-d128-ctx70,15,63-fmtfn-ue0-tileflat-tshuffled-fboundary-s6",
    "fp8-n1-h16-d128-ctx129,64-fmtfnuz-ue1-tiletiled-tshuffled-fboundary-s7",
    "fp8-n1-h48-d128-ctx65-fmtfn-ue0-tiletiled-tshuffled-fnatural-s8",
    "fp8-n2-h16-d128-ctx66,3-fmtfnuz-ue0-tileflat-tshuffled-faddress-s9",
    "fp8-h16-d128-ctx300,64,0-w0@0:300,0@37:41,0@5:5,0@128:256+2,0@255:257,1@17:64,1@0:1-fmtfn-ue1-fbytes-s11",
    "fp8-h64-d128-ctx150,33-w0@0:129+2,0@100:150,1@15:16,1@0:0,1@0:33-fmtfnuz-ue0-fbytes-s12",
    "fp8-h80-d128-ctx140,7-w0@3:139+2,1@2:7-fmtfn-ue0-fboundary-s13",
    "fp8-h16-d128-ctx65,64-w0@0:64+2,1@63:64-fmtfnuz-ue1-faddress-s14",
    "fp8-h16-d128-ctx130-w0@0:130,0@64:129-fmtfn-ue1-fnatural-s15",
    "fp8-n1-h16-d128-ctx16,700,20x17-fmtfn-ue1-tileflat-tshuffled-fnatural-s16",
    "fp8-n1-h16-d128-ctx70x20-fmtfn-ue1-tileflat-tstrided-faddress-s17",
    "fp8-n1-h16-d128-ctx300,20-fmtfn-ue0-tileflat-tshuffled-fnatural-s18",
    "fp8-n1-h16-d128-ctx2x33-fmtfn-ue1-tileflat-tshuffled-faddress-s19",
    "fp8-r12-h16-d128-pairneox-p3-fmtfn-ue1-tiletiled-fspread-s21",
    "fp8-r10-h64-d128-pairinterleaved-p2-fmtfn-ue0-tileflat-fspread-s22",
    "fp8-r11-h16-d128-pairneox-p0-fmtfn-ue0-tiletiled-fboundary-s23",
    "fp8-r9-h16-d128-pairinterleaved-p1-fmtfn-ue1-tileflat-fquiet-s24",
    "fp8-r12-h16-d128-pairinterleaved-p0-fmtfn-ue1-tiletiled-fonehot-s25",
    "fp8-r9-h16-d128-pairneox-p0-fmtfn-ue0-tileflat-fzero-s26",
    "fp8-r6-h128-d128-pairinterleaved-p2-fmtfn-ue0-tiletiled-ffp32norm-s27",
    "fp8-r7-h16-d128-pairneox-p3-fmtfn-ue1-tileflat-fnatural-s28",
    "fp8-r16-h32-d128-pairinterleaved-p0-fmtfn-ue1-tiletiled-foffset-s30",
    "fp8-r70-h16-d128-pairinterleaved-p2-fmtfn-ue0-tiletiled-fnatural-s31",
    "fp8-r10-h16-d128-pairneox-p1-fmtfn-ue1-tileflat-fslots32-s33",
)


def full() -> Iterator[str]:
    kinds = [
        (fmt, ue, order, fill)
        for fmt in ("fn", "fnuz")
        for ue in (0, 1)
        for order in ("flat", "tiled")
        for fill in SCORED
    ]
    heads, lengths = (16, 32, 64, 128), (SHORT, SPEC, "513,1,512,511", "2049,3", "64,128,192")
    for turn, (fmt, ue, order, fill) in enumerate(kinds):
        ctx, style = lengths[turn % 5], NEAR[turn % 4]
        yield (
            f"fp8-n{turn % 4 + 1}-h{heads[turn % 4]}-d128-ctx{ctx}"
            f"-fmt{fmt}-ue{ue}-tile{order}-t{style}-f{fill}-s{100 + turn}"
        )
        if order == "flat":
            yield (
                f"fp8-h{heads[turn % 4]}-d128-ctx700,437,64-w{WINDOWS}-fmt{fmt}-ue{ue}-f{fill}-s{200 + turn}"
            )
    rows, padded = (17, 40, 64, 65), (0, 1, 7, 24)
    for turn, (fill, ue) in enumerate((fill, ue) for fill in TOKENS for ue in (0, 1)):
        pairing, order = ("neox", "interleaved")[turn // 2 % 2], ("flat", "tiled")[(turn + turn // 4) % 2]
        form = f"h{heads[turn % 4]}-d128-pair{pairing}-p{padded[turn // 2 % 4]}"
        yield f"fp8-r{rows[turn % 4]}-{form}-fmtfn-ue{ue}-tile{order}-f{fill}-s{300 + turn}"
        yield f"fp8-r{rows[turn % 2]}-{form}-fmtfnuz-ue{ue}-tile{order}-f{fill}-s{400 + turn}"


def check(case: Case) -> None:
    """At least one key, a fill of the kind, and no more rows than suite writer takes. Raises `CaseError`."""
    fills = TOKENS if case.kind == "writer" else SCORED
    if case.f not in fills:
        raise CaseError(f"field f is {case.f!r}, allowed in this form of fp8 are {', '.join(fills)}")
    if case.kind == "writer":
        writer.check(case)
    elif not sum(case.ctx):
        raise CaseError("field ctx has no key, allowed in suite fp8 is at least one length from 1")


SUITE = Suite(
    name="fp8",
    about="the FP8 default: quantiser, cache page, scorers and the fused writer",
    kinds={
        "decode": ("n", "h", "d", "ctx", "fmt", "ue", "tile", "t", "f", "s"),
        "prefill": ("h", "d", "ctx", "w", "fmt", "ue", "f", "s"),
        "writer": ("r", "h", "d", "pair", "p", "fmt", "ue", "tile", "f", "s"),
    },
    smoke=SMOKE,
    full=full,
    fills=FILLS,
    tables=NEAR,
    limits={"d": (128,)},
    check=check,
)
