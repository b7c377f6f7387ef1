"""Means of bounded values and differences of proportions: their definition, and their level in any world.

Rates are exact wherever a world has few outcomes: every outcome with its probability.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.legs.claims import compared
from harness.legs.pool import bounded, melded
from harness.legs.pool.answers import LEVEL
from harness.legs.pool.between import equivalent, equivalent_counts, mean_test

MARGIN = 0.01
SMALL = 1e-7
"""Chance of the outcomes on either side that an enumeration leaves out."""


# bounded


@pytest.mark.parametrize(("lost", "count"), [(0, 1), (1, 1), (0, 275), (3, 275), (20, 20), (13, 1319)])
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.3, 0.99])
def test_of_whole_losses_it_is_the_exact_binomial_test(lost: int, count: int, rate: float) -> None:
    """P(at most as many lost | rate), and Clopper and Pearson's bounds."""
    values = np.r_[-np.ones(lost), np.zeros(count - lost)]
    want = stats.binom.cdf(lost, count, rate)
    assert bounded.at_most(values, -1, -rate) == pytest.approx(want, rel=1e-6, abs=1e-300)
    exact = stats.binomtest(lost, count).proportion_ci(1 - LEVEL, "exact")
    assert bounded.limits(-values, (0, 1), LEVEL) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize("count", [1, 5, 40])
def test_of_one_value_it_is_a_beta_law(count: int) -> None:
    """Thirds, and one more at the bound: their share of the weights has a Beta(count, 1) law. Two spellings
    of a third are one value, and a third stays one to all its digits."""
    third = np.full(count, 1 - 2 / 3)
    third[0] = 1 / 3
    for mean in (-0.5, 0.0, 0.2):
        found = bounded.at_most(third, -1, mean)
        assert found == pytest.approx(((mean + 1) / (4 / 3)) ** count, rel=1e-9)
    assert len(bounded._counted(np.array([1 - 2 / 3, 1 / 3]), -1)[0]) == 2


@pytest.mark.parametrize("mean", [-0.3, -0.1, -0.02, 0.0, 0.08])
def test_it_is_the_chance_of_a_randomly_weighted_mean(mean: float) -> None:
    """Of thirds and halves, 50,000 draws of weights; both sides mirror each other."""
    rng = np.random.default_rng(2)
    values = np.r_[[-1, -2 / 3, 1 / 3, 0.5, 1], [-1 / 3] * 7, [0.0] * 40, [1 / 3] * 8]
    weights = rng.dirichlet(np.ones(len(values) + 1), size=50_000)
    drawn = int((weights @ np.append(values, -1) <= mean).sum())
    found = bounded.at_most(values, -1, mean)
    low, high = (stats.binom.ppf(end, 50_000, found) for end in (1e-5, 1 - 1e-5))
    assert low <= drawn <= high
    assert bounded.at_least(-values, 1, -mean) == found


def test_the_path_of_integration_is_fine_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the step moves no p by more than 1e-11, from one value to 1319."""
    rng = np.random.default_rng(4)
    thirds = np.arange(-3, 4) / 3
    worlds = [
        (rng.choice(thirds, size=count, p=rng.dirichlet(np.full(7, 0.3))), mean)
        for count in (1, 2, 3, 20, 275, 1319)
        for mean in (-0.9, -0.1, -0.01, 0.0, 0.01, 0.5)
    ]
    coarse = [bounded.at_most(values, -1, mean) for values, mean in worlds]
    path = np.arange(bounded.STEP / 8, bounded.LAST + 2, bounded.STEP / 4)
    monkeypatch.setattr(bounded, "NODES", np.sinh(path))
    monkeypatch.setattr(bounded, "WEIGHTS", bounded.STEP / 4 * np.cosh(path))
    assert coarse == pytest.approx([bounded.at_most(values, -1, mean) for values, mean in worlds], abs=1e-11)


def test_limits_stay_within_the_bounds_and_hold_the_mean() -> None:
    """For any values, one of them too; where all lie at a bound, so does the limit."""
    rng = np.random.default_rng(6)
    for count in (1, 2, 5, 40):
        for _ in range(10):
            values = rng.choice(np.arange(-3, 4) / 3, size=count)
            low, high = bounded.limits(values, (-1, 1), LEVEL)
            assert -1 <= low <= values.mean() <= high <= 1
    assert bounded.limits(np.ones(7), (0, 1), LEVEL)[1] == 1.0
    assert bounded.limits(-np.ones(7), (-1, 1), LEVEL)[0] == -1.0


def rejects(
    count: int, values: tuple[float, float], rates: tuple[float, float], test: Callable[..., bool]
) -> float:
    """Chance that ``test`` (true for few of the first value) is true of ``count`` questions."""
    (first, second), (often, seldom) = values, rates
    top = int(stats.binom.isf(SMALL, count, often)) + 1
    found = 0.0
    for others in range(int(stats.binom.isf(SMALL, count, seldom)) + 1 if seldom else 1):
        low, high = -1, top + 1  # the test holds at low and not at high
        while high - low > 1:
            middle = (low + high) // 2
            change = np.r_[np.full(middle, first), np.full(others, second), np.zeros(count - middle - others)]
            low, high = (middle, high) if test(change) else (low, middle)
        chance = float(stats.binom.pmf(others, count, seldom))
        found += chance * float(stats.binom.cdf(low, count - others, often / (1 - seldom)))
    return found


WORLDS = [
    (count, lost, gained, seldom)
    for count in (275, 600, 1319)
    for lost in (-1.0, -1 / 3)
    for gained, seldom in ((1 / 3, 0.01), (1.0, 0.003))
]


@pytest.mark.parametrize(("count", "lost", "gained", "seldom"), WORLDS)
def test_equivalence_of_repeated_samples_at_the_margin(
    count: int, lost: float, gained: float, seldom: float
) -> None:
    """Three samples a leg, so that changes are thirds: some lose, some gain, a point is lost in all."""
    often = (MARGIN + gained * seldom) / -lost
    rate = rejects(count, (lost, gained), (often, seldom), lambda change: equivalent(change, MARGIN) < LEVEL)
    assert rate <= LEVEL


@pytest.mark.parametrize(("count", "lost", "gained", "seldom"), WORLDS)
def test_a_gain_is_not_invented_where_there_is_none(
    count: int, lost: float, gained: float, seldom: float
) -> None:
    """The same worlds without a difference: rare losses that were not drawn leave only gains."""
    often = gained * seldom / -lost
    rate = rejects(
        count, (lost, gained), (often, seldom), lambda change: mean_test(change) < LEVEL and change.mean() > 0
    )
    assert rate <= LEVEL / 2


@pytest.mark.parametrize("count", [275, 1319])
@pytest.mark.parametrize("kind", ["questions", "samples"])
def test_three_samples_of_flipping_answers(count: int, kind: str) -> None:
    """Answers drawn anew in each of 3 samples a leg; a point is lost, in whole questions or a little in all.

    300 campaigns: equivalence within that point, and an interval without it, at most as often as a binomial
    of the nominal rate does in 1 of 10,000 such tests.
    """
    rng = np.random.default_rng(count)
    called, missed, campaigns = 0, 0, 300
    for _ in range(campaigns):
        right = np.where(rng.random(count) < 0.04, 0.5, 0.998)
        mean = 0.04 * 0.5 + 0.96 * 0.998
        share = MARGIN / mean
        other = (
            np.where(rng.random(count) < share, 0.0, right) if kind == "questions" else right * (1 - share)
        )
        change = (rng.random((3, count)) < other).mean(axis=0) - (rng.random((3, count)) < right).mean(axis=0)
        called += equivalent(change, MARGIN) < LEVEL
        missed += bounded.differs(change, (-1, 1), -MARGIN) < LEVEL
    most = stats.binom.ppf(1 - 1e-4, campaigns, LEVEL)
    assert called <= most
    assert missed <= most


@pytest.mark.parametrize("count", [275, 1319])
@pytest.mark.parametrize("rate", [0.004, 0.01, 0.05])
def test_a_spread_claim_at_its_border_is_seldom_refuted(count: int, rate: float) -> None:
    """Two samples whose answers flip at ``rate``, and a claim of just the spread that they then have.

    It lies beyond either end in at most 2.5 % of all such pairs: every number of flips with its chance.
    """

    def reach(flips: float, questions: int) -> float:
        return math.sqrt(flips / questions)

    claimed, below, above = reach(rate, count), 0.0, 0.0
    for flips in range(int(stats.binom.isf(SMALL, count, rate)) + 2):
        squares = pd.DataFrame({"pair": np.arange(count) < flips}, dtype=float)
        _, low, high = compared._scaled(squares, reach)
        chance = float(stats.binom.pmf(flips, count, rate))
        above += chance * (claimed > high)
        below += chance * (claimed <= low)
    assert above <= LEVEL / 2
    assert below <= LEVEL / 2


# melded


@pytest.mark.parametrize(
    ("base", "other"),
    [((9, 10), (5, 12)), ((200, 200), (196, 200)), ((0, 10), (3, 9)), ((1278, 1319), (1272, 1319))],
)
def test_against_no_difference_it_is_fishers_test(base: tuple[int, int], other: tuple[int, int]) -> None:
    """One-sided, from the hypergeometric law."""
    (j, m), (k, n) = base, other
    law = stats.hypergeom(m + n, j + k, n)
    assert melded.at_most(base, other, 0.0) == pytest.approx(law.sf(k - 1), rel=1e-9)
    assert melded.at_least(base, other, 0.0) == pytest.approx(law.cdf(k), rel=1e-9)


@pytest.mark.parametrize("difference", [-0.5, -0.4, -0.1, 0.1])
def test_it_is_the_chance_that_two_bounds_lie_so(difference: float) -> None:
    """Of 200,000 pairs of draws from the distributions of both Clopper-Pearson bounds."""
    rng = np.random.default_rng(8)
    drawn = int((rng.beta(5, 8, 200_000) - rng.beta(10, 1, 200_000) <= difference).sum())
    found = melded.at_most((9, 10), (5, 12), difference)
    low, high = (stats.binom.ppf(end, 200_000, found) for end in (1e-5, 1 - 1e-5))
    assert low <= drawn <= high


def test_limits_of_proportions_are_where_the_tests_end() -> None:
    """Either side at half the level; within -1 and 1, also where nothing varies."""
    low, high = melded.limits((9, 10), (5, 12), LEVEL)
    assert melded.at_most((9, 10), (5, 12), low) == pytest.approx(LEVEL / 2, rel=1e-6)
    assert melded.at_least((9, 10), (5, 12), high) == pytest.approx(LEVEL / 2, rel=1e-6)
    assert melded.limits((4, 4), (0, 4), LEVEL)[0] == -1.0
    same = melded.limits((1319, 1319), (1319, 1319), LEVEL)
    assert same == pytest.approx((-(1 - 0.025 ** (1 / 1319)), 1 - 0.025 ** (1 / 1319)), rel=1e-6)


@pytest.mark.parametrize("right", [0.9, 0.95, 0.99, 1.0])
@pytest.mark.parametrize(("count", "margin"), [(200, 0.04), (1319, 0.02)])
def test_unpaired_equivalence_at_the_margin(count: int, margin: float, right: float) -> None:
    """Base legs of accuracy ``right``, others worse by the margin: all outcomes, each with its chance."""
    called, missed = 0.0, 0.0
    other = stats.binom(count, right - margin)
    edges = dict.fromkeys(("start", "end", "low", "high"), 0)  # counts of the other leg; they rise with j
    for j in range(
        *(int(stats.binom.ppf(end, count, right)) + at for at, end in enumerate((SMALL, 1 - SMALL)))
    ):
        base = j, count

        def above(k: int, level: float, base: tuple[int, int] = base) -> bool:
            return k > count or melded.at_most(base, (k, count), -margin) < level

        def below(k: int, bound: float, level: float, base: tuple[int, int] = base) -> bool:
            return k > count or melded.at_least(base, (k, count), bound) >= level

        edges["start"] = next(k for k in itertools.count(edges["start"]) if above(k, LEVEL))
        edges["end"] = next(k for k in itertools.count(edges["end"]) if below(k, margin, LEVEL))
        edges["low"] = next(k for k in itertools.count(edges["low"]) if below(k, -margin, LEVEL / 2))
        edges["high"] = next(k for k in itertools.count(edges["high"]) if above(k, LEVEL / 2))
        chance = float(stats.binom.pmf(j, count, right))
        called += chance * max(0.0, float(other.cdf(edges["end"] - 1) - other.cdf(edges["start"] - 1)))
        missed += chance * float(other.sf(edges["high"] - 1) + other.cdf(edges["low"] - 1))
    assert called <= LEVEL
    assert missed <= LEVEL
    assert math.isnan(equivalent_counts((1, 2), (1, 2), 0.0))
