"""What arithmetic says of claims about two legs, of measurements, and of every entry's standing.

Contract: each claim and each measurement gives at least one remark; one that arithmetic can neither confirm
nor refute says so. The failure to fear is a time that nobody could check and that reads as checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from harness.legs.claims.arithmetic import sigmas
from harness.legs.claims.measurements import Measurement
from harness.legs.claims.remark import FAILS, HOLDS, UNCLEAR, Remark
from harness.legs.claims.reported import Claim, Figure, Leg, Report


def standing(one: Leg | Claim | Figure | Measurement) -> Iterator[Remark]:
    """Whether ``one`` still stands, and what the report says that it does not show."""
    if one.standing != "stands":
        by = f" by {one.superseded_by}" if one.superseded_by else ""
        yield Remark(one.id, "standing", UNCLEAR, f"{one.standing}{by}: {one.why}")
    if not isinstance(one, Figure) and one.but:
        yield Remark(one.id, "standing", UNCLEAR, f"{one.standing}, but {one.but}")


def claim(one: Claim, told: Report) -> Iterator[Remark]:
    """What the counts of its legs say of ``one``; a spread is held against its samples, which are legs."""
    if one.kind == "spread":
        text = f"{one.says}: only repeats of {one.leg} could tell it"
        yield Remark(one.id, "claim", UNCLEAR, text)
        return
    found = list(_differences(one, told))
    if not found:
        yield Remark(one.id, "claim", UNCLEAR, f"{one.says}: the legs give no count to hold it against")
    for which, difference, apart in found:
        by = f"{which}: {float(difference):+.2f} points by the counts"
        if one.kind == "difference":
            sure = f", {apart:.2f} combined standard errors" if apart == apart else ""
            yield Remark(one.id, "claim", HOLDS, f"{by}{sure}")
        elif which in one.points and apart == apart and difference:
            error = abs(float(difference)) / apart
            least = float(one.points[which].value)
            verdict = HOLDS if least <= 2 * error else FAILS
            text = f"{which}: {least:g} points are {least / error:.2f} combined standard errors"
            yield Remark(one.id, "claim", verdict, f"{text}, so a difference below them is not seen")


def _differences(one: Claim, told: Report) -> Iterator[tuple[str, Fraction, float]]:
    """(filter, points of leg minus base, combined standard errors) where both give a count."""
    leg, base = told.legs[one.leg], told.legs[one.base]
    for which, score in leg.scores.items():
        other = base.scores.get(which)
        if other is None or score.k is None or other.k is None:
            continue
        if 0 <= score.k <= leg.n and 0 <= other.k <= base.n:
            difference = 100 * (Fraction(score.k, leg.n) - Fraction(other.k, base.n))
            yield which, difference, sigmas((score.k, leg.n), (other.k, base.n))


def measurement(one: Measurement, told: Report, values: dict[str, Fraction]) -> Iterator[Remark]:
    """``values``: figure to what its rule gives."""
    said = f"{one.says}: {one.text}"
    if one.around:
        exact = values[one.around]
        inside = one.spans(exact)
        text = f"{said}, {'around' if inside else 'which leaves out'} {float(exact):.4g} ({one.around})"
        yield Remark(one.id, "measured", HOLDS if inside else FAILS, text)
        return
    if one.against:
        beside = told.measured[one.against]
        ratio = float(one.shown.value / beside.shown.value)
        said += f", {ratio:.3f} times that of {beside.id} ({beside.text})"
    yield Remark(one.id, "measured", UNCLEAR, f"{said}; a measurement: only another one can tell")
