"""A verdict is one of a closed list, survives being stored, and reads like the sample in the style guide."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.findings import Finding
from harness.judge.verdict import LAYERS, Grade, Status, Verdict

FINDING = Finding(
    "out-of-bounds-load", "some_kernel", "tables", "kernels/some.py:12", 4, {"cta": 1, "lane": 3}
)
DIFFER = Verdict(
    case="decode-n2-h64-d128-ctx4096x8-tshuffled-u0-l0-fbytes-s7",
    suite="decode",
    path="flydsl",
    executor="emulated",
    status=Status.DIFFER,
    grade=Grade.EXACT,
    reason="bits-differ",
    layer="bits",
    where={"row": 11, "column": 2047, "sequence": 5, "token": 1, "block": 31, "slot": 63},
    got="0x40440000 3.0625",
    want="0x40480000 3.125",
    ulps=262144,
    count=64,
    total=65536,
    pattern="all in slot 63",
    findings=(FINDING,),
    notes=("asked with its own schedule",),
    seconds=1.5,
    rerun="python -m harness check decode-n2-h64-d128-ctx4096x8-tshuffled-u0-l0-fbytes-s7 --path flydsl",
    heat=((0, 64), (0, 0)),
    facts={"launches": 3},
)


@pytest.mark.parametrize("status", Status)
def test_only_agree_is_green(status: Status) -> None:
    """Every other word is not."""
    assert replace(DIFFER, status=status).green == (status is Status.AGREE)


@pytest.mark.parametrize("changes", [{"total": 0}, {"grade": Grade.NONE}])
def test_nothing_compared_is_never_green(changes: dict[str, object]) -> None:
    """An agreement on no cell or at no grade cannot even be made."""
    with pytest.raises(ValueError, match="not a pass"):
        DIFFER.but(status=Status.AGREE, **changes)


def test_layers_are_a_closed_list() -> None:
    """Another layer is refused."""
    for layer in LAYERS:
        DIFFER.but(layer=layer)
    with pytest.raises(ValueError, match="shape, mask, bits"):
        DIFFER.but(layer="ranking")


def test_a_record_is_json_and_reads_back() -> None:
    """Through JSON and back gives the same verdict; keys of a newer version are ignored."""
    record = json.loads(json.dumps(DIFFER.to_record()))
    assert record["status"] == "differ" and record["grade"] == "exact"
    assert Verdict.from_record(record) == DIFFER
    assert Verdict.from_record({**record, "of tomorrow": 1}) == DIFFER


def test_a_failure_reads_like_the_sample() -> None:
    """Headline, layer, place, values, how many, findings, notes, and how to run it again."""
    assert DIFFER.text().splitlines() == [
        f"FAILED  {DIFFER.case}   flydsl (emulated) vs oracle   reason: bits-differ",
        "  layer   bits (shape ok, mask ok, bits differ; grade exact)",
        "  where   row 11, column 2047: sequence 5, token 1, block 31, slot 63",
        "  value   got 0x40440000 3.0625  want 0x40480000 3.125  262144 ulp apart, 0 allowed (exact)",
        "  count   64 of 65536, all in slot 63",
        f"  finding {FINDING.text()}",
        "  note    asked with its own schedule",
        f"  rerun   {DIFFER.rerun}",
    ]


def test_a_pass_is_one_line_with_its_grade() -> None:
    """A green verdict says at which grade and on how many cells."""
    passed = Verdict("case", "decode", "oracle", "torch", Status.AGREE, Grade.ORDERED, total=12, seconds=0.25)
    assert passed.text() == "PASSED  case   oracle (torch) vs oracle   ordered, 12 cells, 0.25 s"


@pytest.mark.parametrize("status", [Status.MISTRUSTED, Status.UNSUPPORTED, Status.ERROR])
def test_every_other_word_comes_with_its_reason(status: Status) -> None:
    """The reason is in the headline, the rerun line below it."""
    text = Verdict("case", "decode", "aiter", "emulated", status, reason="because", rerun="again").text()
    assert text.splitlines()[0] == f"{status.upper()}  case   aiter (emulated) vs oracle   reason: because"
    assert "  rerun   again" in text
