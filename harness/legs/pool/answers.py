"""Answers of a leg as a matrix, and what one leg says by itself.

Contract: questions down, samples across, 1 right, 0 wrong, NaN where no reply was had. A failed request
is no wrong answer, so it leaves a hole; a hole counted as 0 would turn a flaky server into a lower
accuracy, which is the silent failure here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from harness.legs.pool import bounded

LEVEL = 0.05
"""Level of every interval and test: 95 % intervals."""

FILTERS = {"strict": "strict_correct", "flexible": "flexible_correct"}
"""Filter to its column in the table of samples (see `harness.legs.journal`)."""


def matrix(table: pd.DataFrame, leg: str, which: str) -> pd.DataFrame:
    """Answers float64 [questions, samples] of ``leg`` under filter ``which``; questions in order.

    Raises ValueError when a question occurs twice in one sample: a sample is one pass over the set. Raises
    it too for an answer that is neither right nor wrong.
    """
    rows = table[table["leg"] == leg]
    twice = rows.duplicated(["sample", "question"])
    if bool(twice.any()):
        first = rows[twice].iloc[0]
        raise ValueError(f"leg {leg} has question {first['question']} twice in sample {first['sample']}")
    right = pd.to_numeric(rows[FILTERS[which]].astype("object"), errors="raise").astype("float64")
    beyond = right.notna() & ~right.isin((0.0, 1.0))
    if bool(beyond.any()):
        raise ValueError(f"leg {leg} has an answer of {right[beyond].iloc[0]:g}, allowed are 0 and 1")
    frame = pd.DataFrame({"question": rows["question"], "sample": rows["sample"], "right": right})
    return frame.pivot(index="question", columns="sample", values="right").sort_index()


@dataclass(frozen=True)
class Interval:
    """A 95 % interval and what it was made by; NaN bounds: undefined."""

    low: float
    high: float
    method: str


@dataclass(frozen=True)
class Alone:
    """One leg under one filter.

    ``counts``: (right, answered) of each sample. ``error``: standard error of ``accuracy``. ``spread``:
    standard deviation of the samples' accuracies; ``band``: largest difference of two samples;
    ``flips``: share of questions on which two samples differ, over all pairs. NaN with one sample.
    """

    leg: str
    which: str
    counts: tuple[tuple[int, int], ...]
    accuracy: float
    error: float
    interval: Interval
    spread: float
    band: float
    flips: float

    @property
    def answered(self) -> int:
        return sum(n for _, n in self.counts)

    @property
    def of_one_sample(self) -> tuple[int, int]:
        """(right, answered) of one sample of average size: repeats are not further questions."""
        size = round(self.answered / len(self.counts)) if self.counts else 0
        return (round(self.accuracy * size) if size else 0), size


def unmeasured(leg: str, which: str) -> Alone:
    """A leg without a figure: what it answered is no accuracy."""
    nan = math.nan
    return Alone(leg, which, (), nan, nan, Interval(nan, nan, "not measured"), nan, nan, nan)


def alone(table: pd.DataFrame, leg: str, which: str) -> Alone:
    """What ``leg`` says by itself. Samples of one set of questions are no independent draws, so several
    are pooled by question: the error is that of the questions' means."""
    return summed(matrix(table, leg, which), leg, which)


def summed(answers: pd.DataFrame, leg: str, which: str) -> Alone:
    """`alone` of a matrix of answers."""
    columns = [answers[sample].dropna() for sample in answers.columns]
    counts = tuple((int(column.sum()), len(column)) for column in columns if len(column))
    right, answered = sum(k for k, _ in counts), sum(n for _, n in counts)
    accuracy = right / answered if answered else math.nan
    rates = np.array([k / n for k, n in counts])
    several = len(counts) > 1
    error, interval = clustered(answers) if several else single(right, answered)
    return Alone(
        leg,
        which,
        counts,
        accuracy,
        error,
        interval,
        float(rates.std(ddof=1)) if several else math.nan,
        float(rates.max() - rates.min()) if several else math.nan,
        flips(answers) if several else math.nan,
    )


def single(right: int, answered: int) -> tuple[float, Interval]:
    """(standard error sqrt(p(1-p)/n), Wilson interval) of one sample."""
    if not answered:
        return math.nan, Interval(math.nan, math.nan, "undefined")
    rate = right / answered
    low, high = proportion_confint(right, answered, alpha=LEVEL, method="wilson")
    bounds = max(0.0, float(low)), min(1.0, float(high))  # rounding can put them just outside
    return math.sqrt(rate * (1 - rate) / answered), Interval(*bounds, "Wilson")


def clustered(answers: pd.DataFrame) -> tuple[float, Interval]:
    """(standard error, interval within 0 and 1) of the mean of the questions' means: clusters are questions.

    For any matrix of numbers from 0 to 1; the error is NaN with a single question.
    """
    means = answers.mean(axis=1).dropna().to_numpy(dtype=np.float64)
    if not len(means):
        return math.nan, Interval(math.nan, math.nan, "undefined")
    error = float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan
    return error, Interval(*bounded.limits(means, (0.0, 1.0), LEVEL), "Gaffke, clustered by question")


def flips(answers: pd.DataFrame) -> float:
    """Share of questions on which two samples differ, over all pairs of samples that both answered."""
    differing, compared = flip_counts(answers)
    return differing / compared if compared else math.nan


def flip_counts(answers: pd.DataFrame) -> tuple[int, int]:
    """(differing, compared): answers to one question by two samples, over all pairs of samples."""
    differing, compared = 0, 0
    for one, other in combinations(answers.columns, 2):
        both = answers[[one, other]].dropna()
        differing += int((both[one] != both[other]).sum())
        compared += len(both)
    return differing, compared


def disagreeing(table: pd.DataFrame, leg: str) -> list[int]:
    """Questions on which the two filters disagree in some sample of ``leg``."""
    rows = table[(table["leg"] == leg) & table["strict_correct"].notna() & table["flexible_correct"].notna()]
    differ = rows["strict_correct"].astype(bool) != rows["flexible_correct"].astype(bool)
    return sorted(int(question) for question in rows.loc[differ, "question"].unique())
