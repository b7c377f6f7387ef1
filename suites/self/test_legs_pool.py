"""Pooling statistics against their definitions, and by simulation: coverage, power, false positives."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from harness.legs.pool import answers, between, pooled, tables, words
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
    """Differences 1, -1, -1, 0, -1: mean, deviation over root n, t interval, and what could be seen."""
    found = pair([[0, 1, 1, 1, 1]], [[1, 0, 0, 1, 0]], margin=0.1)
    change = np.array([1, -1, -1, 0, -1])
    error = change.std(ddof=1) / math.sqrt(5)
    assert (found.gained, found.lost, found.difference) == (1, 3, -0.4)
    assert found.error == pytest.approx(error)
    reach = stats.t.ppf(0.975, 4) * error
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.4 - reach, -0.4 + reach))
    assert found.detectable == pytest.approx((1.959963984540054 + 0.8416212335729143) * error)
    assert found.equivalence == between.equivalent_pairs(1, 3, 5, 0.1)
    halves = np.array([0.5, -1, -0.5, 0, -1])
    error, mean = halves.std(ddof=1) / math.sqrt(5), halves.mean()
    one_sided = stats.t.sf((mean + 0.1) / error, 4), stats.t.cdf((mean - 0.1) / error, 4)
    assert between.equivalent(halves, 0.1) == pytest.approx(max(one_sided))


@pytest.mark.parametrize(("gained", "lost", "count"), [(1, 3, 50), (0, 2, 300), (7, 5, 400), (30, 40, 1319)])
def test_equivalence_of_counts_is_the_score_test(gained: int, lost: int, count: int) -> None:
    """The score of the trinomial likelihood at its largest under the margin, found by search."""
    margin, found = 0.01, []
    for bound in (-margin, margin):
        least = max(0.0, -bound) + 1e-12

        def minus_likelihood(rate: float, bound: float = bound) -> float:
            won, same = rate + bound, 1 - 2 * rate - bound
            told = (gained, won), (lost, rate), (count - gained - lost, same)
            return -sum(k * math.log(p) for k, p in told if k)

        rate = optimize.minimize_scalar(
            minus_likelihood,
            bounds=(least, (1 - bound) / 2 - 1e-9),
            method="bounded",
            options={"xatol": 1e-13},
        ).x
        variance = count * (2 * rate + bound - bound**2)
        found.append((gained - lost - count * bound) / math.sqrt(variance))
    want = max(stats.norm.sf(found[0]), stats.norm.cdf(found[1]))
    assert between.equivalent_pairs(gained, lost, count, margin) == pytest.approx(want, rel=2e-3)


@pytest.mark.parametrize(
    ("count", "lost", "gained"), [(275, 0.01, 0.0), (600, 0.01, 0.0), (1319, 0.01, 0.0), (1319, 0.02, 0.01)]
)
def test_few_changes_are_not_called_equivalent_too_often(count: int, lost: float, gained: float) -> None:
    """At a true loss of the margin, exactly: every outcome with its probability."""
    rate = 0.0
    for down in range(int(stats.binom.ppf(1 - 1e-7, count, lost)) + 1):
        for up in range(int(stats.binom.ppf(1 - 1e-7, count, gained)) + 1 if gained else 1):
            if between.equivalent_pairs(up, down, count, lost - gained) < answers.LEVEL:
                rate += stats.binom.pmf(down, count, lost) * stats.binom.pmf(
                    up, count - down, gained / (1 - lost)
                )
    assert rate <= answers.LEVEL


@pytest.mark.parametrize("samples", [1, 3])
def test_a_total_loss_is_seen(samples: int) -> None:
    """Every question lost leaves no error and no interval; it is no "no difference"."""
    found = pair([[1] * 20] * samples, [[0] * 20] * samples)
    word, said = words.judged(found)
    assert word is words.Word.WORSE
    assert said.startswith(
        "worse by 100.00 points (every question changed alike, so no interval, p = 1.9e-06)"
    )


def test_counts_alone_are_compared_as_unpaired() -> None:
    """Newcombe's interval from the two Wilson intervals, Fisher's test from the hypergeometric law."""
    found = between.unpaired((9, 10), (5, 12), ("a", "b"), "strict", 0.0, NAN)
    (l1, u1), (l2, u2) = ((i.low, i.high) for i in (answers.single(5, 12)[1], answers.single(9, 10)[1]))
    p1, p2 = 5 / 12, 9 / 10
    low = p1 - p2 - math.sqrt((p1 - l1) ** 2 + (u2 - p2) ** 2)
    high = p1 - p2 + math.sqrt((u1 - p1) ** 2 + (p2 - l2) ** 2)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=1e-9)
    chances = [stats.hypergeom.pmf(k, 22, 14, 12) for k in range(13)]
    assert found.p == pytest.approx(sum(p for p in chances if p <= chances[5] * (1 + 1e-7)))
    assert (found.paired, found.gained) == (False, None)


def test_undefined_is_said_to_be_undefined() -> None:
    """No variance, no questions, no margin: NaN and the word, never a number."""
    same = pair([[1, 0, 1]], [[1, 0, 1]], margin=0.01)
    assert (same.p, math.isnan(same.equivalence), same.interval.method) == (1.0, True, "undefined")
    assert math.isnan(between.unpaired((0, 0), (1, 2), ("a", "b"), "strict", 0.1, NAN).difference)
    assert words.points(NAN) == "undefined"
    assert between.unseen(59) == pytest.approx(0.0495, abs=1e-4)  # the rule of three


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
    """All pairs of three questions' answers, with and without a repeat: no exception, one sentence."""
    for base, other in product(product((0, 1, NAN), repeat=3), repeat=2):
        word, said = words.judged(pair([list(base)], [list(other)], margin=0.05))
        assert word in Word
        assert "nan" not in said


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
    """400 campaigns without a difference: the interval misses, and an effect is called, at most as often as
    a binomial with the nominal rate does in 1 of 10,000 such tests."""
    rng = np.random.default_rng(20261201)
    missed, called = 0, 0
    for _ in range(400):
        found = compared(*simulated(rng, 150, samples, 0.0))
        missed += not found.interval.low <= 0 <= found.interval.high
        called += words.judged(found)[0] in (Word.WORSE, Word.BETTER)
    most = int(stats.binom.ppf(1 - 1e-4, 400, 0.05))
    assert missed <= most
    assert called <= most


def test_a_wilson_interval_covers() -> None:
    """Over 2000 draws at p = 0.95, n = 200, within what a coverage of 93 % (near its minimum) allows."""
    rng = np.random.default_rng(1)
    draws = rng.binomial(200, 0.95, size=2000)
    inside = sum(found.low <= 0.95 <= found.high for found in (answers.single(int(k), 200)[1] for k in draws))
    assert inside >= stats.binom.ppf(1e-4, 2000, 0.93)


def test_equivalence_is_not_claimed_at_the_margin() -> None:
    """With a true difference equal to the margin, equivalence is claimed at most at the nominal rate."""
    rng = np.random.default_rng(7)
    claimed = 0
    for _ in range(300):
        base = (rng.random(400) < 0.9).astype(float)
        change = np.where(rng.random(400) < 0.05, 0.0, base) - base  # 4.5 points worse on average
        claimed += between.equivalent_mean(change, 0.045) < answers.LEVEL
    assert claimed <= stats.binom.ppf(1 - 1e-4, 300, 0.05)


@pytest.mark.parametrize("samples", [1, 3])
def test_a_real_loss_is_seen_at_the_stated_power(samples: int) -> None:
    """A loss as large as ``detectable`` says is called about as often as it says: 80 % (McNemar's exact
    test, with one sample, gives some of it away), within what 100 campaigns can tell."""
    rng, shift = np.random.default_rng(3), 0.0
    for _ in range(3):  # the error of a leg that loses is larger, so that the shift is found in steps
        errors = [compared(*simulated(rng, 400, samples, shift)).error for _ in range(20)]
        shift = -between.detectable(float(np.mean(errors)))
    called = sum(words.significant(compared(*simulated(rng, 400, samples, shift))) for _ in range(100))
    assert called >= stats.binom.ppf(1e-3, 100, 0.80 if samples > 1 else 0.75)


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


def test_a_refused_leg_is_listed_and_compared_with_nothing() -> None:
    """It stays in every table with its reason."""
    legs = table({"a": [[1, 0, 1, 1]], "b": [[0, 0, 0, 0]]})
    found = pooled.pool(legs, base="a", margin=0.01, refused={"b": "crashed"}, acceptance={"a": 2.5})
    assert {one.word for one in found.judged} == {Word.NOT_MEASURED}
    text = tables.markdown(found)
    assert "- b is not measured: crashed" in text
    assert "not measured: leg b: crashed" in text
    assert "| 2.50 |" in text
    assert found.records()["not_measured"] == {"b": "crashed"}
    with pytest.raises(ValueError, match="base leg is 'x', allowed are a, b"):
        pooled.pool(legs, base="x", margin=0.01)


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
