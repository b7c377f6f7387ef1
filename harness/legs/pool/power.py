"""The smallest loss that a comparison sees: exact powers of the tests that are used, solved for the loss.

Contract: where a leg loses what is said here, the comparison calls it with `POWER`, or more often; nothing
smaller is promised. The failure to fear is a normal approximation: of 1319 questions of which 2 in 100 flip,
it promises to see a loss of 1.42 points in 80 % of all campaigns, and the exact test sees it in 77 %.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import optimize, stats

from harness.legs.pool.answers import LEVEL

POWER = 0.80
"""Power of the smallest difference that a comparison can see."""

OUTSIDE = 1e-9
"""Chance of the outcomes on either side that are not summed up; they count as not seen."""


def of_questions(variance: float, count: int) -> float:
    """Smallest loss seen in ``count`` questions whose changes vary by ``variance``; NaN where none is.

    Questions flip to either side with a chance of ``variance``/2 each, and a loss turns further ones from
    right to wrong. For one sample a leg this is the unconditional power of the exact McNemar test (Duffy
    1984, Biometrics 40, 1005): the sum, over all numbers of discordant questions, of the chance that so many
    of them are lost that it rejects. For several samples it is on the sure side: of all changes that vary as
    much, Gaffke's test sees losses least often in whole ones, where it is McNemar's.
    """
    return _smallest(lambda loss: _questions(loss, variance, count), 1 - variance)


def of_counts(base: tuple[int, int], answered: int) -> float:
    """Smallest loss seen in ``answered`` answers against ``base`` (right, answered); NaN where none is.

    Both counts are binomial, the base leg's rate being the observed one: the unconditional power of Fisher's
    exact test (Gail and Gart 1973, Biometrics 29, 441), summed over all counts of the base leg. Where that
    has fewer than half of its answers right a gain is meant, which is then the harder one to see.
    """
    right, asked = base
    right = max(right, asked - right)
    rate = right / asked
    return _smallest(lambda loss: _counts(loss, right, asked, answered), rate)


def _smallest(power: Callable[[float], float], most: float) -> float:
    """The loss up to ``most`` at which ``power``, which rises with it, is `POWER`."""
    if not most > 0 or not power(most) >= POWER:
        return float("nan")
    return float(optimize.brentq(lambda loss: power(loss) - POWER, 0.0, most, xtol=1e-6))


def _questions(loss: float, variance: float, count: int) -> float:
    flipped = variance + loss
    if not flipped > 0:
        return 0.0
    least, most = _usual(count, flipped)
    discordant = np.arange(least, most + 1)
    seen = stats.binom.sf(_refuted(count)[discordant], discordant, (variance / 2 + loss) / flipped)
    return float(stats.binom.pmf(discordant, count, flipped) @ seen)


def _usual(count: int, rate: float) -> tuple[int, int]:
    """Counts of ``count`` between which all but `OUTSIDE` on either side lie."""
    return int(stats.binom.ppf(OUTSIDE, count, rate)), int(stats.binom.isf(OUTSIDE, count, rate))


@lru_cache(maxsize=8)
def _refuted(count: int) -> np.ndarray:
    """For 0 to ``count`` discordant questions, the most that can be lost before McNemar's test rejects."""
    return np.asarray(stats.binom.isf(LEVEL / 2, np.arange(count + 1), 0.5), dtype=np.int64)


def _counts(loss: float, right: int, asked: int, answered: int) -> float:
    rate = right / asked
    fewest, most = _usual(asked, rate)
    base = np.arange(fewest, most + 1)
    seen = stats.binom.cdf(_seen(fewest, most, asked, answered), answered, rate - loss)
    return float(stats.binom.pmf(base, asked, rate) @ seen)


@lru_cache(maxsize=64)
def _seen(fewest: int, most: int, asked: int, answered: int) -> np.ndarray:
    """For each count of the base leg from ``fewest`` to ``most``, the most right answers that are a loss; -1
    where none are."""
    base = np.arange(fewest, most + 1)
    low, high = np.full_like(base, -1), np.full_like(base, answered)  # low is a loss, and high is none
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 0)
        lost = stats.hypergeom.cdf(middle, asked + answered, base + middle, answered) < LEVEL / 2
        low, high = np.where(lost, middle, low), np.where(lost, high, middle)
    return low
