"""Two legs compared: by question where both answered the same ones, by counts where nothing else is known.

Paired, a question's answers over the samples of a leg become one mean, and the difference of the two
means is what is analysed: questions are the clusters, repeats only make the means better known.
Intervals and equivalence hold their level at every number of questions (`bounded`, `melded`).
How it would fail silently: repeats taken as further questions make every interval too narrow, and
unpaired formulas on paired data make them too wide; each result says which it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from harness.legs.pool import bounded, melded, power
from harness.legs.pool.answers import LEVEL, Interval

FISHER = "Fisher's exact test, unpaired, twice the smaller side"
CHANGE = (-1.0, 1.0)
"""Bounds of a question's change."""


@dataclass(frozen=True)
class Between:
    """Leg ``other`` against leg ``base`` under one filter; differences are ``other`` minus ``base``.

    ``compared``: questions (paired) or the smaller number of answers. ``gained``/``lost``: questions
    that ``other`` answers better / worse (None unpaired). ``p``: two-sided ``test`` of no difference.
    ``detectable``: smallest loss that is seen with 80 % power at the 5 % level (`power`; NaN: none is).
    ``margin``: that of the equivalence test, ``equivalence`` its p (NaN: undefined). ``band``: largest
    difference of two samples of one leg (NaN: no leg was measured twice). ``alone``: questions that only
    ``base``, and only ``other``, answered; they are in no other figure.
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
    alone: tuple[int, int] = (0, 0)


def paired(
    base: pd.DataFrame, other: pd.DataFrame, names: tuple[str, str], which: str, margin: float, band: float
) -> Between:
    """Compare two matrices of answers [questions, samples] on the questions both answered."""
    change = changes(base, other)
    count = len(change)
    gained, lost = int((change > 0).sum()), int((change < 0).sum())
    variance = float(change.var(ddof=1)) if count > 1 else math.nan
    signs = base.shape[1] == other.shape[1] == 1
    return Between(
        *names,
        which,
        True,
        count,
        gained,
        lost,
        float(change.mean()) if count else math.nan,
        math.sqrt(variance / count) if count > 1 else math.nan,
        _around(change),
        mcnemar(gained, lost) if signs else mean_test(change),
        "exact McNemar" if signs else "Gaffke's test on questions' changes",
        power.of_questions(variance, count),
        margin,
        equivalent(change, margin),
        band,
        (_answered(base) - count, _answered(other) - count),
    )


def unmeasured(names: tuple[str, str], which: str, margin: float) -> Between:
    """Two legs (base, other) of which one is not measured: nothing is compared."""
    nan, none = math.nan, Interval(math.nan, math.nan, "not measured")
    return Between(
        *names, which, True, 0, None, None, nan, nan, none, nan, "not measured", nan, margin, nan, nan
    )


def _answered(answers: pd.DataFrame) -> int:
    return int(answers.notna().any(axis=1).sum())


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
    return Between(
        *names,
        which,
        False,
        min(m, n),
        None,
        None,
        k / n - j / m,
        error,
        Interval(*melded.limits(base, other, LEVEL), "melded Clopper-Pearson, unpaired"),
        fisher(base, other),
        FISHER,
        power.of_counts(base, n),
        margin,
        equivalent_counts(base, other, margin),
        band,
    )


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p of ``gained`` against ``lost`` questions; 1 without a discordant one."""
    if not gained + lost:
        return 1.0
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue)


def fisher(base: tuple[int, int], other: tuple[int, int]) -> float:
    """Two-sided exact p of two (right, answered), by the very test that their interval is made by.

    Twice the smaller side (Fay 2010, Biostatistics 11, 373): summing the outcomes that are no likelier than
    the one seen can reject what the interval holds.
    """
    return min(1.0, 2 * min(melded.at_most(base, other, 0.0), melded.at_least(base, other, 0.0)))


def mean_test(change: np.ndarray) -> float:
    """Two-sided p that the mean of ``change`` is 0; NaN without one.

    For legs with several samples: a sign test on the questions' means would throw away how far they
    moved, and see 63 % of the losses that are seen in 80 % here. Of whole changes it is `mcnemar`.
    """
    return bounded.differs(change, CHANGE, 0.0) if len(change) else math.nan


def equivalent(change: np.ndarray, margin: float, around: float = 0.0) -> float:
    """p of two one-sided tests that the mean of ``change`` lies outside ``around`` +-``margin``.

    NaN without a question or a margin.
    """
    if not len(change) or margin <= 0:
        return math.nan
    least, most = CHANGE
    above = bounded.at_most(change, least, around - margin)
    return max(above, bounded.at_least(change, most, around + margin))


def equivalent_counts(base: tuple[int, int], other: tuple[int, int], margin: float) -> float:
    """p of two one-sided tests for two independent (right, answered); NaN where undefined."""
    if margin <= 0 or not base[1] or not other[1]:
        return math.nan
    return max(melded.at_most(base, other, -margin), melded.at_least(base, other, margin))


def unseen(count: int) -> float:
    """Rate of differing questions that ``count`` alike ones do not rule out: 1 - 0.05^(1/count)."""
    return 1 - LEVEL ** (1 / count) if count else math.nan


def _around(change: np.ndarray) -> Interval:
    if not len(change):
        return Interval(math.nan, math.nan, "undefined")
    return Interval(*bounded.limits(change, CHANGE, LEVEL), "Gaffke, paired, clustered by question")
