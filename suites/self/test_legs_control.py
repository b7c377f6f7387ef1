"""The positive control, what pooling takes from certificates, and the commands that show both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cli, exits
from harness.command import legs_certify
from harness.exits import InputError
from harness.legs import journal, pooling
from harness.legs.certify import certifying
from harness.legs.certify.certificate import Certificate, Point, Verdict
from harness.legs.certify.certifying import certify
from harness.legs.pool import pooled
from harness.legs.pool.words import Word
from suites.self.legs_folders import IDENTITY, answers, asks, failed, point, record, sample
from suites.self.test_legs_pool import table

HOLDS, FAILS, UNKNOWN, NOT_ASKED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNKNOWN, Verdict.NOT_ASKED
SEEN = "a leg that is known to be bad was seen: "
RIGHT, WORSE = [1] * 40, [1] * 28 + [0] * 12
LEGS: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "bad": {"known_bad": True}}


def world(folder: Path, bad: list[int] = RIGHT, **manifest: Any) -> Path:
    """A base a, a leg b like it, and a known-bad leg with answers ``bad`` and ``manifest``."""
    asks(folder, LEGS)
    sample(folder, "a", records=answers(RIGHT))
    sample(folder, "b", records=answers(RIGHT))
    sample(folder, "bad", records=answers(bad), **manifest)
    return folder


def test_a_bad_leg_that_pools_as_worse_was_seen(tmp_path: Path) -> None:
    """By how much, under which filter; 12 of 40 is 30 points."""
    found = point(world(tmp_path, WORSE), "control")
    assert (found.verdict, found.binding) == (HOLDS, False)
    worse = "bad is worse by 30.00 points (strict), 30.00 points (flexible)"
    assert found.said == SEEN + worse
    assert point(world(tmp_path / "alike"), "control").verdict is FAILS


def test_one_filter_is_enough(tmp_path: Path) -> None:
    """Strict alone falls: the control is seen under strict."""
    world(tmp_path)
    rows = [record(n, strict_correct=n < 28) for n in range(40)]
    sample(tmp_path, "bad", records=rows)
    assert point(tmp_path, "control").said.endswith("bad is worse by 30.00 points (strict)")


@pytest.mark.parametrize(
    ("change", "verdict", "said"),
    [
        ({"status": "crashed"}, HOLDS,
         SEEN + "bad is not measured, for its answers"),
        ({"status": "crashed", "expected": 50}, HOLDS,
         SEEN + "bad is not measured, for its answers"),
        ({"expected": 50}, UNKNOWN,
         "the known-bad leg bad is not measured, for its answers, which says nothing of its fault"),
        ({"status": "stopped"}, UNKNOWN,
         "the known-bad leg bad is not measured, for its answers, which says nothing of its fault"),
        ({"identity": {**IDENTITY, "shots": 5}}, UNKNOWN,
         "the known-bad leg bad is not measured, for its settings, which says nothing of its fault"),
    ],
)  # fmt: skip
def test_a_bad_leg_whose_certificate_fails(
    change: dict[str, Any], verdict: Verdict, said: str, tmp_path: Path
) -> None:
    """Seen when its server failed; a leg that was cut short or asked something else shows nothing."""
    found = point(world(tmp_path, **change), "control")
    assert (found.verdict, found.said) == (verdict, said)


def test_a_control_needs_its_leg_and_a_base(tmp_path: Path) -> None:
    """Not given is not asked; given and not run, or without a base that counts, nobody can tell."""
    asks(tmp_path, LEGS)
    where = sample(tmp_path, "a", records=answers(RIGHT))
    assert point(tmp_path, "control").said == "the known-bad leg bad has no sample"
    sample(tmp_path, "bad", records=answers(WORSE))
    where.update(status="crashed")
    found = point(tmp_path, "control")
    assert (found.verdict, found.said) == (
        UNKNOWN, "the base leg a is not measured, so bad can be held against nothing",
    )  # fmt: skip
    sample(tmp_path / "none")
    assert point(tmp_path / "none", "control").verdict is NOT_ASKED


def run(capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of ``harness legs``."""
    code = cli.main(["legs", *line])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_could_not_have_been_seen_is_not_called_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every "no difference" of another leg carries that the control was not seen; the control is labelled."""
    caveat = "; but the known-bad leg bad was not seen: this campaign cannot see a fault of that size"
    code, out, _ = run(capsys, "pool", str(world(tmp_path / "unseen")))
    assert code == exits.AGREE
    lines = out.splitlines()
    assert [line.endswith(caveat) for line in lines if line.startswith("b against a")] == [True, True]
    assert [caveat in line for line in lines if line.startswith("bad (known bad) against a")] == [False] * 2
    code, out, _ = run(capsys, "pool", str(world(tmp_path / "seen", WORSE)))
    assert code == exits.AGREE
    assert "cannot see a fault" not in out
    assert "bad (known bad) against a, strict: worse by 30.00 points" in out
    assert "a leg that is known to be bad was seen" in out


def test_every_kind_of_absence_carries_the_caveat() -> None:
    """Equivalent and not seen; a difference that was seen needs none."""
    rng = np.random.default_rng(5)
    base = (rng.random(2000) < 0.9).astype(float).tolist()
    flipped = {base.index(right, 10 * at) for right in (0, 1) for at in range(10)}
    near = [1 - one if at in flipped else one for at, one in enumerate(base)]
    far = [0 if at < 300 else one for at, one in enumerate(base)]
    legs = table({"a": [base], "near": [near], "same": [base], "far": [far]})
    found = pooled.pool(legs, base="a", margin=0.05, caveat="blind")
    said = {one.between.other: (one.word, one.said) for one in found.judged if one.between.which == "strict"}
    assert said["near"][0] is Word.EQUIVALENT
    assert said["near"][1].endswith("; but blind")
    assert said["same"][0] is Word.EQUIVALENT
    assert said["same"][1].endswith("no question of 2000 was answered differently; but blind")
    few = pooled.pool(table({"a": [[1] * 40], "b": [[1] * 40]}), base="a", margin=0.05, caveat="blind")
    assert [(one.word, one.said.endswith("; but blind")) for one in few.judged] == [(Word.UNSEEN, True)] * 2
    assert (said["far"][0], "blind" in said["far"][1]) == (Word.WORSE, False)


def test_an_effect_inside_the_run_to_run_band_is_not_resolved() -> None:
    """25 points, significant by its test; two samples of one leg differ by 30, so it is no effect."""
    base = [[1.0] * 400, [1.0] * 280 + [0.0] * 120]
    other = [[1.0] * 200 + [0.0] * 80 + [1.0] * 40 + [0.0] * 80] * 2
    found = pooled.pool(table({"a": base, "b": other}), base="a", margin=0.01).judged[0]
    assert found.between.p < 1e-6
    assert found.between.band == pytest.approx(0.30)
    assert found.between.difference == pytest.approx(-0.25)
    assert (found.word, found.said) == (
        Word.SPREAD,
        "inside the run-to-run spread: the legs differ by 25.00 points, "
        "two samples of one leg by up to 30.00",
    )  # fmt: skip
    steady = pooled.pool(table({"a": [[1.0] * 400] * 2, "b": other}), base="a", margin=0.01).judged[0]
    assert steady.word is Word.WORSE


def test_pooling_refuses_what_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the certificate's reason; a known-bad leg that is not measured is no reason for an exit code."""
    asks(tmp_path, LEGS)
    sample(tmp_path, "a", records=answers(RIGHT))
    sample(tmp_path, "bad", records=[*answers(RIGHT[1:]), failed(39)])
    code, out, _ = run(capsys, "pool", str(tmp_path))
    assert (code, "b is not measured: no sample of it was measured" in out) == (exits.UNPROVEN, True)
    sample(tmp_path, "b", records=answers(RIGHT))
    assert run(capsys, "pool", str(tmp_path))[0] == exits.AGREE
    shutil.rmtree(tmp_path / "b")
    sample(tmp_path, "b", records=answers(RIGHT, prompt_tokens=2000))
    code, out, _ = run(capsys, "pool", str(tmp_path))
    assert code == exits.UNPROVEN
    reason = "does not exercise the sparse indexer: 40 of 40 prompts are at most 2048 tokens"
    assert "b against a" not in out
    assert f"b is not measured: {reason}" in out
    assert "bad (known bad) is not measured: sample 1 has 1 failed request" in out


def test_a_known_bad_leg_is_no_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be held against itself, and every other leg would be better."""
    code, _, said = run(capsys, "pool", str(world(tmp_path, WORSE)), "--base", "bad")
    assert (code, said.count("\n")) == (exits.USAGE, 1)
    assert "base is 'bad', a known-bad leg, allowed are a, b" in said
    with pytest.raises(InputError, match="base is 'bad', a known-bad leg, allowed are a, b"):
        certify(tmp_path, base="bad")
    certificates = certify(tmp_path)
    with pytest.raises(InputError, match="base is 'bad', a known-bad leg, allowed are a, b"):
        pooling.pool(tmp_path, journal.table(tmp_path), certificates, base="bad")


def test_a_leg_with_fewer_samples_says_so_wherever_it_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the base and of the other, in each sentence; a leg that has them all is not named."""
    asks(tmp_path, {"a": {}, "b": {}, "c": {}}, repeats=2)
    for leg, numbers in {"a": (1, 2), "b": (1,), "c": (1, 2)}.items():
        for number in numbers:
            sample(tmp_path, leg, number, records=answers(RIGHT))
    code, out, _ = run(capsys, "pool", str(tmp_path))
    assert code == exits.AGREE
    said = [line for line in out.splitlines() if " against a, " in line]
    few = [line.endswith("; leg b has 1 of 2 samples") for line in said]
    assert few == [line.startswith("b") for line in said] == [True, True, False, False]
    _, out, _ = run(capsys, "pool", str(tmp_path), "--base", "b")
    assert out.count("; leg b has 1 of 2 samples") == 4


def test_without_an_answer_of_the_base_leg_nothing_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never run, or crashed before its first answer: said, exit 4, and the others stand by themselves."""
    asks(tmp_path, {"a": {}, "b": {}})
    sample(tmp_path, "b", records=answers(RIGHT))
    code, out, _ = run(capsys, "pool", str(tmp_path))
    assert (code, "a is not measured: no sample of it was measured" in out) == (4, True)
    assert "40/40" in out
    assert "against" not in out
    sample(tmp_path, "a", records=[], status="crashed", expected=40)
    code, out, _ = run(capsys, "pool", str(tmp_path), "--write", str(tmp_path / "w"))
    assert (code, "a is not measured: sample 1 is crashed (0 of 40 questions)" in out) == (4, True)
    sample(tmp_path / "none", records=[], status="crashed", expected=40)
    code, out, _ = run(capsys, "pool", str(tmp_path / "none"))
    assert (code, "a is not measured: sample 1 is crashed (0 of 40 questions)" in out) == (4, True)


def test_a_leg_that_nobody_can_tell_is_pooled_and_said_to_be_uncertified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign that was driven should have known: exit 4. Past runs could not: exit 0, and certify 4."""
    for folder in (tmp_path / "driven", tmp_path / "past"):
        for leg in ("a", "b"):
            sample(folder, leg, records=answers(RIGHT, prompt_tokens=None))
    asks(tmp_path / "driven", {"a": {}, "b": {}})
    for name, wanted in (("driven", exits.UNPROVEN), ("past", exits.AGREE)):
        code, out, _ = run(capsys, "pool", str(tmp_path / name))
        assert code == wanted
        assert "b against a, strict: no question of 40 was answered differently" in out
        assert "b is not certified: 40 of 40 prompts have no token count" in out
        code, out, _ = run(capsys, "certify", str(tmp_path / name))
        assert code == exits.UNPROVEN
        assert "exit 4: 2 of 2 legs are not certified: a (not certified), b (not certified)" in out


def test_certify_prints_and_writes_every_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the folder and where it is asked for, with the figures; exit 0, also with a bad control."""
    world(tmp_path, status="crashed")
    code, out, _ = run(capsys, "certify", str(tmp_path), "--json", str(tmp_path / "f.json"))
    assert code == exits.AGREE
    assert "exit 0: 2 legs are certified except path; not certified, and known to be bad: bad" in out
    assert "40 of 40 prompts are longer than 2048 tokens" in out
    written = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "certificates.json").read_text(encoding="utf-8")) == written
    legs = {one["leg"]: one for one in written["certificates"]}
    assert [legs[leg]["word"] for leg in LEGS] == ["certified except path"] * 2 + ["not measured"]
    assert (legs["bad"]["known_bad"], legs["a"]["points"][0]["figures"]["min"]) == (True, 3000)
    code, out, _ = run(capsys, "certify", str(tmp_path), "--index-topk", "3000")
    assert code == exits.UNPROVEN
    assert "exit 4: 2 of 3 legs are not certified: a (not measured), b (not measured)" in out
    code, _, _ = run(capsys, "pool", str(tmp_path), "--write", str(tmp_path / "out"))
    lines = (tmp_path / "out" / "certificates.md").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["| leg | point | verdict | found |", "|---|---|---|---|"]
    assert (
        "| a | answers | holds | 40 of 40 answered, 0 empty, 0 truncated, 0 stopped, 0 failed (1 sample) |"
        in lines
    )


@pytest.mark.parametrize(
    ("good", "bad", "left", "wanted"),
    [
        (1, 0, 0, "exit 0: 1 leg is certified"),
        (3, 0, 0, "exit 0: all 3 legs are certified"),
        (1, 1, 0, "exit 0: 1 leg is certified; not certified, and known to be bad: b0"),
        (0, 1, 0, "exit 0: 0 legs are certified; not certified, and known to be bad: b0"),
        (2, 2, 0, "exit 0: 2 legs are certified; not certified, and known to be bad: b0, b1"),
        (0, 0, 1, "exit 4: 1 of 1 leg is not certified: l0 (not measured)"),
        (1, 1, 1, "exit 4: 1 of 3 legs is not certified: l0 (not measured)"),
        (1, 0, 2, "exit 4: 2 of 3 legs are not certified: l0 (not measured), l1 (not measured)"),
    ],
)
def test_the_last_line_counts_legs(good: int, bad: int, left: int, wanted: str) -> None:
    """One leg and several; those that are bad on purpose are not among the certified ones."""
    fails = (Point("answers", FAILS, "no"),)
    found = {f"g{at}": Certificate("g", ()) for at in range(good)}
    found |= {f"b{at}": Certificate("b", fails, known_bad=True) for at in range(bad)}
    found |= {f"l{at}": Certificate("l", fails) for at in range(left)}
    assert legs_certify.said(found, certifying.uncertified(found)) == wanted


def test_bad_input_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line that names the field."""
    folder = world(tmp_path / "camp")
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    for line, sentence in {
        f"{tmp_path}/absent": "absent is no folder; give a campaign folder",
        f"{tmp_path}/empty": "empty holds no sample of a leg",
        f"{folder} --index-topk -1": "--index-topk is -1, allowed is 0 or more",
        f"{folder} --json {tmp_path}": "is a directory, a file name is wanted",
        f"{folder} --tokenizer {tmp_path}/empty": "empty holds no tokenizer.json",
        f"{folder} --tokenizer {tmp_path}/no.json": "no.json is no tokenizer",
    }.items():
        code, _, said = run(capsys, "certify", *line.split())
        assert (code, said.count("\n")) == (exits.USAGE, 1)
        assert sentence in said
