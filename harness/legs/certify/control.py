"""The positive control: would this campaign have seen a leg that is wrong on purpose?

Contract: a known-bad leg is seen when it pools as worse than the base leg under some filter, or when its
certificate fails for what its server did. A leg that was cut short, or was asked something else, shows
nothing either way. The failure to fear is a campaign that says "no difference" and could not have seen one,
so what is pooled carries the sentence of a control that was not seen (`caveat`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.legs.certify import answers, path
from harness.legs.certify.certificate import Certificate, Point, Verdict
from harness.legs.journal import STATUSES
from harness.legs.pool import pooled
from harness.legs.pool.words import Word, points

NAME = "control"


def point(
    known_bad: Sequence[str], certificates: Mapping[str, Certificate], base: str, table: pd.DataFrame
) -> Point:
    """The point of a campaign with the legs ``known_bad``; ``certificates`` and ``table``: of all legs."""
    if not known_bad:
        return _point(Verdict.NOT_ASKED, "no known-bad leg is given: what this campaign can see is not shown")
    found = [_seen(leg, certificates, base, table) for leg in known_bad]
    said = "; ".join(sentence for _, sentence in found)
    verdicts = {leg: str(verdict) for leg, (verdict, _) in zip(known_bad, found, strict=True)}
    for worst in (Verdict.FAILS, Verdict.UNKNOWN):
        if worst in verdicts.values():
            return _point(worst, said, {"legs": verdicts})
    return _point(Verdict.HOLDS, said, {"legs": verdicts})


def caveat(certificates: Mapping[str, Certificate]) -> str:
    """What every "no difference" must carry: the sentence of a control that was not seen, else empty."""
    told = [one for certificate in certificates.values() for one in certificate.points if one.name == NAME]
    return next((one.said for one in told if one.verdict is Verdict.FAILS), "")


def _seen(
    leg: str, certificates: Mapping[str, Certificate], base: str, table: pd.DataFrame
) -> tuple[Verdict, str]:
    own, other = certificates.get(leg), certificates.get(base)
    if own is None or leg not in set(table["leg"]):
        return Verdict.UNKNOWN, f"the known-bad leg {leg} has no sample"
    if other is None or other.fails:
        return Verdict.UNKNOWN, f"the base leg {base} is not measured, so {leg} can be held against nothing"
    if own.fails:
        why = f"{leg} is not measured, for its {' and '.join(one.name for one in own.fails)}"
        if any(map(_inconclusive, own.fails)):
            return Verdict.UNKNOWN, f"the known-bad leg {why}, which says nothing of its fault"
        return Verdict.HOLDS, f"a leg that is known to be bad was seen: {why}"
    both = table[table["leg"].isin([leg, base])]
    judged = pooled.pool(both, base=base, margin=0.0).judged  # equivalence is not asked here
    worse = [
        f"{points(-one.between.difference)} points ({one.between.which})"
        for one in judged
        if one.word is Word.WORSE
    ]
    if worse:
        return Verdict.HOLDS, f"a leg that is known to be bad was seen: {leg} is worse by {', '.join(worse)}"
    said = f"the known-bad leg {leg} was not seen: this campaign cannot see a fault of that size"
    return Verdict.FAILS, said


def _inconclusive(point: Point) -> bool:
    """Whether a point fails for what says nothing of the fault: what was asked, or a request that was lost.

    A required line that is missing may mean that the fault was never switched on.
    """
    if point.name == answers.NAME:
        lost = point.figures["expected"] > sum(point.figures[one] for one in STATUSES if one != "failed")
        return bool(point.figures["unfinished"] or (lost and not point.figures["crashed"]))
    if point.name == path.NAME:
        found = point.figures["samples"].values()
        return any(not count for one in found for count in one["required"].values())
    return True


def _point(verdict: Verdict, said: str, figures: dict[str, Any] | None = None) -> Point:
    return Point(NAME, verdict, said, binding=False, figures=figures or {})
