"""Measurements, claims and standings among the reported figures: all are held, none reads as checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs.claims import audit, reported
from harness.legs.claims.audit import FAILS, HOLDS, UNCLEAR

ONE = '[[measured]]\nid = "m"\nis = "8.75"\nunit = "us"\nsays = "x"\nstanding = "stands"\nsource = "y"\n'
FIGURE = (
    '[[figure]]\nid = "f"\nrule = "byte-ratio"\nis = "0.47"\nsays = "x"\nstanding = "stands"\nsource = "y"\n'
    "from = { rows = 64, dim = 128 }\n"
)
LEGS = "".join(
    f'[[leg]]\nid = "{name}"\nn = 1319\nstrict = "{text}"\nk_strict = {k}\n'
    'standing = "stands"\nsource = "y"\n'
    for name, text, k in (("a", "0.9689", 1278), ("b", "0.9644", 1272))
)
CLAIM = '[[claim]]\nid = "c"\nleg = "b"\nbase = "a"\nsays = "x"\nstanding = "stands"\nsource = "y"\n'


def load(text: str, tmp_path: Path) -> reported.Report:
    file = tmp_path / "reported.toml"
    file.write_text(text, encoding="utf-8")
    return reported.load(file)


def remarks(text: str, tmp_path: Path) -> list[audit.Remark]:
    return audit.report(load(text, tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fallback-warnings", "0 warnings"),
        ("wall-fp4", "1981 s"),
        ("wall-fp8", "1972 s"),
        ("scorer-4096", "8.75 us (units 4096)"),
        ("scorer-512", "2.99 us (units 512)"),
        ("schedule-publish", "4.8 us"),
        ("scorer-over-fp8", "+2.3 us"),
        ("step-4096-1", "+0.020 ms (tokens 4096, batch 1)"),
        ("step-4096-8", "+0.098 ms (tokens 4096, batch 8)"),
        ("step-131072-8", "-0.450 ms (tokens 131072, batch 8)"),
        ("step-131072-16", "-0.709 ms (tokens 131072, batch 16)"),
        ("step-262144-8", "-0.934 ms (tokens 262144, batch 8)"),
        ("saving-ratio", "0.41 to 0.52"),
        ("width-pairs", "19500000 pairs"),
        ("dcp-prompts", "2048 tokens"),
    ],
)
def test_every_reported_measurement_is_held(name: str, text: str) -> None:
    """Spec reported.md, "Other claims", with a source and a standing."""
    one = reported.load().measured[name]
    assert (one.text, one.standing, bool(one.source)) == (text, "stands", True)


def test_legs_of_few_shots_carry_their_reservation() -> None:
    """They stand, but do not exercise the sparse indexer; a claim about two of them does not either."""
    told = reported.load()
    for one in (told.legs["base-fp4-5"], told.legs["base-fp8-5"], told.claims["fp4-against-fp8-5"]):
        assert one.standing == "stands"
        assert "the sparse indexer" in one.but
    assert {leg.id for leg in told.legs.values() if leg.but} == {"base-fp4-5", "base-fp8-5"}


def test_a_measurement_is_told_and_not_confirmed(tmp_path: Path) -> None:
    """With its ratio to the one that it was reported beside, and no more."""
    base = ONE.replace('"m"', '"n"').replace("8.75", "2.99")
    (one, other) = remarks(ONE + 'against = "n"\n' + base, tmp_path)
    assert (one.verdict, other.verdict) == (UNCLEAR, UNCLEAR)
    assert one.text == (
        "x: 8.75 us, 2.926 times that of n (2.99 us); a measurement: only another one can tell"
    )


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [("0.41", "0.52", HOLDS), ("0.41", "0.47", HOLDS), ("0.41", "0.46", FAILS), ("0.48", "0.52", FAILS)],
)
def test_a_range_holds_what_it_is_said_to_confirm(low: str, high: str, verdict: str, tmp_path: Path) -> None:
    """4352/9216 = 0.4722 lies in 0.41 to 0.52; an end may have been rounded by half a digit."""
    range_of = ONE.replace('"8.75"', f'"{low}"\nto = "{high}"') + 'around = "f"\n'
    (found,) = [one for one in remarks(FIGURE + range_of, tmp_path) if one.claim == "m"]
    assert found.verdict == verdict
    assert "0.4722 (f)" in found.text


def test_a_claim_is_held_against_the_counts(tmp_path: Path) -> None:
    """1272 and 1278 of 1319 are 0.45 points and 0.65 combined errors apart; 2 points would be seen."""
    (found,) = [one for one in remarks(LEGS + CLAIM + 'kind = "difference"\n', tmp_path) if one.claim == "c"]
    assert (found.verdict, found.text) == (
        HOLDS, "strict: -0.45 points by the counts, 0.65 combined standard errors",
    )  # fmt: skip
    for points, verdict in (("0.5", HOLDS), ("1.3", HOLDS), ("1.5", FAILS)):
        more = f'kind = "detectable"\nstrict = "{points}"\n'
        (found,) = [one for one in remarks(LEGS + CLAIM + more, tmp_path) if one.claim == "c"]
        assert found.verdict == verdict


def test_what_was_superseded_names_what_took_its_place(tmp_path: Path) -> None:
    """And says why; so does what was withdrawn."""
    new = ONE.replace('"m"', '"n"')
    gone = ONE.replace('"stands"', '"superseded"\nsuperseded_by = "n"\nwhy = "measured again"')
    said = [one.text for one in remarks(gone + new, tmp_path) if one.check == "standing"]
    assert said == ["superseded by n: measured again"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ONE.replace('standing = "stands"\n', ""), "measured m has standing '', allowed are stands"),
        (ONE.replace('"stands"', '"withdrawn"'), "measured m is withdrawn and lacks field why"),
        (ONE.replace('"stands"', '"superseded"\nwhy = "w"'),
         "measured m is superseded, allowed is superseded_by where it is superseded"),
        (ONE.replace('"stands"', '"superseded"\nwhy = "w"\nsuperseded_by = "z"'),
         "m has superseded_by 'z', allowed is another entry"),
        (ONE.replace('"stands"', '"superseded"\nwhy = "w"\nsuperseded_by = "m"'),
         "m has superseded_by 'm', allowed is another entry"),
        (ONE + 'superseded_by = "m"\n', "measured m is stands, allowed is superseded_by where it is"),
        (ONE.replace('says = "x"\n', ""), "measured m lacks field says"),
        (ONE.replace("8.75", "fast"), "m has is that is wrong: 'fast' is no decimal number"),
        (ONE + 'to = "8"\n', "measured m has to 8, allowed is 8.75 or more"),
        (ONE + "at = { batch = 1.5 }\n", "measured m has at.batch 1.5, allowed are numbers and texts"),
        (ONE + 'against = "z"\n', "measured m has against 'z', allowed are m"),
        (ONE + 'around = "z"\n', "measured m has around 'z', allowed is a figure's id"),
        (ONE + ONE, "measured lists m twice, allowed is once"),
        (ONE.replace("8.75", "0") + ONE.replace('"m"', '"n"') + 'against = "m"\n',
         "measured n has against 'm', which is 0"),
        (FIGURE.replace('standing = "stands"\n', ""), "figure f has standing '', allowed are stands"),
        (LEGS + CLAIM.replace('standing = "stands"\n', 'kind = "difference"\n'), "claim c has standing ''"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    """The entry, the field, and what is allowed."""
    with pytest.raises(InputError) as told:
        load(text, tmp_path)
    assert sentence in str(told.value)


def test_a_measurement_is_no_claim_that_legs_reproduce(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is known, and what can be reproduced is named."""
    for name in ("wall-fp4", "byte-ratio"):
        assert cli.main(["legs", "reproduce", name, "--dir", str(tmp_path)]) == exits.USAGE
        assert f"CLAIM is {name!r}, which no accuracy leg can reproduce" in capsys.readouterr().err
