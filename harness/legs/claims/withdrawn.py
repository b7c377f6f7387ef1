"""Is a figure that somebody prints one that was withdrawn? By the count behind it, however it is spelled.

Contract: a figure is called withdrawn where every count that it can be is that of a withdrawn leg, and none
that of another. The failure to fear is a withdrawn 0.9704 that comes back as 97.04 %, or at full precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.legs.claims.arithmetic import counts
from harness.legs.claims.audit import FAILS, UNCLEAR, Remark, claimed_counts
from harness.legs.claims.cited import Cited
from harness.legs.claims.reported import Leg, Report


def remarks(told: Report, cited: Iterable[Cited]) -> Iterator[Remark]:
    """A remark for each of ``cited`` that is a withdrawn leg's, or may be and is no other leg's."""
    gone = [leg for leg in told.legs.values() if leg.standing == "withdrawn"]
    for one in cited:
        for leg in gone:
            verdict = _verdict(told, one, leg)
            if verdict is not None:
                word = "is" if verdict == FAILS else "may be"
                text = f"{one.score.figure.text} {word} a withdrawn figure ({leg.id}: {leg.why})"
                yield Remark(one.where, "withdrawn", verdict, text)


def _verdict(told: Report, one: Cited, leg: Leg) -> str | None:
    """None where ``one`` is over another number of questions, or is what a leg that is not withdrawn has."""
    own = one.n is not None and counts(one.score.figure, one.n)
    if own and one.n != leg.n:
        return None
    could = set(counts(one.score.figure, leg.n))
    kept = {
        k
        for other in told.legs.values()
        if other.standing != "withdrawn" and other.n == leg.n
        for k in _counts(other, told)
    }
    if could & kept:
        return None
    if could and could <= _counts(leg, told):
        return FAILS
    return UNCLEAR if could & _counts(leg, told) else None


def _counts(leg: Leg, told: Report) -> set[int]:
    return {k for which in (*leg.scores, *leg.plus) for k in claimed_counts(leg, which, told)}
