"""Noisy answers: the right commit as often as is said, by simulation, and what the probabilities are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from harness import exits
from harness.bisect import posterior
from harness.bisect.leg import Measured
from harness.bisect.noisy import CHANCE, Noisy
from harness.bisect.posterior import Sample, Search, information, scatter, worse

COMMITS = 64
RUNS = 40


class World:
    """A history whose commits from ``first`` on are worse by ``effect``.

    ``drift``: of the server, by sample. ``spread``: standard deviation between harmless commits.
    """

    def __init__(
        self, seed: int, effect: float, *, questions: int = 1319, drift: float = 0.0, spread: float = 0.0
    ) -> None:
        self.draw = np.random.default_rng(seed)
        self.own = self.draw.normal(0, spread, COMMITS + 1)
        self.first = int(self.draw.integers(1, COMMITS + 1))
        self.effect, self.questions, self.drift = effect, questions, drift
        self.legs = 0

    def measure(self, commit: str, number: int) -> Measured:
        share = 0.9 - (self.effect if int(commit) >= self.first else 0.0) + self.own[int(commit)]
        share = float(np.clip(share + self.drift * self.legs, 0, 1))
        self.legs += 1
        right = int(self.draw.binomial(self.questions, share))
        return Measured(Sample(right, self.questions), print=str(self.legs))

    def searched(self, *, most: int = 200, spread: float = 0.005) -> Noisy:
        names = [str(commit) for commit in range(COMMITS + 1)]
        found = Noisy(names, self.measure, 0.01, spread, 0.95, most, lambda taken, search: None)
        found.run(("v1", "v2"))
        return found


@pytest.mark.parametrize(
    ("effect", "questions", "spread", "legs"),
    [(0.05, 1319, 0.0, 16), (0.03, 1319, 0.0, 24), (0.15, 200, 0.0, 16), (0.04, 1319, 0.005, 20)],
)
def test_the_right_commit_is_named_as_often_as_is_said(
    effect: float, questions: int, spread: float, legs: int
) -> None:
    """At least 95 % of runs over 64 commits; ``legs``: what they cost on average at most."""
    worlds = [World(seed, effect, questions=questions, spread=spread) for seed in range(RUNS)]
    right = [world.searched().candidates()[0] == [world.first] for world in worlds]
    assert sum(right) >= 0.95 * RUNS
    assert sum(world.legs for world in worlds) / RUNS <= legs


def test_a_drift_is_told() -> None:
    """A server that loses 1.5 points a sample over a loss of 15 points: most runs say that samples differ."""
    told = [World(seed, 0.15, drift=-0.015).searched().scatter < CHANCE for seed in range(20)]
    assert sum(told) >= 18
    assert sum(World(seed, 0.15).searched().scatter < CHANCE for seed in range(20)) <= 2


def test_an_end_that_is_no_worse_is_refused() -> None:
    with pytest.raises(exits.InputError, match=r"--bad v2 is not worse than --good by 1 points: \d+/\d+"):
        World(1, 0.0).searched()


def test_ends_that_cannot_be_told_apart_are_no_answer() -> None:
    """Nine of ten questions against eight of ten, three times each."""
    prints = iter(range(99))

    def measure(commit: str, number: int) -> Measured:
        return Measured(Sample(9 if commit == "a" else 8, 10), print=str(next(prints)))

    found = Noisy(["a", "b"], measure, 0.01, 0.0, 0.95, 6, lambda taken, search: None)
    with pytest.raises(exits.CannotRun, match="--bad v2 cannot be told from --good: 27/30"):
        found.run(("v1", "v2"))


def test_few_samples_leave_several_candidates() -> None:
    """As many as it takes to have the first bad one among them with the confidence that was asked for."""
    world = World(5, 0.05)
    found = world.searched(most=8)
    candidates, sure = found.candidates()
    assert sure >= 0.95 and len(candidates) > 1
    assert world.first in candidates


def test_a_copy_of_a_sample_counts_nothing() -> None:
    """A server that always gives the same replies is measured once a commit, and copies are left out."""
    names = [str(commit) for commit in range(5)]

    def measure(commit: str, number: int) -> Measured:
        return Measured(Sample(1200 if int(commit) < 3 else 1100, 1319), print=commit)

    found = Noisy(names, measure, 0.01, 0.0, 0.95, 50, lambda taken, search: None)
    found.run(("v1", "v2"))
    assert found.candidates()[0] == [3]
    assert all(len(samples) == 1 for samples in found.search.samples.values())
    assert all(sum(one.commit == commit for one in found.taken) <= 2 for commit in range(5))


def test_a_commit_that_cannot_be_measured_leaves_its_neighbours_together() -> None:
    """Commit 3 crashes: whether it or commit 4 is the first bad one, nobody can tell."""
    names = [str(commit) for commit in range(9)]
    draw = np.random.default_rng(2)

    def measure(commit: str, number: int) -> Measured:
        if commit == "3":
            return Measured(None, "the leg crashed")
        share = 0.9 if int(commit) < 4 else 0.8
        return Measured(Sample(int(draw.binomial(1319, share)), 1319), print=f"{commit} {number}")

    found = Noisy(names, measure, 0.01, 0.0, 0.95, 50, lambda taken, search: None)
    found.run(("v1", "v2"))
    assert found.candidates()[0] == [3, 4]
    assert sum(one.commit == 3 for one in found.taken) == 1
    assert len(found.taken) <= 20  # nothing more could tell the two apart


def test_an_end_that_cannot_be_measured_ends_the_search() -> None:
    found = Noisy(["a", "b"], lambda *_: Measured(None, "it fell over"), 0.01, 0.0, 0.95, 9, lambda *_: None)
    with pytest.raises(exits.CannotRun, match="--good v1 cannot be told: it fell over"):
        found.run(("v1", "v2"))


def test_probabilities_are_those_of_the_formula() -> None:
    """Two candidates, counts small enough to sum over the two levels by hand on the same grid."""
    search = Search(2, 0.1, 0.0, 0.95)
    for commit, right in ((0, 5), (1, 1), (2, 2)):
        search.add(commit, Sample(right, 6))
    at = (np.arange(1000) + 0.5) / 1000
    wanted = []
    for first in (1, 2):
        good = [(5, 6), (1, 6)][:first]
        bad = [(1, 6), (2, 6)][first - 1 :]
        level = [np.prod([at**k * (1 - at) ** (n - k) for k, n in counts], axis=0) for counts in (good, bad)]
        pairs = at[:, None] - at[None, :] >= 0.1 - 1e-9
        wanted.append((level[0][:, None] * level[1][None, :] * pairs).sum())
    assert search.probabilities()[1:] == pytest.approx(np.array(wanted) / sum(wanted), rel=1e-9)


def beta_worse(good: tuple[int, int], bad: tuple[int, int], margin: float) -> float:
    """The same by its definition: two levels with uniform priors, integrated."""
    one, other = (stats.beta(right + 1, asked - right + 1) for right, asked in (good, bad))
    at = good[0] / good[1]
    return float(quad(lambda x: one.pdf(x) * other.cdf(x - margin), margin, 1, limit=400, points=[at])[0])


@pytest.mark.parametrize(
    ("good", "bad", "margin"),
    [
        ((900, 1000), (800, 1000), 0.01),
        ((900, 1000), (900, 1000), 0.001),
        ((176, 200), (180, 200), 0.02),
        ((5, 6), (3, 7), 0.1),
    ],
)
def test_the_probability_to_be_worse_is_that_of_two_levels(
    good: tuple[int, int], bad: tuple[int, int], margin: float
) -> None:
    """Levels lie in cells of a grid, so a margin is kept to within one cell."""
    cell = 1 / posterior.POINTS
    found = worse([Sample(*good)], [Sample(*bad)], margin)
    assert beta_worse(good, bad, margin + cell) <= found <= beta_worse(good, bad, margin - cell)


def test_a_sample_tells_most_where_the_odds_are_even() -> None:
    """A commit that is bad for sure, or good for sure, tells nothing; information is in nats."""
    prior = np.array([0.5, 0.5])
    mean = np.array([[0.9, 0.5], [0.9, 0.9]])
    told = information(prior, mean, np.full((2, 2), 1e-4))
    assert abs(told[0] - math.log(2)) <= math.log(2) * math.erfc(4 / math.sqrt(2))  # beyond four deviations
    assert told[1] == 0.0


def test_scatter_of_equal_samples_is_chance() -> None:
    """One sample a commit says nothing; unequal ones are unlikely."""
    assert scatter([[Sample(9, 10)], [Sample(1, 10)]]) == 1.0
    assert scatter([[Sample(900, 1000), Sample(903, 1000)]]) > 0.5
    assert scatter([[Sample(900, 1000), Sample(800, 1000)]]) < 1e-6
