"""A reported figure measured again: each answer with its numbers, and how often an answer is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness import cli, exits
from harness.exits import InputError
from harness.legs import journal
from harness.legs.claims import compared, reported, reproduce
from harness.legs.claims.arithmetic import printed
from harness.legs.claims.reproduce import Answer
from harness.legs.pool import bounded, power
from harness.legs.pool.answers import Alone, Interval
from suites.self import legs_folders, legs_world

N = 1319
NAN = math.nan
UNDEFINED = Interval(NAN, NAN, "undefined")


def measured(*counts: tuple[int, int]) -> Alone:
    rates = [k / n for k, n in counts]
    band = max(rates) - min(rates) if len(counts) > 1 else NAN
    return Alone(
        "a",
        "strict",
        counts,
        sum(k for k, _ in counts) / sum(n for _, n in counts),
        NAN,
        UNDEFINED,
        NAN,
        band,
        NAN,
    )


def sample(directory: Path, leg: str, number: int, wrong: Sequence[int], **changes: Any) -> journal.Place:
    """A sample of 1319 questions, ``wrong`` of them wrong under both filters."""
    where = journal.place(directory, leg, number)
    where.folder.mkdir(parents=True)
    bad = set(wrong)
    rows = [
        legs_folders.record(q, strict_correct=q not in bad, flexible_correct=q not in bad, **changes)
        for q in range(N)
    ]
    where.samples.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    identity = {**legs_folders.IDENTITY, "task": "gsm8k", "indexer": leg}
    where.update(status="finished", identity=identity, expected=N, started="2026-01-01")
    return where


def told(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    code = cli.main(["legs", "reproduce", *map(str, words)])
    found = capsys.readouterr()
    return code, " ".join((found.out + found.err).split())


def test_the_reported_count_again_is_reproduced_only_within_what_it_can_carry() -> None:
    """1275 of 1319 twice: within 2 points yes; within 1 point two samples of 1319 cannot say so."""
    wide = reproduce.of_counts([1275], N, measured((1275, N)), 0.02)
    assert wide.answer is Answer.REPRODUCED
    assert wide.difference == 0
    narrow = reproduce.of_counts([1275], N, measured((1275, N)), 0.01)
    assert narrow.answer is Answer.CANNOT_TELL
    assert narrow.detectable == power.of_counts((1275, N), N)
    assert f"losses below {100 * narrow.detectable:.2f} points are not seen" in narrow.said
    assert "no number of answers shows equivalence within 1.00 points of 1319 reported ones" in narrow.said


@pytest.mark.parametrize(("k", "n", "margin"), [(1275, N, 0.02), (1277, N, 0.016), (970, 1000, 0.02)])
def test_the_answers_needed_give_the_power(k: int, n: int, margin: float) -> None:
    """By the definition: margin = (z(0.95) + z(0.9)) standard errors; for a fixed reported sample."""
    more = int(reproduce.needed(k, n, margin).split()[0])
    variance = k / n * (1 - k / n)
    z = stats.norm.ppf(0.95) + stats.norm.ppf(0.9)
    assert z * math.sqrt(variance * (1 / n + 1 / more)) <= margin * (1 + 1e-6)
    assert z * math.sqrt(variance * (1 / n + 1 / (more - 1))) > margin * (1 - 1e-6)


def test_the_least_margin_is_that_of_the_reported_sample_alone() -> None:
    """z standard errors of 1275/1319; a margin just above it needs some finite number."""
    rate = 1275 / N
    z = stats.norm.ppf(0.95) + stats.norm.ppf(0.9)
    least = z * math.sqrt(rate * (1 - rate) / N)
    assert f"above {100 * least:.2f} points" in reproduce.needed(1275, N, least * 0.99)
    assert "independent answers" in reproduce.needed(1275, N, least * 1.01)
    assert "undefined" in reproduce.needed(N, N, 0.01)


def test_a_resolved_loss_is_not_reproduced_unless_runs_differ_as_much() -> None:
    """1235 of 1319 against 1275: 3 points below; two samples 4 points apart are a wider spread."""
    lost = reproduce.of_counts([1275], N, measured((1235, N)), 0.01)
    assert lost.answer is Answer.NOT_REPRODUCED
    assert lost.difference == pytest.approx(-40 / N)
    assert lost.p == pytest.approx(stats.fisher_exact(np.array([[1235, 84], [1275, 44]]))[1])
    assert "measured once" in lost.said
    spread = reproduce.of_counts([1275], N, measured((1209, N), (1261, N)), 0.01)
    assert spread.answer is Answer.CANNOT_TELL
    assert "inside the run-to-run spread of 3.94 points" in spread.said


def test_a_figure_that_leaves_several_counts_is_held_against_all() -> None:
    """0.97 of 1319 is 1273 to 1286; what fits only one end is no answer. One that cannot be has none."""
    counts = list(range(1273, 1287))
    assert reproduce.of_counts(counts, N, measured((1279, N)), 0.03).answer is Answer.REPRODUCED
    ends = reproduce.of_counts(counts, N, measured((1256, N)), 0.02)
    assert ends.answer is Answer.CANNOT_TELL
    assert "leaves 1273 to 1286 of 1319" in ends.said
    nothing = reproduce.of_counts([], N, measured((1275, N)), 0.02)
    assert (nothing.answer, math.isnan(nothing.p)) == (Answer.CANNOT_TELL, True)


def test_all_filters_must_agree_to_reproduce() -> None:
    """One filter that differs refutes, one that cannot tell leaves it open."""
    yes = reproduce.of_counts([1275], N, measured((1275, N)), 0.02)
    no = reproduce.of_counts([1275], N, measured((1235, N)), 0.01)
    open_ = reproduce.of_counts([1275], N, measured((1275, N)), 0.01)
    assert reproduce.overall([yes, yes]) is Answer.REPRODUCED
    assert reproduce.overall([yes, no]) is Answer.NOT_REPRODUCED
    assert reproduce.overall([yes, open_]) is Answer.CANNOT_TELL
    assert reproduce.overall([]) is Answer.CANNOT_TELL


Answers = dict[tuple[int, int], Answer]


def answers_of(n: int, margin: float, level: float) -> Answers:
    """The answer to every pair of counts (reported, measured) of ``n``."""
    return {
        (k, j): reproduce.of_counts([k], n, measured((j, n)), margin, level).answer
        for k in range(n + 1)
        for j in range(n + 1)
    }


def probability(word: Answer, found: Answers, n: int, reported_rate: float, measured_rate: float) -> float:
    """Exact probability of ``word`` where both counts are binomial."""
    places = np.arange(n + 1)
    one, two = (stats.binom.pmf(places, n, rate) for rate in (reported_rate, measured_rate))
    return float(sum(one[k] * two[j] for (k, j), answer in found.items() if answer is word))


FEW = 22
RATES = np.linspace(0.0, 1.0, 41)


@pytest.fixture(scope="module")
def small() -> Answers:
    """All pairs of `FEW` questions, within 25 points, at the level that two filters share."""
    return answers_of(FEW, 0.25, 0.025)


def test_a_true_claim_is_refuted_at_most_at_the_level(small: Answers) -> None:
    """Exactly, at every rate behind both counts: half of 5 % under a filter, and 5 % under two of them."""
    worst = max(probability(Answer.NOT_REPRODUCED, small, FEW, rate, rate) for rate in RATES)
    assert 0.001 < worst <= 0.025
    assert 1 - (1 - worst) ** 2 <= 0.05


def test_a_claim_off_by_the_margin_is_reproduced_at_most_at_the_level(small: Answers) -> None:
    """Exactly, at every pair of rates that far apart; of no difference, a share that is worth having."""
    pairs = [(low, low + 0.25) for low in RATES if low <= 0.75]
    worst = max(
        probability(Answer.REPRODUCED, small, FEW, *rates)
        for pair in pairs
        for rates in (pair, pair[::-1])
    )  # fmt: skip
    assert 0.001 < worst <= 0.05
    assert probability(Answer.REPRODUCED, small, FEW, 0.97, 0.97) > 0.5


def difference(
    claimed_rates: tuple[float, float],
    measured_wrong: tuple[Sequence[int], Sequence[int]],
    margin: float,
    tmp_path: Path,
) -> Any:
    """The finding of a difference claim over 1319 questions."""
    counts = [round(rate * N) for rate in claimed_rates]
    legs = {
        name: reported.Leg(name, N, "s", "stands", {"strict": reproduce_score(k)})
        for name, k in zip(("one", "two"), counts, strict=True)
    }
    claim = reported.Claim("c", "difference", "two", "one", "says", "s")
    for leg, wrong in zip(("fp8", "fp4"), measured_wrong, strict=True):
        sample(tmp_path, leg, 1, wrong)
    report = reported.Report(legs, (), 2048, {"c": claim})
    return compared.of_claim(claim, report, journal.table(tmp_path), ("fp8", "fp4"), margin)[0]


def reproduce_score(k: int) -> reported.Score:
    return reported.Score(printed(f"{k / N:.4f}"), k)


def test_a_claimed_difference_is_held_against_the_paired_one(tmp_path: Path) -> None:
    """-6/1319 claimed, -6/1319 measured by question: within 1 point, as the exact tests around it say."""
    found = difference((1278 / N, 1272 / N), (range(41), range(47)), 0.01, tmp_path)
    assert found.answer is Answer.REPRODUCED
    assert found.difference == pytest.approx(0, abs=1e-12)
    change = np.zeros(N)
    change[41:47] = -1
    above = stats.binom.cdf(6, N, 6 / N + 0.01)  # that no more than 6 are lost though a point more should be
    below = bounded.at_least(change, 1, 0.01 - 6 / N)
    assert above > below
    assert found.equivalence == pytest.approx(above, rel=1e-6)


def test_a_claimed_difference_far_from_the_measured_one_is_not_reproduced(tmp_path: Path) -> None:
    """+4 points measured where -0.45 is claimed; p counts the claim's own error of 0.70 points."""
    found = difference((1278 / N, 1272 / N), (range(94), range(41)), 0.01, tmp_path)
    assert found.answer is Answer.NOT_REPRODUCED
    own = math.hypot(*(math.sqrt(k / N * (1 - k / N) / N) for k in (1278, 1272)))
    change = np.zeros(N)
    change[41:94] = 1
    total = math.hypot(own, change.std(ddof=1) / math.sqrt(N))
    assert found.p == pytest.approx(2 * stats.norm.sf((53 + 6) / N / total), rel=1e-9)


def test_a_claimed_difference_within_its_own_error_is_not_refuted(tmp_path: Path) -> None:
    """Measured interval excludes the claim, the claim's own error does not: cannot tell."""
    found = difference((1278 / N, 1272 / N), (range(41), range(40)), 0.001, tmp_path)
    assert found.interval.low > -6 / N
    assert found.answer is Answer.CANNOT_TELL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FP8 and FP4, two samples each, as reported for 20 shots; five questions flip between samples."""
    place = tmp_path_factory.mktemp("legs")
    for leg, wrong in (("fp8", 42), ("fp4", 44)):
        sample(place, leg, 1, range(wrong))
        sample(place, leg, 2, [*range(5, wrong), *range(1000, 1005)])
    return place


def test_a_leg_on_disk_is_answered(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reproduced within 2 points, open within 1, refuted for another figure; codes and JSON say so."""
    file = tmp_path / "answer.json"
    code, said = told(capsys, "base-fp4-20", "--dir", folder, "--margin", "2", "--json", file)
    assert code == exits.AGREE, said
    assert "1275/1319" in said
    assert "taken on your word" in said
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["answer"], found["legs"]) == ("reproduced", ["fp4"])
    assert [one["claimed"] for one in found["findings"]] == ["1275/1319", "1276/1319"]
    assert told(capsys, "base-fp4-20", "--dir", folder)[0] == exits.UNPROVEN


def test_what_the_report_itself_says_is_carried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A withdrawn leg with its reason, a partial one by what its spread leaves, prompts that cannot be."""
    said = told(capsys, "dcp-fp4-withdrawn", "--dir", folder, "--margin", "2")[1]
    assert "withdrawn: measured with scale rows staged flat" in said
    assert "1280/1319" in said
    assert "cannot come from the 1323 prompts" in told(capsys, "dcp-fp8", "--dir", folder)[1]
    assert "partial: only the spread to sample 1" in told(capsys, "dcp-fp4-2", "--dir", folder)[1]


def test_claims_about_two_legs_and_two_samples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10 flips of 1319: half a point apart is within chance, and half a point is not seen."""
    code, said = told(capsys, "fp4-against-fp8-20", "--dir", folder)
    assert code == exits.AGREE, said
    assert "claimed -0.15" in said
    code, said = told(capsys, "dcp-fp4-spread", "--dir", folder)
    reach = 196 * math.sqrt(10 / N / N) / 100 * 0.999982
    assert f"within {100 * reach:.2f} points" in said
    assert code == exits.UNPROVEN
    code, said = told(capsys, "half-a-point", "--dir", folder)
    assert code == exits.AGREE, said  # not even where no question changes but by the loss
    assert power.of_questions(0.0, N) > 0.005
    assert "losses below" in said


def imported(directory: Path, leg: str, wrong: int, **changes: Any) -> None:
    """A past lm-eval run: nobody knows how its replies ended; prompts have a count of tokens or none."""
    where = sample(directory, leg, 1, range(wrong), finish_reason=None, completion_tokens=None, **changes)
    where.update(imported="samples_gsm8k_2026.jsonl")


def test_a_past_run_can_be_answered_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reproduced, with the limit named; a loss may be cut replies; a gain cannot be."""
    imported(tmp_path / "a", "fp4", 44)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path / "a", "--margin", "2")
    assert code == exits.AGREE, said
    assert "leg fp4 is a past lm-eval run" in said
    assert "a cut reply counts as lm-eval scored it" in said
    imported(tmp_path / "b", "fp4", 90)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path / "b")
    assert code == exits.UNPROVEN
    assert "cut replies, of which nobody knows, could be why it is not reproduced" in said
    imported(tmp_path / "c", "fp4", 8)
    assert told(capsys, "base-fp4-20", "--dir", tmp_path / "c")[0] == exits.DIFFER


def test_a_past_run_is_not_answered_from_where_the_claim_rests_on_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long prompts of which nobody counted a token; a driven leg whose server told no finish reason."""
    imported(tmp_path / "a", "fp4", 44, prompt_tokens=None)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path / "a", "--margin", "2")
    assert code == exits.UNPROVEN
    assert "1319 of 1319 prompts have no token count" in said
    sample(tmp_path / "b", "fp4", 1, range(44), finish_reason=None, completion_tokens=None)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path / "b", "--margin", "2")
    assert code == exits.UNPROVEN
    assert "how 1319 of them ended is not known" in said


def test_a_claim_of_few_shots_does_not_rest_on_long_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five shots were claimed, and five shots do not exercise the indexer: that is told as the limit."""
    where = sample(tmp_path, "fp4", 1, range(45), prompt_tokens=900)
    where.update(identity={**where.manifest()["identity"], "shots": 5})
    code, said = told(capsys, "base-fp4-5", "--dir", tmp_path, "--margin", "2")
    assert code == exits.AGREE, said
    assert "the claim is about as few shots, so about no selection of keys" in said


BARE = '[[leg]]\nid = "one"\nindexer = "fp4"\nn = 1319\nstanding = "stands"\nsource = "s"\n'


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('plus_flexible = "0.50"\n', "flexible: cannot tell: the report leaves no count of right answers"),
        ("", "the report gives one no figure, so there is nothing to hold it against"),
    ],
)
def test_a_report_without_a_count_cannot_be_told(
    more: str, sentence: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points above a leg that is not named, and no figure at all."""
    file = tmp_path / "reported.toml"
    file.write_text(BARE + more, encoding="utf-8")
    code, said = told(capsys, "one", "--dir", folder, "--reported", file)
    assert code == exits.UNPROVEN
    assert sentence in said


def test_a_campaign_that_was_not_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with a campaign and no sample: the legs are known, and none is measured."""
    legs_folders.asks(tmp_path, {"fp8": {}, "fp4": {}})
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path)
    assert code == exits.UNPROVEN
    assert "leg fp4 is not measured" in said
    assert told(capsys, "fp4-against-fp8-20", "--dir", tmp_path)[0] == exits.UNPROVEN


def test_a_leg_that_is_not_certified_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts below index_topk: the figures are shown, and the answer is cannot tell."""
    sample(tmp_path, "fp4", 1, range(44), prompt_tokens=900)
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path, "--margin", "2")
    assert code == exits.UNPROVEN
    assert "does not exercise the sparse indexer" in said
    assert "by the figures alone, reproduced" in said


CAMPAIGN = """
name = "c"
base = "fp8"
[task]
shots = 20
[legs.fp8]
base_url = "http://127.0.0.1:1"
model = "m"
[legs.fp4]
base_url = "http://127.0.0.1:1"
model = "m"
[legs.fp4-dcp4]
base_url = "http://127.0.0.1:1"
model = "m"
indexer = "fp4"
"""


@pytest.mark.parametrize(
    ("words", "change", "sentence"),
    [
        (["nothing"], ("", ""), "CLAIM is 'nothing', allowed are base-fp4-20, "),
        (["base-fp4-20"], ("", ""),
         "--leg is missing, allowed are fp4, fp4-dcp4: all could be meant by base-fp4-20"),
        (["base-fp4-20", "--leg", "x"], ("", ""), "--leg is 'x', allowed are fp8, fp4, fp4-dcp4"),
        (["base-fp8-20", "--leg", "fp4-dcp4"], ("", ""),
         "--leg is 'fp4-dcp4' with indexer fp4, and base-fp8-20 has fp8"),
        (["base-fp8-20"], ("shots = 20", "shots = 5"), "shots is 5 in campaign c, and base-fp8-20 has 20"),
        (["base-fp8-20"], ("shots = 20", 'name = "mmlu"'),
         "task is 'mmlu' in campaign c, and base-fp8-20 has 'gsm8k'"),
        (["base-fp8-20"], ("shots = 20", "limit = 100"),
         "task.limit is 100 in campaign c, and base-fp8-20 has 1319"),
        (["base-fp8-20", "--base", "fp8"], ("", ""),
         "--base is 'fp8', allowed is none: base-fp8-20 is about one leg"),
        (["fp4-against-fp8-20", "--leg", "fp4", "--base", "fp4"], ("", ""),
         "--leg and --base are both 'fp4'"),
        (["base-fp8-20", "--margin", "0"], ("", ""),
         "--margin is 0.0, allowed are points above 0 and below 100"),
        (["base-fp8-20", "--read"], ("", ""), "is no folder; give a campaign folder with --dir"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    words: list[str],
    change: tuple[str, str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2 before anything runs."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "campaign.toml"
    file.write_text(CAMPAIGN.replace(*change) if change[0] else CAMPAIGN, encoding="utf-8")
    code, said = told(capsys, *words, "--campaign", file)
    assert code == exits.USAGE
    assert sentence in said


def test_a_folder_of_other_questions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four questions are not 1319; five shots on disk are not 20; no folder and no campaign is nothing."""
    legs_folders.sample(tmp_path, "fp4", identity={**legs_folders.IDENTITY, "task": "gsm8k"})
    code, said = told(capsys, "base-fp4-20", "--dir", tmp_path)
    assert code == exits.USAGE
    assert "leg fp4 sample 1 has 4 questions, and base-fp4-20 has 1319" in said
    code, said = told(capsys, "base-fp4-5", "--dir", tmp_path)
    assert code == exits.USAGE
    assert "shots is 20 in leg fp4 sample 1, and base-fp4-5 has 5" in said
    assert told(capsys, "base-fp4-5")[0] == exits.USAGE


def test_a_campaign_is_run_and_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a server of scripted replies: six questions, all certified, one answer; again: none asked."""
    from suites.self.stub_server import Script

    leg = legs_world.process(tmp_path, "a", Script())
    data = legs_world.data(tmp_path)
    lines = [
        'name = "sums"\nbase = "fp4"\nrepeats = 1\n[task]\nshots = 2\nmax_tokens = 32\nmax_length = 512',
        f"data = {json.dumps(str(data))}\n[certify]\nindex_topk = 0\nprobe = 0",
        f'[legs.fp4]\nmodel = "stub"\nbase_url = "{leg["base_url"]}"',
        f"command = {json.dumps(leg['command'])}\n",
    ]
    (tmp_path / "c.toml").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "reported.toml").write_text(
        '[[leg]]\nid = "sums"\nindexer = "fp4"\nshots = 2\nn = 6\nflexible = "1.0000"\nk_flexible = 6\n'
        'standing = "stands"\nsource = "here"\n',
        encoding="utf-8",
    )
    words: list[str | Path] = ["sums", "--campaign", tmp_path / "c.toml", "--dir", tmp_path / "out"]
    words += ["--reported", tmp_path / "reported.toml"]
    for _ in range(2):
        code, said = told(capsys, *words)
        assert code == exits.UNPROVEN, said
        assert "flexible: cannot tell" in said
    assert len(legs_world.records(tmp_path, "fp4")) == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('"difference"', '"other"'), "claim c has kind 'other', allowed are difference, spread, detectable"),
        (('base = "two"', 'base = "x"'), "claim c has base 'x', allowed are one, two"),
        (('says = "s"', ""), "claim c lacks field says"),
        (('says = "s"', 'says = "s"\nstrict = "1.0"'), "claim c is a difference"),
        (('"difference"', '"spread"'), "claim c is a spread, allowed are points above 0"),
    ],
)
def test_a_claim_that_cannot_be_read_is_one_sentence(
    change: tuple[str, str], sentence: str, tmp_path: Path
) -> None:
    """The claim and the field are named."""
    leg = '[[leg]]\nid = "one"\nn = 9\nflexible = "1.0"\nstanding = "stands"\nsource = "s"\n'
    claim = '[[claim]]\nid = "c"\nkind = "difference"\nleg = "one"\nbase = "two"\nsays = "s"\nsource = "s"\n'
    file = tmp_path / "reported.toml"
    file.write_text(leg + leg.replace("one", "two") + claim.replace(*change), encoding="utf-8")
    with pytest.raises(InputError) as found:
        reported.load(file)
    assert sentence in str(found.value)
