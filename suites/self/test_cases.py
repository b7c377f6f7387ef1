"""A case id names everything, reads back to the same case, and a bad one is refused in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.case import case_lists, cases
from harness.case.case_limits import LAST, LIMITS
from harness.case.cases import Case, CaseError, parse

REPLAY = "replay-n1-h16-d128-bucket4-v{}-k64-tshuffled-fbytes-s1"
DECODE = "decode-n4-h32-d128-ctx700,437-tshuffled-u0-l0-fbytes-s1"
PREFILL = "prefill-h64-d128-ctx700,64-w0@0:690+10,1@37:41-c3-tshuffled-u0-l0-fnatural-s2"
VARQLEN = "varqlen-h16-d256-ctx5,6-q3,0-p4-ttight-u0-l300-fwide-s1"
IDENTITY = "identity-h16-d128-ctx64-w0@0:10+3-c1,2-tshuffled-u0,64-l0-fbytes-s0"
EVERY_SUITE = (
    DECODE,
    PREFILL,
    VARQLEN,
    IDENTITY,
    "identity-n2-h16-d128-ctx64x3-tstrided-u6,8-l0-faddress-s7",
    "schedule-n2-ctx700,437,0,64-u16,8-l768",
    "schedule-w0@0:10+3,2@255:257-u4-l0",
    "quantise-r5-d128-fboundary-s1",
    "write-r7-h16-d256-fnatural-s1",
    "layout-h16-d128-ctx70,1-tshuffled-s3",
)


@pytest.mark.parametrize("text", EVERY_SUITE)
def test_a_canonical_id_reads_back(text: str) -> None:
    """Printing a parsed canonical id gives the id, and parsing it again the same value."""
    case = parse(text)
    assert case.id == text
    assert parse(case.id) == case
    assert hash(parse(text)) == hash(case)


@pytest.mark.parametrize("which", case_lists.LISTS)
def test_listed_cases_read_back(which: str) -> None:
    """Every listed case round-trips, and its id needs no quoting in a shell or in pytest."""
    for suite in cases.SUITES:
        for case in case_lists.listed(suite, which):
            assert parse(case.id) == case
            assert not set(case.id) & set(" []()'\"\\$&|;<>*?!#~`{}/") and "::" not in case.id


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("schedule-n1-ctx7,7,7,8-u8-l0", "schedule-n1-ctx7x3,8-u8-l0"),
        ("schedule-n1-ctx7x1,8x2-u8-l0", "schedule-n1-ctx7,8x2-u8-l0"),
        ("schedule-w0@3:5,0@3:6,0@3:7,0@3:7-u9-l0", "schedule-w0@3:5+3,0@3:7-u9-l0"),
        ("schedule-l0-u8-ctx7-n1", "schedule-n1-ctx7-u8-l0"),
        ("schedule-n01-ctx007-u8-l0", "schedule-n1-ctx7-u8-l0"),
    ],
)
def test_spellings_of_one_case_have_one_id(text: str, canonical: str) -> None:
    """Repeats, runs of windows, the order of fields and leading zeros do not make another case."""
    assert parse(text).id == canonical


def test_geometry_follows_from_the_fields() -> None:
    """Rows, width and units of every kind of case."""
    assert (parse(DECODE).rows, parse(DECODE).width, parse(DECODE).units) == (8, 768, None)
    assert (parse(PREFILL).rows, parse(PREFILL).batch, parse(PREFILL).kind) == (11, 2, "prefill")
    assert (parse(VARQLEN).rows, parse(VARQLEN).width) == (7, 300)
    assert parse("schedule-n1-ctx0-u4-l0").width == 256
    assert parse("schedule-n1-ctx257-u4-l0").width == 512


WRONG = {
    "": "suite",
    "nosuch-n1": "suite",
    "decode": "field n",
    DECODE.replace("-n4", ""): "field n",
    DECODE + "-s2": "field s occurs twice",
    DECODE + "-x2": "'x2' is unknown",
    DECODE + "-q2": "'q2' is unknown",
    DECODE + "-": "'' is unknown",
    DECODE.replace("n4", "n0"): "field n",
    DECODE.replace("n4", "n9"): "field n is 9, allowed are 1 to 8",
    DECODE.replace("n4", "n"): "field n",
    DECODE.replace("n4", "n4.5"): "field n",
    DECODE.replace("h32", "h31"): "multiples of 16",
    DECODE.replace("h32", "h144"): "field h is 144, allowed are multiples of 16",
    DECODE.replace("d128", "d192"): "allowed are 128 and 256",
    DECODE.replace("ctx700,437", "ctx"): "field ctx",
    DECODE.replace("ctx700,437", "ctx700,,437"): "field ctx",
    DECODE.replace("ctx700,437", "ctx10000000000"): "field ctx is 10000000000, allowed are 0 to 1048576",
    DECODE.replace("ctx700,437", "ctx99999999999999999999"): "field ctx",
    DECODE.replace("ctx700,437", "ctx7x0"): "field ctx repeats",
    DECODE.replace("ctx700,437", "ctx7x99999999"): "field ctx repeats",
    DECODE.replace("ctx700,437", "ctx7x"): "field ctx repeats a value '' times",
    DECODE.replace(
        "ctx700,437", "ctx4x4096,4x4096"
    ): "field ctx has 8192 members, allowed in suite decode are 1 to 4096",
    DECODE.replace("ctx700,437", "ctx1048576x60"): "field ctx sums",
    DECODE.replace("ctx700,437", "ctx1048576x4,1x500"): "cells",
    DECODE.replace("tshuffled", "tnosuch"): "field t",
    DECODE.replace("fbytes", "fnosuch"): "field f",
    DECODE.replace("u0", "u6"): "multiples of n = 4 from 8",
    DECODE.replace("u0", "u4"): "multiples of n = 4 from 8",
    DECODE.replace("u0", "u8,16"): "field u has 2 members, allowed in suite decode is 1",
    DECODE.replace("l0", "l699"): "field l is 699, allowed are 0 and 700",
    DECODE.replace("l0", "l1048577"): "field l",
    DECODE.replace("s1", "s2147483648"): "field s",
    DECODE.replace("s1", "s-1"): "field s is '-1', allowed are 0 to 2147483647 (whole numbers)",
    PREFILL.replace("1@37:41", "1@41:37"): "field w is 41:37",
    PREFILL.replace("1@37:41", "1@37:65"): "field w is 37:65 in row 10, allowed are 0 <= start <= end <= 64",
    PREFILL.replace("1@37:41", "2@37:41"): "field w names sequence 2 in row 10, allowed are 0 and 1",
    PREFILL.replace(
        "w0@0:690+10,1@37:41", "w1@37:41,0@0:690"
    ): "field w names sequence 0 in row 1, allowed is 1 (in order)",
    PREFILL.replace("1@37:41", "1@37"): "SEQ@START:END",
    PREFILL.replace("1@37:41", "1@37:41+0"): "field w has a window of 0 rows",
    PREFILL.replace("1@37:41", "1@37:41+99999999"): "field w has a window of 99999999 rows",
    PREFILL.replace("u0", "u10"): "field u is 10, allowed are 0 and 11 (one a row)",
    PREFILL.replace("prefill-", "prefill-n2-"): "'n2' is unknown",
    VARQLEN.replace("q3,0", "q3"): "field q has 1 member, allowed is one a sequence, 2 as in ctx",
    VARQLEN.replace("u0", "u6"): "field u is 6",
    IDENTITY.replace("identity-", "identity-n1-"): "exactly one of them",
    IDENTITY.replace("-w0@0:10+3", ""): "exactly one of them",
    "identity-n1-h16-d128-ctx64-c2-tshuffled-u0-l0-fbytes-s0": "field c does not belong here",
    "layout-h16-d128-ctx0-tshuffled-s3": "field ctx has no key",
    "layout-h16-d128-ctx4097-tshuffled-s3": "allowed in suite layout are at most 4096",
    "quantise-r5-d128-faddress-s1": "allowed in suite quantise are",
    "quantise-r0-d128-fwide-s1": "field r is 0",
    "quantise-r65536-d256-fwide-s1-s1": "twice",
    "decode-1": "field '1' is unknown",
    "dcp-decod-world2": "suite is 'dcp-decod', allowed are quantise",
    DECODE.replace("n4", "n-4"): "field n is '-4', allowed are 1 to 8 (whole numbers)",
    DECODE.replace("fbytes", "fbytes-1"): "field f is 'bytes-1', allowed in suite decode are bytes",
    DECODE.replace("ctx700,437", "ctx700,x"): "field ctx has a member 'x', allowed are 0 to 1048576",
    PREFILL.replace("1@37:41", "1@-7:41"): "field w has '1@-7:41', allowed is SEQ@START:END",
    "pool-layers2-page64-blocks3-d64": "field d is 64, allowed are 128 and 256",
    "pool-layers2-page24-blocks3-d128": "field page is 24, allowed are multiples of 16 from 16 to 1024",
    "topk-n0-ctx9-k1-stable0-l0-fties-s1": "field n is 0, allowed are 1 to 8",
    "topk-n1-ctx9-k1-stable2-l0-fties-s1": "field stable is 2, allowed are 0 and 1",
    "writer-r9-h16-d128-pairneox-all0-p-1-fspread-s1": "field p is '-1', allowed are 0 to 4096",
    "writer-r9-h16-d64-pairneox-all0-p1-fspread-s1": "field d is 64, allowed in suite writer is 128",
    "gate-ruledsa-ask-k1-d128-h64-kpool0-chipgfx950": "field ask is '', allowed are fp4, fp8, bf16, none",
    "gate-ruledsa-askfp4-kx-d128-h64-kpool0-chipgfx950": "field k is 'x', allowed in suite gate are 0 to",
    REPLAY.format("5,y_4"): "field v has a member 'y', allowed are 0 to 1048575 (whole numbers)",
    REPLAY.format("5_1048576"): "field v is 1048576, allowed are 0 to 1048575",
    REPLAY.format("5x9999_4"): "field v repeats a value '9999' times, allowed are 1 to 4096",
    REPLAY.format("5_4").replace("shuffled", "far"): "field t is 'far', allowed in suite replay are shuffled",
    "speculative-n4-h16-d128-ctx5-steps3-ub2-tshuffled-fbytes-s2": "field ub is 2, allowed is 1 (one",
}


@pytest.mark.parametrize(("text", "says"), WRONG.items(), ids=range(len(WRONG)))
def test_a_bad_id_is_refused_in_one_sentence(text: str, says: str) -> None:
    """The sentence names the field and what is allowed, on one line of bearable length."""
    with pytest.raises(CaseError) as refusal:
        parse(text)
    sentence = str(refusal.value)
    assert says in sentence
    assert "\n" not in sentence and len(sentence) < 250


def test_either_side_of_every_limit() -> None:
    """The largest and smallest value of each field is taken, one beyond is not."""
    for name, text in (
        ("n", "schedule-n{}-ctx1-u0-l0"),
        ("ctx", "schedule-n1-ctx{}-u0-l0"),
        ("u", "schedule-n1-ctx0-u{}-l0"),
    ):
        low, high = LIMITS[name][0], LIMITS[name][-1]
        for value in (low, high):
            parse(text.format(value))
        with pytest.raises(CaseError):
            parse(text.format(high + 1))
    parse(f"schedule-n1-ctx1x{LAST['ctx']}-u0-l0")
    with pytest.raises(CaseError):
        parse(f"schedule-n1-ctx1x{LAST['ctx']},1-u0-l0")
    parse("decode-n1-h16-d128-ctx1048576,1x255-tshuffled-u0-l0-fbytes-s1")
    parse("decode-n1-h16-d128-ctx1048576,1x1023-tshuffled-u0-l0-fbytes-s1")
    with pytest.raises(CaseError, match="cells"):
        parse("decode-n1-h16-d128-ctx1048576,1x1024-tshuffled-u0-l0-fbytes-s1")


def test_the_constructor_checks_like_the_parser() -> None:
    """A Case made by hand is refused for the same reasons, and cannot be changed."""
    with pytest.raises(CaseError, match="field n"):
        Case("decode", n=9, h=16, d=128, ctx=(1,), t="shuffled", u=(0,), f="bytes")
    with pytest.raises(CaseError, match="does not belong"):
        Case("quantise", r=4, d=128, f="wide", n=1)
    case = parse(DECODE)
    with pytest.raises(AttributeError):
        case.n = 2  # type: ignore[misc]
    assert case.but(s=5).id.endswith("-s5")


def test_reading_ids_needs_no_torch() -> None:
    """Listing and parsing stay light, so that a wrong id is answered at once."""
    code = "import sys; from harness.case import cases, case_lists; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("decode-n1-h16-d64-ctx9-tshuffled-u0-l0-fbytes-s1", "field d is 64, allowed are 128 and 256"),
        ("decode-n1-h256-d128-ctx9-tshuffled-u0-l0-fbytes-s1", "field h is 256, allowed are multiples of 16"),
        ("decode-n1-h16-d128-ctx-9-tshuffled-u0-l0-fbytes-s1", "field ctx has a member '-9'"),
        ("varqlen-h16-d128-ctx2-q0-p0-tshuffled-u0-l0-fbytes-s1", "fields q and p ask for no row"),
        (
            "prefill-h16-d128-ctx9,9-w1@0:1,0@0:1-c0-tshuffled-u0-l0-fbytes-s1",
            "allowed is 1 (in order)",
        ),
        ("gate-ruledsa-askfp4-k2048-d128-h64-kpool0", "field chip"),
    ],
)
def test_ranges_that_are_told_are_the_real_ones(text: str, sentence: str) -> None:
    """What a sentence allows is allowed."""
    with pytest.raises(CaseError) as told:
        parse(text)
    assert sentence in str(told.value)
