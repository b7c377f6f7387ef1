"""Does a measured leg reproduce a reported one? Counts against counts, and no more than they carry.

Contract: reported and measured answers count as two independent samples, since nobody knows which questions
the reported ones are; on the same questions this is too careful, never too bold. ``reproduced`` needs an
equivalence test within the margin under every filter, ``not reproduced`` a resolved difference larger than
the run-to-run spread, all else is ``cannot tell``. The failure to fear is a small n that sees no difference
and is called a reproduction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import pandas as pd
from statsmodels.stats.power import NormalIndPower

from harness.legs.claims.audit import claimed_counts
from harness.legs.claims.reported import Leg, Report
from harness.legs.pool.answers import LEVEL, Alone, Interval, alone
from harness.legs.pool.between import unpaired
from harness.legs.pool.power import POWER
from harness.legs.pool.words import points, sight


class Answer(StrEnum):
    """What a claim comes to when it is measured again."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Finding:
    """A claim under one filter. ``claimed``, ``measured``: as printed; else proportions, NaN undefined.

    ``difference``: measured minus claimed; ``p``: two-sided, that it is 0 by ``test``; ``equivalence``: p of
    two one-sided tests against ``margin``; ``detectable``: smallest loss seen with 80 % power.
    """

    which: str
    answer: Answer
    said: str
    claimed: str
    measured: str
    difference: float
    interval: Interval
    p: float
    test: str
    equivalence: float
    margin: float
    band: float
    detectable: float


def overall(findings: Sequence[Finding]) -> Answer:
    """One answer of all filters: reproduced needs all of them, not reproduced any."""
    found = [one.answer for one in findings]
    if Answer.NOT_REPRODUCED in found:
        return Answer.NOT_REPRODUCED
    whole = bool(found) and all(one is Answer.REPRODUCED for one in found)
    return Answer.REPRODUCED if whole else Answer.CANNOT_TELL


def of_leg(leg: Leg, told: Report, table: pd.DataFrame, name: str, margin: float) -> list[Finding]:
    """``leg`` against the measured leg ``name`` of ``table``; a finding for each filter it reports."""
    filters = [*leg.scores, *(which for which in leg.plus if which not in leg.scores)]
    level = LEVEL / max(1, len(filters))
    return [
        of_counts(claimed_counts(leg, which, told), leg.n, alone(table, name, which), margin, level)
        for which in filters
    ]


def of_counts(
    claimed: Sequence[int], n: int, measured: Alone, margin: float, level: float = LEVEL
) -> Finding:
    """One filter: ``claimed`` are the counts of ``n`` that the report leaves, all of which must agree.

    ``level``: what p of a difference must be below, which several filters share.
    """
    if not claimed:
        return _undefined(measured, margin, f"the report leaves no count of right answers over {n} questions")
    if not measured.answered:
        return _undefined(measured, margin, "nothing was answered")
    nearest = min(claimed, key=lambda k: abs(k / n - measured.accuracy))
    ends = [_of_count(k, n, measured, margin, level) for k in sorted({claimed[0], nearest, claimed[-1]})]
    if len({one.answer for one in ends}) == 1:
        return ends[0]
    said = f"the report leaves {claimed[0]} to {claimed[-1]} of {n}, which come to different answers"
    return replace(ends[0], answer=Answer.CANNOT_TELL, said=said)


def _of_count(k: int, n: int, measured: Alone, margin: float, level: float) -> Finding:
    found = unpaired(
        (k, n), measured.of_one_sample, ("reported", measured.leg), measured.which, margin, measured.band
    )
    low, high = points(found.interval.low), points(found.interval.high)
    span = f"{points(found.difference)} points from the reported figure (95 % interval {low} to {high})"
    excludes = found.interval.low > 0 or found.interval.high < 0
    resolved = excludes and found.p < level
    outside = math.isnan(found.band) or abs(found.difference) > found.band
    if found.equivalence < LEVEL:
        word = Answer.REPRODUCED
        said = f"equivalent within {points(margin)} points (p = {found.equivalence:.2g}), {span}"
        said += "; the difference is resolved, and smaller than the margin" if resolved and outside else ""
    elif resolved and outside:
        word, said = Answer.NOT_REPRODUCED, f"{span}, p = {found.p:.2g}"
        said += "; measured once, so the run-to-run spread is unknown" if math.isnan(found.band) else ""
    elif resolved:
        word, said = (
            Answer.CANNOT_TELL,
            f"{span}, inside the run-to-run spread of {points(found.band)} points",
        )
    else:
        word = Answer.CANNOT_TELL
        said = f"{span}; {sight(found.detectable)}; {needed(k, n, margin)}"
    shown = " ".join(f"{right}/{answered}" for right, answered in measured.counts)
    return Finding(
        measured.which, word, said, f"{k}/{n}", shown, found.difference, found.interval, found.p, found.test,
        found.equivalence, margin, found.band, found.detectable,
    )  # fmt: skip


SURE = 1 - (1 - POWER) / 2
"""Power of each of two one-sided tests that both must pass."""


def least_margin(k: int, n: int) -> float:
    """The margin above which some number of answers shows equivalence with k/n, where nothing differs.

    NaN where k/n has no spread.
    """
    spread = k / n * (1 - k / n)
    if not spread > 0:
        return math.nan
    effect = NormalIndPower().solve_power(nobs1=n, alpha=LEVEL, power=SURE, ratio=0, alternative="larger")
    return float(effect) * math.sqrt(spread)


def beforehand(leg: Leg, told: Report, margin: float) -> str:
    """What must be known of ``margin`` before ``leg`` is measured; empty where it can be met."""
    least = max(
        (least_margin(k, leg.n) for which in (*leg.scores, *leg.plus)
         for k in claimed_counts(leg, which, told)),
        default=math.nan,
    )  # fmt: skip
    if math.isnan(least) or margin > least:
        return ""
    return (
        f"within {points(margin)} points {leg.id} can be refuted and not reproduced, whatever is measured: "
        f"its {leg.n} answers need a margin above {points(least)} points"
    )


def needed(k: int, n: int, margin: float) -> str:
    """What could show equivalence within ``margin`` of k/n where the true difference is 0."""
    spread = k / n * (1 - k / n)
    if not spread > 0:
        return "what would be needed is undefined: the reported figure has no spread"
    size = NormalIndPower().solve_power(
        effect_size=margin / math.sqrt(spread), alpha=LEVEL, power=SURE, ratio=0, alternative="larger"
    )
    if size < n:
        more = math.ceil(1 / (1 / size - 1 / n))
        return (
            f"{more} independent answers would show equivalence within {points(margin)} points (80 % power)"
        )
    return (
        f"no number of answers shows equivalence within {points(margin)} points of {n} reported ones alone:"
        f" the margin would have to be above {points(least_margin(k, n))} points"
    )


def _undefined(measured: Alone, margin: float, said: str) -> Finding:
    nan, shown = math.nan, " ".join(f"{right}/{answered}" for right, answered in measured.counts) or "none"
    undefined = Interval(nan, nan, "undefined")
    return Finding(
        measured.which, Answer.CANNOT_TELL, said, "none", shown, nan, undefined, nan, "none", nan, margin,
        measured.band, nan,
    )  # fmt: skip
