"""The smallest loss that is seen: its power by enumeration of all outcomes, and by drawing campaigns."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from harness.legs.pool import between, bounded, power
from harness.legs.pool.answers import LEVEL

NAN = math.nan


@pytest.mark.parametrize(("variance", "count"), [(0.0, 9), (0.05, 30), (0.3, 40)])
def test_the_power_over_questions_is_that_of_all_outcomes(variance: float, count: int) -> None:
    """Every number of gained and lost questions with its multinomial chance, judged by McNemar's test."""
    loss = power.of_questions(variance, count)
    rates = variance / 2, variance / 2 + loss
    found = sum(
        stats.multinomial.pmf([gained, lost, count - gained - lost], count, [*rates, 1 - sum(rates)])
        for gained, lost in product(range(count + 1), repeat=2)
        if gained + lost <= count and lost > gained and between.mcnemar(gained, lost) < LEVEL
    )
    assert found == pytest.approx(power.POWER, abs=1e-4)


@pytest.mark.parametrize(
    ("base", "answered"), [((24, 25), 25), ((28, 30), 20), ((20, 20), 30), ((13, 25), 25)]
)
def test_the_power_over_counts_is_that_of_all_outcomes(base: tuple[int, int], answered: int) -> None:
    """Every pair of counts with its probability, each compared by the test of counts."""
    loss, (right, asked) = power.of_counts(base, answered), base
    found = 0.0
    for j, k in product(range(asked + 1), range(answered + 1)):
        if k / answered < j / asked and between.fisher((j, asked), (k, answered)) < LEVEL:
            chance = stats.binom.pmf(k, answered, right / asked - loss)
            found += float(stats.binom.pmf(j, asked, right / asked) * chance)
    assert found == pytest.approx(power.POWER, abs=1e-4)


def test_a_loss_of_wrong_answers_is_a_gain() -> None:
    """Few right answers mirror few wrong ones: what is hard to see is the way to one half."""
    assert power.of_counts((3, 25), 30) == power.of_counts((22, 25), 30)


def test_what_cannot_be_seen_is_undefined() -> None:
    """Five questions, all lost, are no loss; nor are three counts; nor is one where every question flips."""
    assert math.isnan(power.of_questions(0.0, 5))
    assert power.of_questions(0.0, 6) < 1
    assert math.isnan(power.of_questions(1.0, 1000))
    assert math.isnan(power.of_questions(NAN, 1))
    assert math.isnan(power.of_counts((3, 3), 3))


@pytest.mark.parametrize(("count", "hard"), [(1319, 0.02), (275, 0.03)])
def test_three_samples_see_what_is_said_at_least_as_often(count: int, hard: float) -> None:
    """Whole questions are lost, the kind of loss that Gaffke's test sees least often; a share ``hard`` flips.

    500 campaigns: the loss is called at least as often as a binomial of the stated power does in all but 1
    of 10,000 such tests.
    """
    rng = np.random.default_rng(count)

    def change(loss: float) -> np.ndarray:
        right = np.where(rng.random(count) < hard, 0.5, 1.0)
        base, other = ((rng.random((3, count)) < right).mean(axis=0) for _ in range(2))
        return np.where(rng.random(count) < loss, -1.0, other - base)

    loss = power.of_questions(float(np.mean([change(0.0).var(ddof=1) for _ in range(100)])), count)
    seen = sum(bounded.at_least(change(loss), 1, 0.0) < LEVEL / 2 for _ in range(500))
    assert seen >= stats.binom.ppf(1e-4, 500, power.POWER)
