"""Which commit is the first bad one, as probabilities, from samples that are each right in k of n questions.

Contract: one commit is the first bad one, each with the same probability before anything is measured. Commits
before it are right with one probability, the others with another one that is lower by at least ``margin``;
nothing else is known of the two, and both are integrated out on a grid. A commit that changes nothing for the
worse still changes some answers, so each has its own probability, ``spread`` (one standard deviation) around
that; many samples of one commit count no more than that allows. How this would fail silently: a server that
drifts makes it as sure as it is wrong; so what is measured twice is held against chance (`scatter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
POINTS = 1000
"""Probabilities on the grid: one for each thousandth."""
OUTCOMES = 48
"""Outcomes of a sample that are weighed before it is taken."""


@dataclass(frozen=True)
class Sample:
    """``right`` of ``asked`` questions."""

    right: int
    asked: int


def grid() -> Floats:
    """Probabilities of a right answer, in the middle of their cells."""
    return np.asarray((np.arange(POINTS) + 0.5) / POINTS)


def log_likelihood(right: Floats, asked: Floats) -> Floats:
    """[commits, grid]: of counts [commits], at every probability of the grid."""
    at = grid()
    return right[:, None] * np.log(at) + (asked - right)[:, None] * np.log1p(-at)


def log_evidence(good: tuple[Floats, Floats], bad: tuple[Floats, Floats], margin: float) -> Floats:
    """[splits]: of two groups of counts (right, asked), each [splits], with bad lower by ``margin`` or more.

    Summed over all pairs of probabilities that are so far apart, each as likely as another; without the
    factor that is the same for every split.
    """
    above, below = log_likelihood(*good), log_likelihood(*bad)
    top, under = above.max(axis=1), below.max(axis=1)
    up_to = np.cumsum(np.exp(below - under[:, None]), axis=1)
    step = steps(margin)
    found = (np.exp(above - top[:, None])[:, step:] * up_to[:, :-step]).sum(axis=1)
    return np.asarray(np.log(np.maximum(found, np.finfo(float).tiny)) + top + under)


def worse(good: Sequence[Sample], bad: Sequence[Sample], margin: float) -> float:
    """Probability that ``bad`` is right less often by ``margin`` or more.

    Each of the two probabilities is as likely as another before anything is measured.
    """
    above, below = (np.exp(at - at.max()) for at in (log_likelihood(*_totals(one))[0] for one in (good, bad)))
    up_to = np.concatenate([np.zeros(steps(margin)), np.cumsum(below)])[:POINTS]
    return float((above * up_to).sum() / (above.sum() * below.sum()))


def steps(margin: float) -> int:
    """``margin`` in cells of the grid, at least one."""
    return max(1, round(margin * POINTS))


def _totals(samples: Sequence[Sample]) -> tuple[Floats, Floats]:
    return (
        np.array([sum(one.right for one in samples)], dtype=float),
        np.array([sum(one.asked for one in samples)], dtype=float),
    )


def scatter(samples: Sequence[Sequence[Sample]]) -> float:
    """How likely samples of one commit (an inner sequence) differ as much by chance; 1.0 without any two."""
    from scipy.stats import chi2

    total, free = 0.0, 0
    for group in samples:
        right, asked = (float(part[0]) for part in _totals(group))
        if len(group) < 2 or not 0 < right < asked:
            continue
        mean = right / asked
        total += sum((one.right - one.asked * mean) ** 2 / (one.asked * mean * (1 - mean)) for one in group)
        free += len(group) - 1
    return float(chi2.sf(total, free)) if free else 1.0


@dataclass
class Search:
    """Commit 0 is the good end, commit ``last`` the bad one; the first bad one is 1 to ``last``.

    ``margin`` and ``spread`` are shares of the questions. ``closed``: commits that cannot be asked any more.
    """

    last: int
    margin: float
    spread: float
    confidence: float
    samples: dict[int, list[Sample]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    _known: tuple[int, Floats] = field(default=(-1, np.zeros(0)))

    def add(self, commit: int, sample: Sample) -> None:
        self.samples.setdefault(commit, []).append(sample)

    def probabilities(self) -> Floats:
        """[last + 1]: of each commit to be the first bad one; commit 0 has none."""
        key = sum(map(len, self.samples.values()))
        if key != self._known[0]:
            self._known = key, self._probabilities()
        return self._known[1]

    def _probabilities(self) -> Floats:
        right, asked = self._counts()
        before = np.cumsum(right)[:-1], np.cumsum(asked)[:-1]
        after = right.sum() - before[0], asked.sum() - before[1]
        weight = log_evidence(before, after, self.margin)
        weight = np.exp(weight - weight.max())
        return np.concatenate([[0.0], weight / weight.sum()])

    def groups(self) -> list[list[int]]:
        """Candidates in groups that no commit between them, which nobody can ask, tells apart."""
        found: list[list[int]] = [[]]
        for candidate in range(1, self.last + 1):
            found[-1].append(candidate)
            if candidate not in self.closed or candidate in self.samples:
                found.append([])
        return [group for group in found if group]

    def answer(self) -> tuple[list[int], float]:
        """(the most likely group of candidates, how likely it is)."""
        at = self.probabilities()
        best = max(self.groups(), key=lambda group: float(at[group].sum()))
        return best, float(at[best].sum())

    @property
    def settled(self) -> bool:
        return self.answer()[1] >= self.confidence

    def next(self) -> int | None:
        """The commit, an end included, whose next sample is expected to tell most; None where all are closed.

        What it tells is the mutual information of the share that is right and the first bad commit.
        """
        open_ = [commit for commit in range(self.last + 1) if commit not in self.closed]
        if not open_:
            return None
        mean, variance = self._levels(np.array(open_))
        told = information(self.probabilities()[1:], mean, variance)
        return open_[int(told.argmax())]

    def _levels(self, commits: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """(mean, variance), each [commits, last]: of a sample's share, for each first bad commit."""
        right, asked = self._counts()
        good = np.cumsum(right)[:-1], np.cumsum(asked)[:-1]
        bad = right.sum() - good[0], asked.sum() - good[1]
        more = self._more()[commits]
        levels = []
        for hits, count in (good, bad):
            at = (hits + 1) / (count + 2)
            levels.append((at, at * (1 - at) * (1 / (count + 3) + 1 / more[:, None])))
        is_good = commits[:, None] < np.arange(1, self.last + 1)
        mean, variance = (np.where(is_good, *pair) for pair in zip(*levels, strict=True))
        return mean, variance

    def _more(self) -> Floats:
        """[last + 1]: independent questions that another sample of a commit would add."""
        counts = self._sums()[1]
        size = float(np.mean([one.asked for found in self.samples.values() for one in found]))
        return np.maximum(self._worth(counts + size) - self._worth(counts), 1e-3)

    def _worth(self, asked: Floats) -> Floats:
        """How many independent questions ``asked`` ones of a single commit are worth."""
        right, count = (part.sum() for part in self._sums())
        share = (right + 1) / (count + 2)
        return asked / (1 + asked * self.spread**2 / (share * (1 - share)))

    def _counts(self) -> tuple[Floats, Floats]:
        """(right, asked), each [last + 1], in independent questions."""
        right, asked = self._sums()
        worth = self._worth(asked)
        return right * worth / np.maximum(asked, 1), worth

    def _sums(self) -> tuple[Floats, Floats]:
        """(right, asked), each [last + 1], of all samples of a commit together."""
        right, asked = np.zeros(self.last + 1), np.zeros(self.last + 1)
        for commit, found in self.samples.items():
            right[commit] = sum(one.right for one in found)
            asked[commit] = sum(one.asked for one in found)
        return right, asked


def information(prior: Floats, mean: Floats, variance: Floats) -> Floats:
    """[commits]: nats that a normal outcome tells of the hypotheses; ``prior`` [h], others [commits, h]."""
    spread = np.sqrt(variance)
    heavy = prior > prior.max() * 1e-6
    low = (mean - 4 * spread)[:, heavy].min(axis=1, keepdims=True)
    high = (mean + 4 * spread)[:, heavy].max(axis=1, keepdims=True)
    at = low + (high - low) * (np.arange(OUTCOMES) + 0.5) / OUTCOMES
    away = (at[:, None, :] - mean[:, heavy, None]) / spread[:, heavy, None]
    density = np.exp(-0.5 * away**2) / spread[:, heavy, None]
    weight = prior[heavy] / prior[heavy].sum()
    mixed = np.einsum("h,chy->cy", weight, density)
    ratio = np.log(
        np.maximum(density, np.finfo(float).tiny) / np.maximum(mixed, np.finfo(float).tiny)[:, None]
    )
    told = np.einsum("h,chy->c", weight, density * ratio) * (high - low)[:, 0] / OUTCOMES
    return np.asarray(told / np.sqrt(2 * np.pi))
