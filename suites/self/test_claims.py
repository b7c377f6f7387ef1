"""The audit of reported figures: what cannot be is found, what can be is left alone."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs.claims import audit, figures, reported, sources
from harness.legs.claims.arithmetic import counts, error_fits, printed, sigmas, standard_errors
from harness.legs.claims.audit import FAILS, HOLDS, UNCLEAR

LEG = """
[[leg]]
id = "one"
n = 100
flexible = "0.97"
standing = "stands"
source = "a table"
"""
FIGURE = (
    '\n[[figure]]\nid = "f"\nrule = "{}"\nis = "1"\nsays = "x"\nsource = "y"\nstanding = "stands"\n'
    "from = {{ {} }}\n"
)


def remarks(text: str, tmp_path: Path) -> list[audit.Remark]:
    file = tmp_path / "reported.toml"
    file.write_text(text, encoding="utf-8")
    return audit.report(reported.load(file))


def verdicts(found: list[audit.Remark], check: str) -> list[str]:
    return [remark.verdict for remark in found if remark.check == check]


@pytest.mark.parametrize("n", [1, 7, 100, 1319, 1323])
def test_counts_are_those_that_print_as_the_figure(n: int) -> None:
    """Against the definition: every k whose quotient lies within half a unit of the last digit."""
    for text in ("0.5", "0.97", "0.9666", "1.00", "0.0", "96.7%"):
        figure = printed(text)
        wanted = [k for k in range(n + 1) if abs(Fraction(k, n) - figure.value) <= figure.half]
        assert list(counts(figure, n)) == wanted


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("0.9666", 1275), ("0.9674", 1276), ("0.9682", 1277), ("0.9689", 1278), ("0.9651", 1273),
        ("0.9659", 1274), ("0.9704", 1280), ("0.9636", 1271), ("0.9644", 1272),
    ],
)  # fmt: skip
def test_the_reported_proportions_are_one_count_of_1319_and_none_of_1323(text: str, k: int) -> None:
    """Spec reported.md, "An audit that any reader can repeat"."""
    assert list(counts(printed(text), 1319)) == [k]
    assert not counts(printed(text), 1323)


def test_digits_say_how_far_a_figure_was_rounded() -> None:
    """0.97 leaves more counts than 0.9700, and a percent sign moves the point."""
    assert len(counts(printed("0.97"), 1319)) > len(counts(printed("0.9700"), 1319)) == 0
    assert list(counts(printed("97.04 %"), 1319)) == list(counts(printed("0.9704"), 1319))
    for text in ("", "0,97", "1e-3", "nan", "٠.٥"):
        with pytest.raises(ValueError, match="no decimal number"):
            printed(text)


def test_standard_errors_are_those_of_the_definition() -> None:
    """The standard deviation of the 0/1 answers over the root of n, in both conventions."""
    answers = [1] * 1277 + [0] * 42
    mean = sum(answers) / 1319
    spread = sum((answer - mean) ** 2 for answer in answers)
    assert standard_errors(1277, 1319) == pytest.approx(
        (math.sqrt(spread / 1319 / 1319), math.sqrt(spread / 1318 / 1319)), rel=1e-12
    )
    assert error_fits(printed("0.0048"), 1277, 1319)
    assert not error_fits(printed("0.0060"), 1277, 1319)
    assert 0.0046 < standard_errors(1280, 1319)[1] < 0.0047  # cut off instead of rounded: one unit is granted
    assert error_fits(printed("0.0046"), 1280, 1319)
    assert not error_fits(printed("0.0045"), 1280, 1319)
    assert math.isnan(standard_errors(1, 1)[1])
    assert sigmas((1278, 1319), (1272, 1319)) == pytest.approx(0.6506, abs=5e-5)
    assert math.isnan(sigmas((5, 5), (5, 5)))


def test_what_is_wrong_in_the_reported_figures_is_found() -> None:
    """The prompt counts of both DCP legs, the block gain (3.2 %, not 3.3), and nothing else.

    Every entry has a remark, so none is taken as checked that was not.
    """
    found = audit.report(reported.load())
    wrong = {(remark.claim, remark.check) for remark in found if remark.verdict == FAILS}
    assert wrong == {("dcp-fp4-1", "prompts"), ("dcp-fp8", "prompts"), ("block-gain", "gain-percent")}
    short = {remark.claim for remark in found if remark.check == "exercised" and remark.verdict == UNCLEAR}
    assert short == {"base-fp4-5", "base-fp8-5"}
    told, whole = {remark.claim for remark in found}, reported.load()
    assert told == {*whole.legs, *whole.claims, *whole.measured, *(figure.id for figure in whole.figures)}


def test_sizes_of_pages_follow_from_the_layout() -> None:
    """4352 and 9216 bytes at 64 rows, and 102,144 over 21 layers (spec indexer.md 3)."""
    assert (figures.fp4_page(64, 128), figures.fp8_page(64, 128)) == (4352, 9216)
    assert figures.saved_bytes({"layers": 21, "rows": 64, "dim": 128}, {}) == 102144


def test_a_wrong_count_a_wrong_error_and_a_wrong_spread_are_told(tmp_path: Path) -> None:
    """Each false digit fails the check that is about it."""
    assert verdicts(remarks(LEG, tmp_path), "grim") == [HOLDS]
    assert verdicts(remarks(LEG.replace('"0.97"', '"0.975"'), tmp_path), "grim") == [FAILS]
    assert verdicts(remarks(LEG + "k_flexible = 96\n", tmp_path), "count") == [FAILS]
    assert verdicts(remarks(LEG + 'flexible_error = "0.017"\n', tmp_path), "error") == [HOLDS]
    assert verdicts(remarks(LEG + 'flexible_error = "0.015"\n', tmp_path), "error") == [FAILS]
    second = LEG.replace('"one"', '"two"').replace(
        'flexible = "0.97"', 'base = "one"\nplus_flexible = "1.00"'
    )
    assert verdicts(remarks(LEG + second, tmp_path), "spread") == [HOLDS]
    between = second.replace('"1.00"', '"0.50"')
    assert verdicts(remarks(LEG.replace("0.97", "0.9700") + between, tmp_path), "spread") == [FAILS]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("n = 100", "n = 0"), "leg one has n 0, allowed are 1 to 1000000"),
        (('"stands"', '"maybe"'), "leg one has standing 'maybe', allowed are stands, withdrawn, superseded"),
        (('"stands"', '"withdrawn"'), "leg one is withdrawn and lacks field why"),
        (('"0.97"', '"much"'), "one has flexible that is wrong: 'much' is no decimal number"),
        (("n = 100", "n = 100\nm = 2"), "leg 1 has an unknown field m"),
        (("n = 100", 'n = "100"'), "leg 1 has n '100', allowed is int"),
        (('source = "a table"', ""), "leg 1 lacks field source"),
        (("[[leg]]", "[leg]"), "is no table"),
        (("[[leg]]", "[[leg"), "is no TOML"),
        (('"stands"', '"stands"\nbase = "none"'), "leg one has base 'none', allowed are one"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    change: tuple[str, str], sentence: str, tmp_path: Path
) -> None:
    """The entry and the field are named."""
    with pytest.raises(InputError) as told:
        remarks(LEG.replace(*change), tmp_path)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value).removesuffix("\n") or "TOML" in sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('prompt_tokens = { min = "a" }', "leg one has prompt_tokens.min 'a', allowed are whole numbers of"),
        ("prompt_tokens = { min = -1 }", "leg one has prompt_tokens.min -1, allowed are whole numbers of"),
        ("prompt_tokens = { mean = 9 }", "leg one has prompt_tokens.mean 9, allowed are whole numbers of 0 or"
         " more as min, p50 and max"),
        ("prompt_tokens = { max = 8, min = 9 }",
         "leg one has prompt_tokens [9, 8], allowed are min <= p50 <= max"),
        ("k_strict = 9", "leg one has k_strict and lacks field strict, which it is about"),
        ('strict_error = "0.01"', "leg one has strict_error and lacks field strict, which it is about"),
        ("prompts = 0", "leg one has prompts 0, allowed are 1 to 1000000"),
        ("shots = -1", "leg one has shots -1, allowed are 0 to 1000000"),
        ("k_flexible = 100\n" + FIGURE.format("sigmas", 'first = "one", second = "one", filter = "flexible"'),
         "figure needs an error of 100/100 and 100/100, which have none"),
        ("k_flexible = 101\n" + FIGURE.format("points", 'first = "one", second = "one", filter = "flexible"'),
         "figure needs the flexible count of leg one, which is 101/100"),
        (FIGURE.format("gain-percent", "more = 1, fewer = 0"), "figure f has from.fewer 0, allowed are 1 to"),
        (FIGURE.format("units", 'next_n = "a", max_bs = 1'), "figure f has from.next_n 'a', allowed are"),
        (FIGURE.format("units", "next_n = 0, max_bs = 1"), "figure f has from.next_n 0, allowed are 1 to"),
        (FIGURE.format("distinct", "prompts = inf, runs = 1, hashes = 1"), "figure f has from.prompts inf"),
        (FIGURE.format("byte-ratio", "rows = 64, dim = true"), "figure f has from.dim True, allowed are"),
        (FIGURE.format("points", 'first = 1, second = "one", filter = "flexible"'),
         "figure f has from.first 1, allowed is a name"),
        ("x = " + "[" * 9999, "reported.toml is no TOML: it is nested too deeply"),
    ],
)  # fmt: skip
def test_numbers_that_no_rule_can_take_are_one_sentence(
    more: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the entry and the field are named."""
    file = tmp_path / "reported.toml"
    file.write_text(LEG + more, encoding="utf-8")
    assert cli.main(["claims", "audit", "--reported", str(file)]) == exits.USAGE
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_figures_need_a_rule_and_its_numbers(tmp_path: Path) -> None:
    """A rule nobody knows and numbers that are not its own are told."""
    figure = '[[figure]]\nid = "f"\nrule = "units"\nis = "1"\nsays = "x"\nsource = "y"\n'
    figure += 'standing = "stands"\n'
    with pytest.raises(InputError, match="has from with next_n, allowed are next_n, max_bs"):
        remarks(figure + "from = { next_n = 3 }", tmp_path)
    with pytest.raises(InputError, match="has rule 'magic', allowed are saved-bytes"):
        remarks(figure.replace("units", "magic") + "from = { next_n = 3 }", tmp_path)


RESULTS = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.9681576952236542,
            "exact_match_stderr,strict-match": 0.004836348558260928,
            "exact_match,flexible-extract": 0.9704,
            "exact_match_stderr,flexible-extract": "N/A",
        }
    },
    "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}},
}


def test_results_of_lm_eval_are_audited_at_full_precision(tmp_path: Path) -> None:
    """1277/1319 at ten digits holds; a figure somebody typed in does not."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results_2026.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    (strict, flexible), unread = sources.read(tmp_path)
    assert not unread
    assert (strict.which, strict.n) == ("strict-match", 1319)
    assert list(counts(strict.score.figure, 1319)) == [1277]
    assert [one.verdict for one in audit.proportion("x", strict.which, strict.score, 1319)] == [HOLDS, HOLDS]
    assert [one.verdict for one in audit.proportion("x", flexible.which, flexible.score, 1319)] == [FAILS]


def test_the_n_that_is_given_is_that_of_results_that_tell_none(tmp_path: Path) -> None:
    """Only then: what the file says of its samples comes first."""
    file = tmp_path / "results_1.json"
    for told, n in ((RESULTS["n-samples"], 1319), ({}, 50), ({"gsm8k": {"effective": None}}, 50)):
        file.write_text(json.dumps({**RESULTS, "n-samples": told}), encoding="utf-8")
        assert {one.n for one in sources.read(file, 50)[0]} == {n}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent.md"], "does not exist; give lm-eval results or a Markdown file"),
        (["file.csv"], "is of no known kind"),
        (["empty.md"], "holds no proportion"),
        (["table.md"], "holds no proportion that can be read: table.md:3: 0.97 in column 'margin', not read"),
        (["broken.json"], "is no lm-eval results file"),
        (["folder"], "holds no results*.json with gsm8k scores"),
        (["--n", "0"], "--n is 0, allowed are 1 to 1000000"),
        (["--reported", "absent.toml"], "absent.toml cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2 and one line."""
    monkeypatch.chdir(tmp_path)
    table = "| margin |\n|---|\n| 0.97 |"
    for name, text in (
        ("file.csv", "1"), ("empty.md", "nothing"), ("table.md", table), ("broken.json", "[1]"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    assert cli.main(["claims", "audit", *arguments]) == exits.USAGE
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"effective": 1319', '"effective": 0', "n-samples 0 for gsm8k, allowed are 1 to 1000000"),
        ('"effective": 1319', '"effective": 2000000', "n-samples 2000000"),
        ("0.9704", "NaN", "that is no finite number"),
        ("0.004836348558260928", "Infinity", "that is no finite number"),
    ],
)
def test_figures_that_are_none_are_refused(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    """A results file is somebody else's: its numbers are checked like an option's."""
    file = tmp_path / "results_1.json"
    file.write_text(json.dumps(RESULTS).replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        sources.read(file)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("r.json", '{"results": {"gsm8k": 5}}', "has results of gsm8k that is no table"),
        ("r.json", '{"results": {"gsm8k": {}}, "n-samples": {"gsm8k": 5}}',
         "has n-samples of gsm8k that is no table"),
        ("r.json", '{"results": {"g": {"exact_match,a": 1' + "0" * 400 + "}}}",
         "whole score of g that is not 0 or 1"),
        ("r.json", "[" * 100000, "is no lm-eval results file"),
        ("r.json", '{"results": {"\\ud800": {"exact_match,a": 1}}}', "has half of a surrogate pair"),
        ("r.json", '{"results": {"g": {"exact_match,\\ud800": 1}}}', "has half of a surrogate pair"),
        ("r.json", '{"results": {"g": {"exact_match,a": 1}}, "n-samples": {"g": {"effective": "9"}}}',
         "has n-samples '9' for g, allowed are 1 to 1000000"),
    ],
)  # fmt: skip
def test_odd_files_are_refused_in_one_sentence(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    """What others wrote can be anything; none of it is a traceback."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as told:
        sources.read(tmp_path / name)
    assert sentence in str(told.value)


def test_a_whole_score_of_lm_eval_is_a_figure(tmp_path: Path) -> None:
    """So is its error."""
    file = tmp_path / "results_1.json"
    scores = {"exact_match,strict-match": 1, "exact_match_stderr,strict-match": 0}
    file.write_text(json.dumps({"results": {"gsm8k": scores}}), encoding="utf-8")
    (one,), _ = sources.read(file)
    assert one.score.figure.value == 1
    assert one.score.error == printed("0.0000000000")


def test_a_prompt_as_long_as_index_topk_selects_nothing(tmp_path: Path) -> None:
    """Longer is what exercises the indexer."""
    for tokens, verdict in ((2048, FAILS), (2049, HOLDS)):
        found = remarks(LEG + f"prompt_tokens = {{ min = {tokens} }}\n", tmp_path)
        assert verdicts(found, "exercised") == [verdict]
    found = remarks(LEG + "prompt_tokens = { max = 2048 }\n", tmp_path)
    assert [one.text for one in found if one.check == "exercised"] == [
        "prompts stay within 2048 tokens: does not exercise the sparse indexer"
    ]
