"""Which measured legs may stand for a claim, and how much of its answer they carry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import cli, exits
from harness.command import legs_reproduce
from harness.exits import InputError
from harness.legs.claims import matching, regime, reported, reproduce, resting
from harness.legs.claims.arithmetic import printed
from harness.legs.claims.matching import Offered
from harness.legs.claims.reported import Leg, Report
from harness.legs.claims.reproduce import Answer
from harness.legs.claims.resting import Standing
from harness.legs.pool import between
from suites.self import legs_folders
from suites.self.test_reproduce import N, imported, measured, sample, told

REPORTED = reported.load()
FP4, FP8 = REPORTED.legs["base-fp4-20"], REPORTED.legs["base-fp8-20"]


def claim(**changes: Any) -> Leg:
    return Leg("c", N, "s", "stands", {}, **changes)


# known-bad legs


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """FP8, FP4, and FP4 that is wrong on purpose and scores alike."""
    place = tmp_path / "broken"
    legs_folders.asks(
        place,
        {"fp8": {"indexer": "fp8"}, "fp4": {"indexer": "fp4"}, "bad": {"indexer": "fp4", "known_bad": True}},
    )
    for leg in ("fp8", "fp4", "bad"):
        where = sample(place, leg, 1, range(44))
        where.update(identity={**where.manifest()["identity"], "indexer": leg.replace("bad", "fp4")})
    return place


@pytest.mark.parametrize(
    "words", [["base-fp4-20"], ["fp4-against-fp8-20"], ["dcp-fp4-against-fp8", "--base", "fp8"]]
)
def test_a_known_bad_leg_stands_for_no_claim(
    words: list[str], broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Named it is refused, for a claim about one leg and about two; unnamed it is not meant."""
    code, said = told(capsys, *words, "--dir", broken, "--leg", "bad", "--margin", "3")
    assert code == exits.USAGE
    assert "--leg is 'bad', a known-bad leg, allowed are fp8, fp4" in said
    code, said = told(capsys, *words, "--dir", broken, "--margin", "3")
    assert "known-bad" not in said
    assert "--leg" not in said


def test_a_known_bad_leg_is_never_the_one_that_is_meant() -> None:
    """Neither by its name nor by its indexer, nor where it is the only one."""
    legs = [Offered("base-fp4-20", "fp4", known_bad=True), Offered("one", "fp4"), Offered("fp8", "fp8")]
    assert matching.match(FP4, legs, None, "--leg") == "one"
    with pytest.raises(InputError, match="--leg is missing, allowed are none: none is known to be meant"):
        matching.match(FP4, legs[:1], None, "--leg")


def test_a_campaign_file_does_not_make_a_bad_leg_good(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the folder was driven as is what it is: the answer is cannot tell."""
    lines = ['name = "c"\nbase = "fp8"\n[task]\nshots = 20']
    lines += [f'[legs.{leg}]\nmodel = "m"\nbase_url = "http://127.0.0.1:1"' for leg in ("fp8", "bad")]
    (tmp_path / "c.toml").write_text("\n".join(lines), encoding="utf-8")
    words = ["fp4-against-fp8-20", "--campaign", str(tmp_path / "c.toml"), "--dir", str(broken), "--read"]
    code, said = told(capsys, *words, "--base", "fp8", "--leg", "bad", "--margin", "3")
    assert code == exits.UNPROVEN
    assert "leg bad is known to be bad: it stands for no claim" in said
    assert "by the figures alone, reproduced" in said


# lengths of prompts


@pytest.mark.parametrize(
    ("tokens", "options", "sentence"),
    [
        (100, ["--index-topk", "0"],
         "its index_topk is 0, the claim's is 2048: prompts of 100 to 100 tokens against 2634 to 4295"),
        (100, ["--index-topk", "50"], "its index_topk is 50, the claim's is 2048: prompts of 100 to 100"),
        (3000, ["--index-topk", "0"], "its index_topk is 0, the claim's is 2048: prompts of 3000 to 3000"),
        (100, [], "1319 of 1319 prompts select no keys: prompts of 100 to 100 tokens against 2634 to 4295"
         " tokens of base-fp4-20, at index_topk 2048"),
        (9000, [], "the two ranges have nothing in common: prompts of 9000 to 9000 tokens against 2634 to"),
        (2500, [], "the two ranges have nothing in common"),
        (None, [], "1319 of 1319 prompts have no token count: prompts of ? to ? tokens against 2634 to 4295"),
    ],
)  # fmt: skip
def test_other_prompts_reproduce_nothing(
    tokens: int | None, options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very counts that were reported, of prompts that were not: cannot tell, with both ranges."""
    sample(tmp_path, "fp4", 1, range(44), prompt_tokens=tokens)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path, "--margin", "2", *options)
    assert code == exits.UNPROVEN
    assert f"not asked what was claimed: {sentence}" in said
    assert "by the figures alone, reproduced" in said


def test_prompts_of_one_leg_of_two_are_enough_to_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A difference is a claim about both; of the base leg only its shots are told, which are as long."""
    for short in ("fp8", "fp4"):
        for leg in ("fp8", "fp4"):
            sample(tmp_path / short, leg, 1, range(44), prompt_tokens=100 if leg == short else 3000)
        code, said = told(
            capsys, "fp4-against-fp8-20", "--dir", tmp_path / short, "--margin", "3", "--index-topk", "0"
        )
        assert code == exits.UNPROVEN
        assert f"leg {short} is not asked what was claimed" in said
    assert "against those of base-fp8-20 of 20 shots, above index_topk 2048" in said


FIGURES = {"index_topk": 2048, "prompts": 9, "counted": 9, "short": 0, "min": 2500, "max": 4000}
APART = "the two ranges have nothing in common"
MIXED = {"min": 1000, "max": 3000}


@pytest.mark.parametrize(
    ("tokens", "shots", "figures", "why"),
    [
        ({"min": 2049}, None, {}, ""),
        ({"min": 2048}, None, {"min": 900, "short": 1}, ""),
        ({"min": 2049}, None, {"min": 2048, "short": 1}, "1 of 9 prompts select no keys"),
        ({}, 20, {"min": 2048, "short": 1}, "1 of 9 prompts select no keys"),
        ({}, 20, {"counted": 8}, "1 of 9 prompts have no token count"),
        ({}, 5, {}, "some prompts select keys"),
        ({}, 5, {"min": 700, "max": 2048, "short": 9}, ""),
        ({}, 5, {"min": 700, "max": 2049, "short": 8}, "some prompts select keys"),
        ({}, 5, {"min": 700, "max": 900, "index_topk": 0}, ""),
        ({}, 5, {"min": 700, "max": 900, "index_topk": 800}, "some prompts select keys"),
        ({}, 5, {"min": None, "max": None, "counted": 0}, ""),
        ({"max": 2048}, 20, {"min": 700, "max": 900, "short": 9}, ""),
        ({"max": 2048}, 20, {"min": None, "max": None, "counted": 0}, "9 of 9 prompts have no token count"),
        ({"min": 100, "max": 600}, 5, {"min": 601, "max": 900, "short": 9}, APART),
        ({"min": 950, "max": 980}, 5, {"min": 601, "max": 900, "short": 9}, APART),
        (MIXED, 20, {}, ""),
        (MIXED, 20, {"min": 1500, "max": 2048, "short": 9}, "no prompt selects keys"),
        (MIXED, 20, {"index_topk": 0}, "its index_topk is 0, the claim's is 2048"),
        (MIXED, 20, {"counted": 8}, "1 of 9 prompts have no token count"),
        ({}, None, {"min": 5, "max": 9, "short": 9}, ""),
        ({}, 12, {"min": 5, "max": 9, "short": 9}, ""),
    ],
)  # fmt: skip
def test_prompts_are_of_the_claims_regime(
    tokens: dict[str, int], shots: int | None, figures: dict[str, Any], why: str
) -> None:
    """All of them above index_topk, none, or some, as far as the report tells; else nothing is asked."""
    one = claim(prompt_tokens=tokens, shots=shots)
    said = regime.apart({**FIGURES, **figures}, one, Report({}, (), 2048))
    assert said.partition(":")[0] == why
    assert not why or "tokens against" in said


def test_shots_tell_lengths_of_gsm8k_alone() -> None:
    """20 shots lie above 2048 tokens, 5 below; in between, of another task and another k nobody knows."""
    told_by = {shots: regime.selects(claim(shots=shots), Report({}, (), 2048)) for shots in (5, 6, 19, 20)}
    assert told_by == {5: False, 6: None, 19: None, 20: True}
    for other in (Report({}, (), 4096), Report({}, (), 2048, task="mmlu")):
        assert regime.selects(claim(shots=20), other) is None


def test_a_report_that_tells_no_length_is_taken_on_its_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is told."""
    file = tmp_path / "reported.toml"
    file.write_text(
        '[[leg]]\nid = "one"\nn = 1319\nflexible = "0.9666"\nstanding = "stands"\nsource = "s"\n',
        encoding="utf-8",
    )
    sample(tmp_path / "legs", "fp4", 1, range(44))
    code, said = told(capsys, "one", "--dir", tmp_path / "legs", "--reported", file, "--margin", "2")
    assert code == exits.AGREE, said
    assert "one does not tell how long its prompts were: they are taken to be as long" in said


# questions, filters, cut replies


def test_more_questions_than_were_claimed_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1320 are not 1319, as 4 are not."""
    where = sample(tmp_path, "fp4", 1, range(44))
    where.update(expected=N + 1)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path)
    assert code == exits.USAGE
    assert f"leg fp4 sample 1 has {N + 1} questions, and base-fp4-20 has {N}" in said


def test_two_filters_share_the_level() -> None:
    """A difference with a p between 2.5 % and 5 % refutes a claim of one filter, and not one of two."""
    right = next(k for k in range(1275, 0, -1) if between.fisher((1275, N), (k, N)) < 0.05)
    assert between.fisher((1275, N), (right, N)) > 0.025
    table = pd.DataFrame(
        {"leg": "fp4", "sample": 1, "question": range(N)}
        | {f"{which}_correct": [float(q < right) for q in range(N)] for which in ("strict", "flexible")}
    )
    score = reported.Score(printed("0.9666"), 1275)
    for filters, answer in (
        (("strict",), Answer.NOT_REPRODUCED),
        (("strict", "flexible"), Answer.CANNOT_TELL),
    ):
        leg = Leg("c", N, "s", "stands", dict.fromkeys(filters, score))
        found = reproduce.of_leg(leg, Report({"c": leg}, (), 2048), table, "fp4", 0.001)
        assert [one.answer for one in found] == [answer] * len(filters)


def test_a_gain_is_carried_by_cut_replies_of_one_leg_alone() -> None:
    """Cut replies only lower a leg; in a difference the base leg's lower the other side."""
    gain = reproduce.of_counts([1235], N, measured((1275, N)), 0.01)
    loss = reproduce.of_counts([1275], N, measured((1235, N)), 0.01)
    word, cut = Answer.NOT_REPRODUCED, Standing(cut=True)
    assert (gain.answer, loss.answer) == (word, word)
    assert resting.answered(word, [gain], [cut])[0] is word
    assert resting.answered(word, [gain], [cut, Standing()])[0] is Answer.CANNOT_TELL
    assert resting.answered(word, [loss], [cut])[0] is Answer.CANNOT_TELL
    assert resting.answered(word, [loss], [Standing()])[0] is word
    assert resting.answered(word, [gain], [Standing("refused")])[0] is Answer.CANNOT_TELL


def test_a_leg_of_which_one_sample_was_driven_is_no_past_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driven one should have told how its replies ended, so nothing is answered from the leg."""
    imported(tmp_path, "fp4", 44)
    sample(tmp_path, "fp4", 2, range(44), finish_reason=None, completion_tokens=None)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path, "--margin", "2")
    assert code == exits.UNPROVEN
    assert "by the figures alone, reproduced" in said
    assert "leg fp4 is not certified" in said


# margins


def examples() -> list[list[str]]:
    """The words of each example of ``legs reproduce --help``."""
    lines = [line.split()[2:] for line in legs_reproduce.EPILOG.splitlines() if line.startswith("  harness")]
    return [words[1:] for words in lines if words[0] == "reproduce"]


@pytest.mark.parametrize("words", examples(), ids=lambda words: words[0])
def test_the_examples_can_come_to_reproduced(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written, read in a folder whose legs score what was reported (init's campaign names those legs)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/legs").mkdir(parents=True)
    assert cli.main(["legs", "init", "--atom", "campaign.toml"]) == exits.AGREE
    given = dict(zip(words[1::2], words[2::2], strict=True))
    folder = tmp_path / given.get("--dir", "results/legs/atom-fp4")
    wanted = REPORTED.claims.get(words[0])
    pairs = (
        [(given.get("--leg", "fp8"), REPORTED.legs[words[0]])]
        if wanted is None
        else [(given["--leg"], REPORTED.legs[wanted.leg]), (given["--base"], REPORTED.legs[wanted.base])]
    )
    for name, leg in pairs:
        counts = [leg.scores[which].k for which in ("strict", "flexible")]
        one = sample(folder, name, 1, [])
        right = [q < (k or 0) for q in range(N) for k in counts]
        rows = [
            legs_folders.record(q, strict_correct=right[2 * q], flexible_correct=right[2 * q + 1])
            for q in range(N)
        ]
        one.samples.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        one.update(identity={**one.manifest()["identity"], "indexer": leg.indexer, "fewshot_seed": 1234})
    left = [word for word in words if word != "/models/glm"]
    left = [word for word in left if word != "--tokenizer"]
    code, said = told(capsys, *left, *(["--read"] if "--campaign" in words else []))
    margin_is_enough = "can be refuted and not reproduced" not in said
    assert margin_is_enough, said
    if wanted is None:
        assert code == exits.AGREE, said


def test_a_margin_that_cannot_be_met_is_told_before_anything_is_measured() -> None:
    """1.41 points for 1277 of 1319, 1.45 for 1275; just above it some number of answers would do."""
    assert [round(100 * reproduce.least_margin(k, N), 2) for k in (1277, 1275)] == [1.41, 1.45]
    said = reproduce.beforehand(FP4, REPORTED, 0.01)
    assert said == (
        "within 1.00 points base-fp4-20 can be refuted and not reproduced, whatever is measured: its 1319 "
        "answers need a margin above 1.45 points"
    )
    assert reproduce.beforehand(FP4, REPORTED, 0.0146) == ""
    assert "no number of answers" in reproduce.needed(1275, N, 0.0144)
    assert "independent answers would show" in reproduce.needed(1275, N, 0.0146)
    assert reproduce.beforehand(claim(), Report({}, (), 2048), 0.01) == ""
