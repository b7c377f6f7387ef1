"""Two legs compared: by question where both answered the same ones, by counts where nothing else is known.

Paired, a question's answers over the samples of a leg become one mean, and the difference of the two
means is what is analysed: questions are the clusters, repeats only make the means better known.
How it would fail silently: repeats taken as further questions make every interval too narrow, and
unpaired formulas on paired data make them too wide; each result says which it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, tost_proportions_2indep
from statsmodels.stats.weightstats import DescrStatsW

from harness.legs.pool.answers import LEVEL, Interval

FISHER = "Fisher's exact test, unpaired"
POWER = 0.80
"""Power of the smallest difference that a comparison can see."""


@dataclass(frozen=True)
class Between:
    """Leg ``other`` against leg ``base`` under one filter; differences are ``other`` minus ``base``.

    ``compared``: questions (paired) or the smaller number of answers. ``gained``/``lost``: questions
    that ``other`` answers better / worse (None unpaired). ``p``: two-sided ``test`` of no difference.
    ``detectable``: difference seen with 80 % power at the 5 % level. ``margin``: that of the
    equivalence test, ``equivalence`` its p (NaN: undefined). ``band``: largest difference of two
    samples of one leg (NaN: no leg was measured twice).
    """

    base: str
    other: str
    which: str
    paired: bool
    compared: int
    gained: int | None
    lost: int | None
    difference: float
    error: float
    interval: Interval
    p: float
    test: str
    detectable: float
    margin: float
    equivalence: float
    band: float


def paired(
    base: pd.DataFrame, other: pd.DataFrame, names: tuple[str, str], which: str, margin: float, band: float
) -> Between:
    """Compare two matrices of answers [questions, samples] on the questions both answered."""
    change = changes(base, other)
    count = len(change)
    gained, lost = int((change > 0).sum()), int((change < 0).sum())
    deviation = float(change.std(ddof=1)) if count > 1 else math.nan
    error = deviation / math.sqrt(count) if count > 1 else math.nan
    difference = float(change.mean()) if count else math.nan
    # Where every question moved alike there is no error, and a t test would not see a total loss.
    signs = base.shape[1] == other.shape[1] == 1 or (error == 0 and difference != 0)
    return Between(
        *names,
        which,
        True,
        count,
        gained,
        lost,
        difference,
        error,
        _around(difference, error, count),
        mcnemar(gained, lost) if signs else mean_test(difference, error, count),
        "exact McNemar" if signs else "t test on questions' means",
        detectable(error),
        margin,
        equivalent(change, margin),
        band,
    )


def changes(base: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Difference of the means of each question [questions] that both matrices answer."""
    means = pd.concat([base.mean(axis=1), other.mean(axis=1)], axis=1, join="inner", keys=["base", "other"])
    return np.asarray((means["other"] - means["base"]).dropna(), dtype=np.float64)


def unpaired(
    base: tuple[int, int],
    other: tuple[int, int],
    names: tuple[str, str],
    which: str,
    margin: float,
    band: float,
) -> Between:
    """Compare two (right, answered), of which nothing else is known."""
    (j, m), (k, n) = base, other
    if not m or not n:
        undefined = Interval(math.nan, math.nan, "undefined")
        nan = math.nan
        return Between(
            *names, which, False, 0, None, None, nan, nan, undefined, nan, FISHER, nan, margin, nan, band
        )
    error = math.sqrt(j / m * (1 - j / m) / m + k / n * (1 - k / n) / n)
    low, high = confint_proportions_2indep(k, n, j, m, compare="diff", method="newcomb", alpha=LEVEL)
    table = np.array([[k, n - k], [j, m - j]])
    return Between(
        *names,
        which,
        False,
        min(m, n),
        None,
        None,
        k / n - j / m,
        error,
        Interval(float(low), float(high), "Newcombe, unpaired"),
        float(stats.fisher_exact(table)[1]),
        FISHER,
        detectable(error),
        margin,
        equivalent_counts(base, other, margin),
        band,
    )


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p of ``gained`` against ``lost`` questions; 1 without a discordant one."""
    if not gained + lost:
        return 1.0
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue)


def mean_test(difference: float, error: float, count: int) -> float:
    """Two-sided p of the t test that the questions' mean difference is 0; 1 where all are 0, NaN undefined.

    For legs with several samples: a sign test on the questions' means would throw away how far they
    moved, and see 63 % of the losses that `detectable` says are seen in 80 %.
    """
    if error > 0:
        return float(2 * stats.t.sf(abs(difference) / error, count - 1))
    return 1.0 if difference == 0 else math.nan


def detectable(error: float) -> float:
    """Smallest true difference seen with `POWER` at `LEVEL`, two-sided, for a standard error (normal)."""
    return float(stats.norm.ppf(1 - LEVEL / 2) + stats.norm.ppf(POWER)) * error if error > 0 else math.nan


def equivalent(change: np.ndarray, margin: float) -> float:
    """p that the mean of ``change`` lies outside +-margin; NaN where undefined.

    Whole changes (one sample a leg, or samples that never flip) are counts, and few of them are skewed: the t
    tests would call 1 lost question of 275 equivalent within a point in 17 % of the worlds where it is not.
    """
    if len(change) > 1 and margin > 0 and bool(np.isin(change, (-1.0, 0.0, 1.0)).all()):
        return equivalent_pairs(int((change > 0).sum()), int((change < 0).sum()), len(change), margin)
    return equivalent_mean(change, margin)


def equivalent_pairs(gained: int, lost: int, count: int, margin: float) -> float:
    """p of two one-sided score tests of a paired difference (Tango 1998, Statistics in Medicine 17, 891);
    NaN where no question changed."""
    if not gained + lost:
        return math.nan
    low, high = (_tango(gained, lost, count, bound) for bound in (-margin, margin))
    return float(max(stats.norm.sf(low), stats.norm.cdf(high)))


def _tango(gained: int, lost: int, count: int, difference: float) -> float:
    """Score statistic of (gained - lost) / count against ``difference``."""
    a, rest = 2 * count, difference * (1 - difference)
    b = -gained - lost + (2 * count - gained + lost) * difference
    c = -lost * rest
    rate = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    variance = count * (2 * rate + rest)
    return (gained - lost - count * difference) / math.sqrt(variance)


def equivalent_mean(change: np.ndarray, margin: float) -> float:
    """p of two one-sided t tests that the mean of ``change`` lies outside +-margin; NaN where undefined."""
    if len(change) < 2 or float(change.std()) == 0 or margin <= 0:
        return math.nan
    return float(DescrStatsW(change).ttost_mean(-margin, margin)[0])


def equivalent_counts(base: tuple[int, int], other: tuple[int, int], margin: float) -> float:
    """p of two one-sided tests (Agresti-Caffo) for two independent proportions; NaN where undefined."""
    (j, m), (k, n) = base, other
    if margin <= 0 or not m or not n:
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore"):  # its odds ratio of 0/n or n/n, which is not used
        return float(tost_proportions_2indep(k, n, j, m, -margin, margin, method="agresti-caffo").pvalue)


def unseen(count: int) -> float:
    """Rate of differing questions that ``count`` alike ones do not rule out: 1 - 0.05^(1/count)."""
    return 1 - LEVEL ** (1 / count) if count else math.nan


def _around(difference: float, error: float, count: int) -> Interval:
    if not error > 0:
        return Interval(math.nan, math.nan, "undefined")
    reach = float(stats.t.ppf(1 - LEVEL / 2, count - 1)) * error
    return Interval(difference - reach, difference + reach, "paired, clustered by question")
