"""Pooling statistics against their definitions, and by simulation: coverage, power, false positives."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.legs.pool import answers, between, bounded, melded, pooled, power, tables, words
from harness.legs.pool.answers import Interval
from harness.legs.pool.words import Word

NAN = math.nan


def table(legs: dict[str, list[list[float]]]) -> pd.DataFrame:
    """Leg to samples to answers (1, 0, NaN) as the table of samples."""
    rows = [
        {"leg": leg, "sample": sample, "question": question, "strict_correct": right, "flexible_correct": 1.0}
        for leg, samples in legs.items()
        for sample, column in enumerate(samples)
        for question, right in enumerate(column)
    ]
    return pd.DataFrame(rows)


def pair(base: list[list[float]], other: list[list[float]], margin: float = 0.0) -> between.Between:
    legs = table({"a": base, "b": other})
    one, two = (answers.matrix(legs, leg, "strict") for leg in "ab")
    band = max((answers.summed(m, "", "").band for m in (one, two) if m.shape[1] > 1), default=NAN)
    return between.paired(one, two, ("a", "b"), "strict", margin, band)


def test_one_sample_by_hand() -> None:
    """3 of 4: accuracy 0.75, error sqrt(0.75 * 0.25 / 4), Wilson's interval from his formula."""
    found = answers.alone(table({"a": [[1, 1, 0, 1]]}), "a", "strict")
    assert (found.counts, found.accuracy) == (((3, 4),), 0.75)
    assert found.error == math.sqrt(0.75 * 0.25 / 4)
    z = stats.norm.ppf(0.975)
    centre = (0.75 + z**2 / 8) / (1 + z**2 / 4)
    reach = z / (1 + z**2 / 4) * math.sqrt(0.75 * 0.25 / 4 + z**2 / 64)
    assert found.interval.low == pytest.approx(centre - reach, rel=1e-12)
    assert found.interval.high == pytest.approx(centre + reach, rel=1e-12)
    assert all(math.isnan(value) for value in (found.spread, found.band, found.flips))


def test_several_samples_are_clustered_by_question() -> None:
    """The error is that of the questions' means; taken as 12 draws it would be smaller."""
    samples: list[list[float]] = [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1]]
    found = answers.alone(table({"a": samples}), "a", "strict")
    means = [1, 2 / 3, 0, 1 / 3]
    centre = sum(means) / 4
    error = math.sqrt(sum((mean - centre) ** 2 for mean in means) / 3 / 4)
    assert found.accuracy == pytest.approx(centre)
    assert found.error == pytest.approx(error, rel=1e-12)
    assert found.error > answers.single(6, 12)[0]
    rates = [0.5, 0.25, 0.75]
    assert found.spread == pytest.approx(np.std(rates, ddof=1))
    assert found.band == 0.5
    assert found.flips == pytest.approx((1 + 1 + 2) / 12)


def test_a_failed_request_is_no_wrong_answer() -> None:
    """Holes lower n, never the accuracy; a question that only one leg answered is not compared."""
    found = answers.alone(table({"a": [[1, NAN, 0, 1]]}), "a", "strict")
    assert found.counts == ((2, 3),)
    compared = pair([[1, NAN, 0, 1]], [[NAN, 1, 1, 1]])
    assert (compared.compared, compared.gained, compared.lost) == (2, 1, 0)
    nothing = answers.alone(table({"a": [[NAN, NAN]]}), "a", "strict")
    assert (nothing.answered, math.isnan(nothing.accuracy), nothing.interval.method) == (0, True, "undefined")


def test_a_question_twice_in_one_sample_is_refused() -> None:
    """It would count twice."""
    doubled = pd.concat([table({"a": [[1, 0]]}), table({"a": [[1, 0]]})])
    with pytest.raises(ValueError, match="leg a has question 0 twice in sample 0"):
        answers.matrix(doubled, "a", "strict")


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (0, 6), (3, 9), (12, 2), (40, 61)])
def test_the_exact_test_is_mcnemars(gained: int, lost: int) -> None:
    """Twice the smaller tail of Binomial(discordant, 1/2), from the definition, at most 1."""
    total = gained + lost
    tail = sum(math.comb(total, k) for k in range(min(gained, lost) + 1)) / 2**total
    assert between.mcnemar(gained, lost) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def test_a_paired_difference_by_hand() -> None:
    """Differences 1, -1, -1, 0, -1: mean, deviation over root n, exact interval, and what could be seen."""
    found = pair([[0, 1, 1, 1, 1]], [[1, 0, 0, 1, 0]], margin=0.1)
    change = np.array([1, -1, -1, 0, -1])
    error = change.std(ddof=1) / math.sqrt(5)
    assert (found.gained, found.lost, found.difference, found.alone) == (1, 3, -0.4, (0, 0))
    assert found.error == pytest.approx(error)
    assert (found.interval.low, found.interval.high) == bounded.limits(change, (-1, 1), answers.LEVEL)
    assert math.isnan(found.detectable)  # five lost questions are no loss by any test
    many = pair([[0, 1, 1, 1, 1] * 80], [[1, 0, 0, 1, 0] * 80])
    assert many.detectable == pytest.approx(power.of_questions(many.error**2 * 400, 400))
    assert found.equivalence == max(bounded.at_most(change, -1, -0.1), bounded.at_least(change, 1, 0.1))
    assert found.p == between.mcnemar(1, 3)
    halves = pair([[0, 1, 1], [1, 1, 0]], [[1, 0, 1], [1, 1, 1]])
    change = np.array([0.5, -0.5, 0.5])
    both = bounded.at_most(change, -1, 0.0), bounded.at_least(change, 1, 0.0)
    assert halves.p == min(1.0, 2 * min(both))


@pytest.mark.parametrize("samples", [1, 3])
def test_a_total_loss_is_seen(samples: int) -> None:
    """Every question lost leaves no spread; it is no "no difference"."""
    found = pair([[1] * 20] * samples, [[0] * 20] * samples)
    word, said = words.judged(found)
    assert word is words.Word.WORSE
    assert found.interval.high == pytest.approx(2 * (1 - 0.025 ** (1 / 20)) - 1)  # Clopper and Pearson's
    assert said.startswith("worse by 100.00 points (95 % interval -100.00 to -66.31, p = 1.9e-06)")


def test_counts_alone_are_compared_as_unpaired() -> None:
    """Fisher's test from the hypergeometric law, an interval and an equivalence test of its kind."""
    base, other = (9, 10), (5, 12)
    found = between.unpaired(base, other, ("a", "b"), "strict", 0.6, NAN)
    assert (found.interval.low, found.interval.high) == melded.limits(base, other, answers.LEVEL)
    assert found.equivalence == max(melded.at_most(base, other, -0.6), melded.at_least(base, other, 0.6))
    law = stats.hypergeom(22, 14, 12)
    assert found.p == pytest.approx(2 * min(law.cdf(5), law.sf(4)))
    assert (found.paired, found.gained, found.compared) == (False, None, 10)
    assert found.detectable == power.of_counts(base, 12)


def test_counts_are_called_different_where_their_interval_says_so() -> None:
    """p and interval are one test: every pair of counts of 10 and of 12."""
    for j, k in product(range(11), range(13)):
        found = between.unpaired((j, 10), (k, 12), ("a", "b"), "strict", 0.0, NAN)
        assert (found.p < answers.LEVEL) == (found.interval.low > 0 or found.interval.high < 0)


def test_undefined_is_said_to_be_undefined() -> None:
    """No questions, no margin: NaN and the word, never a number."""
    nothing = pair([[NAN, NAN]], [[1, 0]], margin=0.01)
    assert all(map(math.isnan, (nothing.difference, nothing.error, nothing.detectable, nothing.equivalence)))
    assert nothing.interval.method == "undefined"
    assert math.isnan(pair([[1, 0, 1]], [[1, 0, 1]]).equivalence)
    assert math.isnan(between.unpaired((0, 0), (1, 2), ("a", "b"), "strict", 0.1, NAN).difference)
    assert words.points(NAN) == "undefined"
    assert between.unseen(59) == pytest.approx(0.0495, abs=1e-4)  # the rule of three


@pytest.mark.parametrize(("count", "word"), [(298, Word.UNSEEN), (299, Word.EQUIVALENT)])
def test_how_many_unchanged_questions_show_equivalence(count: int, word: Word) -> None:
    """None of n lost leaves a loss of one point with a chance of 0.99^n: 5 % from 299 questions on."""
    found = pair([[1] * count], [[1] * count], margin=0.01)
    assert found.equivalence == pytest.approx(0.99**count, rel=1e-6)
    judged, said = words.judged(found)
    assert (judged, f"no question of {count} was answered differently" in said) == (word, True)


def test_answers_beyond_right_and_wrong_are_refused() -> None:
    """5 is no answer, nor is a half; it would raise an accuracy above 1."""
    for value in (5, 0.5, -1):
        with pytest.raises(ValueError, match=f"leg a has an answer of {value}, allowed are 0 and 1"):
            answers.alone(table({"a": [[1, value]]}), "a", "strict")


def test_an_accuracy_has_an_interval_within_0_and_1() -> None:
    """Nearly all right in every sample: a t interval would end at 1.0073; all right: Clopper and Pearson."""
    samples: list[list[float]] = [[1.0] * 39 + [0], [1.0] * 40, [1.0] * 40]
    found = answers.alone(table({"a": samples}), "a", "strict").interval
    assert 0.9 < found.low < 1 - 1 / 120 < found.high <= 1
    whole = answers.alone(table({"a": [[1.0] * 40] * 3}), "a", "strict")
    assert (whole.interval.low, whole.interval.high) == pytest.approx((0.025 ** (1 / 40), 1.0))
    assert whole.error == 0
    assert all(
        0 <= end <= 1 for n in range(1, 30) for end in (lambda i: (i.low, i.high))(answers.single(n, n)[1])
    )


def verdict(difference: float, p: float, low: float, high: float, **more: float) -> tuple[Word, str]:
    base = between.Between(
        "a", "b", "strict", True, 100, 3, 5, difference, 0.01, Interval(low, high, ""), p, "", 0.02,
        0.01, more.get("equivalence", NAN), more.get("band", NAN),
    )  # fmt: skip
    return words.judged(base)


def test_words_say_no_more_than_the_tests() -> None:
    """Each word needs its own tests; an effect inside the spread is not one."""
    assert verdict(-0.03, 0.01, -0.05, -0.01)[0] is Word.WORSE
    assert verdict(0.03, 0.01, 0.01, 0.05)[0] is Word.BETTER
    assert verdict(-0.03, 0.08, -0.05, -0.01)[0] is Word.UNSEEN
    assert verdict(-0.03, 0.01, -0.05, 0.01)[0] is Word.UNSEEN
    assert verdict(-0.03, 0.01, -0.05, -0.01, band=0.04)[0] is Word.SPREAD
    assert (
        verdict(-0.03, 0.01, -0.05, -0.01, band=0.03)[0] is Word.SPREAD
    )  # as much as two samples of one leg
    assert verdict(-0.03, 0.01, -0.05, -0.01, band=0.02)[0] is Word.WORSE
    assert verdict(0.001, 0.8, -0.005, 0.006, equivalence=0.01)[0] is Word.EQUIVALENT
    assert verdict(0.001, 0.8, -0.005, 0.006, equivalence=0.2) == (
        Word.UNSEEN, "no difference of 2.00 points or more was seen",
    )  # fmt: skip
    worse = verdict(-0.03, 0.01, -0.05, -0.01)[1]
    assert worse.startswith("worse by 3.00 points (95 % interval -5.00 to -1.00, p = 0.01)")
    assert "spread is unknown" in worse
    assert words.judged(pair([[1, 0]], [[1, 0]]), "leg b crashed") == (
        Word.NOT_MEASURED, "not measured: leg b crashed",
    )  # fmt: skip


def test_every_small_outcome_gets_one_word() -> None:
    """All pairs of two questions' answers, with and without a repeat: no exception, one sentence."""
    for base, other in product(product((0, 1, NAN), repeat=2), repeat=2):
        word, said = words.judged(pair([list(base)], [list(other)] * (1 + (base[0] == 1)), margin=0.05))
        assert word in Word
        assert "nan" not in said
        assert "undefined" not in said


def simulated(rng: np.random.Generator, questions: int, samples: int, shift: float) -> list[np.ndarray]:
    """Two legs over the same questions of different difficulty, answered anew in every sample."""
    base = rng.beta(8, 1, size=questions)
    other = np.clip(base + shift, 0, 1)
    return [(rng.random((samples, questions)) < rate).astype(float) for rate in (base, other)]


def compared(one: np.ndarray, two: np.ndarray) -> between.Between:
    """`between.paired` of two arrays [samples, questions]."""
    base, other = pd.DataFrame(one.T), pd.DataFrame(two.T)
    return between.paired(base, other, ("a", "b"), "strict", 0.0, NAN)


@pytest.mark.parametrize("samples", [1, 3])
def test_intervals_cover_and_effects_are_not_invented(samples: int) -> None:
    """200 campaigns without a difference: the interval misses, and an effect is called, at most as often as
    a binomial with the nominal rate does in 1 of 10,000 such tests."""
    rng = np.random.default_rng(20261201)
    missed, called = 0, 0
    for _ in range(200):
        found = compared(*simulated(rng, 150, samples, 0.0))
        missed += not found.interval.low <= 0 <= found.interval.high
        called += words.judged(found)[0] in (Word.WORSE, Word.BETTER)
    most = int(stats.binom.ppf(1 - 1e-4, 200, 0.05))
    assert missed <= most
    assert called <= most


def test_a_wilson_interval_covers() -> None:
    """Over 2000 draws at p = 0.95, n = 200, within what a coverage of 93 % (near its minimum) allows."""
    rng = np.random.default_rng(1)
    draws = rng.binomial(200, 0.95, size=2000)
    inside = sum(found.low <= 0.95 <= found.high for found in (answers.single(int(k), 200)[1] for k in draws))
    assert inside >= stats.binom.ppf(1e-4, 2000, 0.93)


@pytest.mark.parametrize("samples", [1, 3])
def test_a_real_loss_is_seen_at_the_stated_power(samples: int) -> None:
    """A loss as large as ``detectable`` says is called as often as it says, within what 100 campaigns can
    tell."""
    rng, shift = np.random.default_rng(3), 0.0
    for _ in range(3):  # the error of a leg that loses is larger, so that the shift is found in steps
        seen = [compared(*simulated(rng, 400, samples, shift)).detectable for _ in range(20)]
        shift = -float(np.mean(seen))
    called = sum(words.significant(compared(*simulated(rng, 400, samples, shift))) for _ in range(100))
    assert called >= stats.binom.ppf(1e-3, 100, power.POWER)


def test_what_shows_nothing_is_said_to_show_nothing() -> None:
    """One question lost, or two legs of counts without a wrong answer: how much is not ruled out."""
    word, said = words.judged(pair([[1]], [[0]], margin=0.01))
    assert (word, said) == (
        Word.UNSEEN, "nothing is shown: differences up to 100.00 points are not ruled out",
    )  # fmt: skip
    few = between.unpaired((3, 3), (3, 3), ("a", "b"), "strict", 0.01, NAN)
    assert words.judged(few)[1] == "nothing is shown: differences up to 70.76 points are not ruled out"
    assert words.sight(NAN) == "no loss of any size would be seen in 80 % of such comparisons"
    assert words.sight(0.0123) == "losses below 1.23 points are not seen"


def test_questions_of_one_leg_alone_are_named() -> None:
    """Only those that both have are compared, and the sentence says how many are left out."""
    found = pair([[1, 1, 1, NAN, 1]], [[NAN, 1, 0, 1, NAN]])
    assert (found.compared, found.alone) == (2, (2, 1))
    said = words.judged(found)[1]
    assert said.endswith("; on the 2 questions that both have (2 only in a, 1 only in b)")
    assert "both have" not in words.judged(pair([[1, 0]], [[1, 1]]))[1]


def test_filters_that_disagree_are_listed() -> None:
    """Question ids on which strict and flexible differ."""
    assert answers.disagreeing(table({"a": [[1, 0, NAN, 0]]}), "a") == [1, 3]


def test_repeats_of_counts_are_not_further_questions() -> None:
    """Two samples of 1319 say no more about the questions than one: the error stays that of 1319."""
    once = pooled.of_counts({"a": [(1278, 1319)], "b": [(1272, 1319)]}, base="a", margin=0.01)
    twice = pooled.of_counts({"a": [(1278, 1319)], "b": [(1272, 1319)] * 2}, base="a", margin=0.01)
    assert once.judged[0].between.error == twice.judged[0].between.error
    assert once.judged[0].between.difference == pytest.approx(-6 / 1319)
    assert not once.judged[0].between.paired
    uneven = answers.summed(
        pd.DataFrame({1: [1] * 8 + [0] * 2, 2: [1] * 4 + [0] * 2 + [NAN] * 4}), "a", "strict"
    )
    assert uneven.counts == ((8, 10), (4, 6))
    assert uneven.of_one_sample == (6, 8)  # the mean size, at the accuracy of both


@pytest.mark.parametrize("several", ["base", "other", "both"])
def test_means_of_questions_are_tested_as_means(several: str) -> None:
    """McNemar's test is of one sample against one; thirds are tested as thirds, whichever leg has them."""
    one: list[list[float]] = [[1, 1, 1, 1, 1, 1, 0, 1]]
    three: list[list[float]] = [[0, 0, 0, 1, 1, 1, 0, 1], [0, 0, 0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 1, 0, 1]]
    base, other = {"base": (three, one), "other": (one, three), "both": (three, three[::-1])}[several]
    found = pair(base, other)
    change = np.mean(other, axis=0) - np.mean(base, axis=0)
    assert found.test == "Gaffke's test on questions' changes"
    assert found.p == pytest.approx(bounded.differs(change, (-1, 1), 0.0))
    assert several == "both" or found.p != pytest.approx(between.mcnemar(found.gained or 0, found.lost or 0))


@pytest.mark.parametrize(("gained", "lost"), [(0, 1), (0, 6), (3, 9), (12, 2), (40, 61)])
def test_of_whole_changes_both_tests_are_one(gained: int, lost: int) -> None:
    """So the interval of one sample a leg excludes 0 where McNemar's test does."""
    change = np.r_[np.ones(gained), -np.ones(lost), np.zeros(300)]
    assert between.mean_test(change) == pytest.approx(between.mcnemar(gained, lost), abs=1e-11)


@pytest.mark.parametrize("around", [-0.2, 0.0, 0.2])
def test_equivalence_around_a_claim_has_both_its_ends(around: float) -> None:
    """Each side against its own end: of changes that are all the claimed one, both are far."""
    change = np.full(60, around)
    ends = bounded.at_most(change, -1, around - 0.1), bounded.at_least(change, 1, around + 0.1)
    assert between.equivalent(change, 0.1, around) == max(ends) < answers.LEVEL


def test_flips_need_both_answers() -> None:
    """A failed request is no flip."""
    assert answers.flip_counts(pd.DataFrame({1: [1, 0, NAN], 2: [0, NAN, 1]})) == (1, 1)


def test_the_spread_of_either_leg_is_the_run_to_run_spread() -> None:
    """The wider of the two, whichever leg it is of."""
    calm, wild = [[1.0] * 10] * 2, [[1.0] * 10, [1.0] * 7 + [0] * 3]
    for base, other in ((calm, wild), (wild, calm)):
        found = pooled.pool(table({"a": base, "b": other}), base="a", margin=0.01)
        assert [one.between.band for one in found.judged if one.between.which == "strict"] == [
            pytest.approx(0.3)
        ]


@pytest.mark.parametrize("leg", ["a", "b"])
def test_fewer_samples_of_either_leg_are_told(leg: str) -> None:
    """The base leg's too: every comparison rests on it."""
    found = pooled.pool(
        table({"a": [[1, 0]], "b": [[1, 1]]}), base="a", margin=0.01, fewer={leg: "1 of 3 samples"}
    )
    assert all(one.said.endswith(f"; leg {leg} has 1 of 3 samples") for one in found.judged)


def test_a_refused_leg_is_listed_and_compared_with_nothing() -> None:
    """It stays in every table with its reason, and nowhere with a number."""
    legs = table({"a": [[1, 0, 1, 1]], "b": [[0, 0, 0, 0]]})
    found = pooled.pool(legs, base="a", margin=0.01, refused={"b": "crashed"}, acceptance={"a": 2.5})
    assert {one.word for one in found.judged} == {Word.NOT_MEASURED}
    text = tables.markdown(found)
    assert "- b is not measured: crashed" in text
    assert "| b | strict | - | not measured | - | - | - | - | - |" in text
    assert "| b | strict | - | - | - | - | - | - | - | not measured |" in text
    assert "b against a" not in text
    shown = found.records()
    for one in (*shown["legs"][2:], *shown["comparisons"]):
        numbers = [value for value in one.values() if isinstance(value, float)]
        assert (numbers, one["interval"]["low"]) == ([0.01] if "margin" in one else [], None)
    assert {one["not_measured"] for one in shown["legs"]} == {None, "crashed"}
    assert {one["sentence"] for one in shown["comparisons"]} == {"not measured: leg b: crashed"}
    first, second = tables.frames(found)
    assert first[first["leg"] == "b"]["accuracy"].isna().all()
    assert set(first[first["leg"] == "b"]["not_measured"]) == {"crashed"}
    assert second["difference"].isna().all()
    assert "| 2.50 |" in text
    assert found.records()["not_measured"] == {"b": "crashed"}
    with pytest.raises(ValueError, match="base leg is 'x', allowed are a, b"):
        pooled.pool(legs, base="x", margin=0.01)


def test_a_refused_base_leg_is_told_once() -> None:
    """No leg is compared with it; its reason is not said again for each leg and filter."""
    legs = table({"a": [[1, 0]], "b": [[0, 0]], "c": [[1, 1]]})
    found = pooled.pool(legs, base="a", margin=0.01, refused={"a": "crashed"})
    assert tables.told(found) == [
        (Word.NOT_MEASURED, "a is not measured: crashed; it is the base leg, so no leg is compared")
    ]
    assert {one.between.other for one in found.judged} == {"b", "c"}
    assert all(math.isnan(one.between.difference) for one in found.judged)


def test_tables_and_frames_say_the_same(tmp_path: Path) -> None:
    """Undefined is a word in tables and missing in frames; files are written and read back."""
    found = pooled.pool(table({"a": [[1, 0, 1, 1]], "b": [[1, 0, 0, 1]]}), base="a", margin=0.01)
    legs, against = tables.frames(found)
    assert legs["counts"].tolist() == ["3/4", "4/4", "2/4", "4/4"]
    assert against["verdict"].tolist() == [str(Word.UNSEEN)] * 2
    assert legs["spread"].isna().all()
    assert "undefined" in tables.markdown(found)
    assert {file.name for file in tables.write(found, tmp_path)} == {
        "pooled.md", "legs.csv", "legs.parquet", "comparisons.csv", "comparisons.parquet",
    }  # fmt: skip
    assert pd.read_parquet(tmp_path / "legs.parquet")["accuracy"].tolist() == [0.75, 1.0, 0.5, 1.0]
    assert [shown.row_count for shown in tables.console(found)] == [4, 2]
