"""From numbers to words: one closed list of verdicts, and the sentence of each.

A verdict never says more than its test: "worse" and "better" need both the test and the interval,
"equivalent" needs two one-sided tests against a margin fixed beforehand, an effect inside the
run-to-run spread is not called an effect, and what is left is what could not have been seen.
"""

from __future__ import annotations

import math
from enum import StrEnum

from harness.legs.pool.answers import LEVEL
from harness.legs.pool.between import Between, unseen

UNDEFINED = "undefined"


class Word(StrEnum):
    """What a comparison comes to."""

    WORSE = "worse"
    BETTER = "better"
    EQUIVALENT = "equivalent"
    SPREAD = "not resolved"
    UNSEEN = "not seen"
    NOT_MEASURED = "not measured"


ABSENT = (Word.EQUIVALENT, Word.UNSEEN)
"""Verdicts that say that there is no difference, which a measurement that sees nothing says too."""


def judged(found: Between, refused: str = "", caveat: str = "") -> tuple[Word, str]:
    """The verdict on ``found``, and its sentence.

    ``refused``: why a leg of it does not count. ``caveat``: what every "no difference" must carry.
    """
    word, said = _judged(found, refused)
    if any(found.alone) and word is not Word.NOT_MEASURED:
        only = f"{found.alone[0]} only in {found.base}, {found.alone[1]} only in {found.other}"
        said += f"; on the {found.compared} questions that both have ({only})"
    return word, f"{said}; but {caveat}" if caveat and word in ABSENT else said


def _judged(found: Between, refused: str) -> tuple[Word, str]:
    if refused:
        return Word.NOT_MEASURED, f"not measured: {refused}"
    if not found.compared:
        return Word.NOT_MEASURED, "not measured: no question was answered in both legs"
    if resolved(found):
        return _effect(found)
    same = ""
    if found.paired and not found.gained and not found.lost:
        same = f"no question of {found.compared} was answered differently"
    if found.equivalence < LEVEL:
        said = f"equivalent within {points(found.margin)} points (p = {found.equivalence:.2g})"
        return Word.EQUIVALENT, f"{said}: {same}" if same else said
    if significant(found):
        return Word.SPREAD, f"inside the run-to-run spread: {_span(found)}"
    if same:
        rate = 100 * unseen(found.compared)
        return Word.UNSEEN, f"{same}; up to {rate:.2f} % of questions that do are not ruled out"
    if math.isnan(found.detectable):
        most = points(max(-found.interval.low, found.interval.high))
        return Word.UNSEEN, f"nothing is shown: differences up to {most} points are not ruled out"
    return Word.UNSEEN, f"no difference of {points(found.detectable)} points or more was seen"


def significant(found: Between) -> bool:
    """Whether the test and the interval both exclude no difference."""
    return found.p < LEVEL and (found.interval.low > 0 or found.interval.high < 0)


def resolved(found: Between) -> bool:
    """Whether an effect is significant and larger than what two samples of one leg differ by."""
    outside = math.isnan(found.band) or abs(found.difference) > found.band
    return significant(found) and outside


def points(value: float) -> str:
    """A proportion in points; undefined is said to be so."""
    return UNDEFINED if math.isnan(value) else f"{100 * value:.2f}"


def sight(detectable: float) -> str:
    """What a comparison does not see, from the smallest loss that it does."""
    if math.isnan(detectable):
        return "no loss of any size would be seen in 80 % of such comparisons"
    return f"losses below {points(detectable)} points are not seen"


def _effect(found: Between) -> tuple[Word, str]:
    word = Word.WORSE if found.difference < 0 else Word.BETTER
    low, high = points(found.interval.low), points(found.interval.high)
    size = points(abs(found.difference))
    said = f"{word} by {size} points (95 % interval {low} to {high}, p = {found.p:.2g})"
    once = (
        "; no leg was measured twice, so the run-to-run spread is unknown" if math.isnan(found.band) else ""
    )
    return word, said + once


def _span(found: Between) -> str:
    return (
        f"the legs differ by {points(abs(found.difference))} points,"
        f" two samples of one leg by up to {points(found.band)}"
    )
