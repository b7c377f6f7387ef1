"""Claims about two legs, or two samples of one, against measured answers paired by question.

Contract: a claimed difference is itself a measurement, so ``not reproduced`` asks for more than the measured
interval to exclude it: the claim's own error is counted too. The failure to fear is a claim within its own
error of the measured value that is called refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from harness.legs.claims.arithmetic import standard_errors
from harness.legs.claims.audit import claimed_counts
from harness.legs.claims.reported import Claim, Report
from harness.legs.claims.reproduce import Answer, Finding
from harness.legs.pool.answers import LEVEL, Interval, clustered, matrix, summed
from harness.legs.pool.between import changes, equivalent, paired
from harness.legs.pool.power import POWER, of_questions
from harness.legs.pool.words import points, sight

REACH = float(stats.norm.ppf(1 - LEVEL) + stats.norm.ppf(1 - (1 - POWER) / 2))
"""Standard errors in a margin within which both one-sided tests pass with `POWER` where nothing differs."""


def of_claim(
    claim: Claim, told: Report, table: pd.DataFrame, names: tuple[str, str], margin: float
) -> list[Finding]:
    """``claim`` against legs ``names`` (base, leg) of ``table``; a finding for each filter it is about."""
    if claim.kind == "difference":
        filters = [w for w in told.legs[claim.leg].scores if w in told.legs[claim.base].scores]
        level = LEVEL / len(filters)
        return [_difference(claim, told, table, names, which, margin, level) for which in filters]
    judge = _spread if claim.kind == "spread" else _detectable
    return [judge(claim, table, names, which, margin) for which in claim.points]


def _difference(
    claim: Claim,
    told: Report,
    table: pd.DataFrame,
    names: tuple[str, str],
    which: str,
    margin: float,
    level: float,
) -> Finding:
    one, two = told.legs[claim.base], told.legs[claim.leg]
    j, k = (claimed_counts(leg, which, told) for leg in (one, two))
    base, other = (matrix(table, name, which) for name in names)
    bands = [summed(answers, "", which).band for answers in (base, other)]
    band = max((value for value in bands if not math.isnan(value)), default=math.nan)
    found = paired(base, other, names, which, margin, band)
    if len(j) != 1 or len(k) != 1:
        said = "the reported figures leave no one count each, so no one difference"
        return _finding(
            which, Answer.CANNOT_TELL, said, "none", found.difference, math.nan, found.interval, margin
        )
    value = k[0] / two.n - j[0] / one.n
    apart = found.difference - value
    own = math.hypot(standard_errors(j[0], one.n)[0], standard_errors(k[0], two.n)[0])
    p = 2 * float(stats.norm.sf(abs(apart) / math.hypot(own, found.error))) if found.error > 0 else math.nan
    equivalence = equivalent(changes(base, other), margin, around=value)
    low, high = found.interval.low, found.interval.high
    resolved = (value < low or value > high) and p < level
    outside = math.isnan(band) or abs(apart) > band
    span = (
        f"measured {_signed(found.difference)} points (95 % interval {_signed(low)} to {_signed(high)}),"
        f" claimed {_signed(value)}"
    )
    if equivalence < LEVEL:
        word, said = Answer.REPRODUCED, f"{span}: within {points(margin)} points (p = {equivalence:.2g})"
    elif resolved and outside:
        word, said = Answer.NOT_REPRODUCED, f"{span}, {points(abs(apart))} points away (p = {p:.2g})"
    elif resolved:
        word, said = Answer.CANNOT_TELL, f"{span}, inside the run-to-run spread of {points(band)} points"
    elif math.isnan(found.error) or not found.error > 0:
        word, said = Answer.CANNOT_TELL, f"{span}: every question changed alike or none did, so no interval"
    else:
        more = math.ceil(found.compared * (found.error * REACH / margin) ** 2)
        word = Answer.CANNOT_TELL
        said = (
            f"{span}; {sight(found.detectable)}, the claim's own error is {points(own)};"
            f" about {more} questions would decide within {points(margin)} points"
        )
    return Finding(
        which, word, said, _signed(value), _signed(found.difference), apart, found.interval, p,
        "normal, with the claim's own error", equivalence, margin, band, found.detectable,
    )  # fmt: skip


def _spread(claim: Claim, table: pd.DataFrame, names: tuple[str, str], which: str, margin: float) -> Finding:
    """Do two samples of a leg lie so far apart by chance? From the rate at which answers flip."""
    answers, value = matrix(table, names[1], which), float(claim.points[which].value) / 100
    if answers.shape[1] < 2:
        said = "measured once: how far two samples lie apart is not known"
        return _finding(which, Answer.CANNOT_TELL, said, points(value), math.nan, math.nan, None, margin)
    squares = pd.concat([(answers[a] - answers[b]) ** 2 for a, b in combinations(answers.columns, 2)], axis=1)
    reach = _scaled(
        squares, lambda rate, count: float(stats.norm.ppf(1 - LEVEL / 2)) * math.sqrt(rate / count)
    )
    measured, low, high = reach
    span = f"19 of 20 pairs of samples lie within {points(measured)} points ({points(low)} to {points(high)})"
    word = _placed(value <= low, value > high)
    said = f"{span}, claimed are {points(value)}"
    return _finding(
        which, word, said, points(value), measured, measured - value, Interval(low, high, "flips"), margin
    )


def _detectable(
    claim: Claim, table: pd.DataFrame, names: tuple[str, str], which: str, margin: float
) -> Finding:
    """Are differences below the claimed points not seen here either? From how much answers change."""
    base, other = (matrix(table, name, which) for name in names)
    value = float(claim.points[which].value) / 100
    squares = pd.DataFrame({"square": changes(base, other) ** 2})
    measured, low, high = _scaled(squares, of_questions)
    span = f"losses below {points(measured)} points are not seen ({points(low)} to {points(high)})"
    word = _placed(value <= low, value > high)
    said = f"{span}, claimed are {points(value)}"
    return _finding(
        which, word, said, points(value), measured, measured - value, Interval(low, high, "changes"), margin
    )


def _placed(below: bool, above: bool) -> Answer:
    if below:
        return Answer.REPRODUCED
    return Answer.NOT_REPRODUCED if above else Answer.CANNOT_TELL


def _scaled(squares: pd.DataFrame, scale: Callable[[float, int], float]) -> tuple[float, float, float]:
    """``scale`` of the mean of ``squares`` [questions, pairs] and of the bounds of its interval."""
    means = squares.mean(axis=1).dropna()
    _, interval = clustered(squares)
    ends = np.maximum([float(means.mean()) if len(means) else math.nan, interval.low, interval.high], 0.0)
    middle, low, high = (scale(float(end), max(1, len(means))) for end in ends)
    return middle, low, high


def _finding(
    which: str,
    word: Answer,
    said: str,
    claimed: str,
    measured: float,
    apart: float,
    interval: Interval | None,
    margin: float,
) -> Finding:
    nan = math.nan
    around = interval or Interval(nan, nan, "undefined")
    return Finding(
        which, word, said, claimed, points(measured), apart, around, nan, "none", nan, margin, nan, nan
    )


def _signed(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{100 * value:+.2f}"
