"""Audits reported figures by arithmetic alone: what they can be, and what they cannot.

A remark says what holds, what cannot be, and what nobody can tell from the figures. Nothing here
says that a leg was measured rightly; a figure that passes every check may still be wrong. The
failure to fear is an audit that checks nothing and finds nothing, so each figure that is read
gives at least one remark.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from harness.legs.claims import figures, regime
from harness.legs.claims import told as telling
from harness.legs.claims.arithmetic import Printed, counts, error_fits, standard_errors
from harness.legs.claims.entries import ReportError
from harness.legs.claims.remark import FAILS, HOLDS, UNCLEAR, VERDICTS, Remark
from harness.legs.claims.reported import Figure, Leg, Report, Score

__all__ = ["FAILS", "HOLDS", "UNCLEAR", "VERDICTS", "Remark", "claimed_counts", "proportion", "report"]


def report(told: Report) -> list[Remark]:
    """Every remark about a file of reported figures: legs, claims, figures, measurements."""
    remarks = [remark for leg in told.legs.values() for remark in _leg(leg, told)]
    for claim in told.claims.values():
        remarks += [*telling.claim(claim, told), *telling.standing(claim)]
    values = {figure.id: value(figure, told) for figure in told.figures}
    for figure in told.figures:
        remarks += [_figure(figure, values[figure.id]), *telling.standing(figure)]
    for one in told.measured.values():
        remarks += [*telling.measurement(one, told, values), *telling.standing(one)]
    return remarks


def proportion(claim: str, which: str, score: Score, n: int) -> Iterator[Remark]:
    """GRIM of one proportion over ``n``, its claimed count, and its standard error."""
    possible, shown = counts(score.figure, n), f"{which} {score.figure.text}"
    if not possible:
        yield Remark(claim, "grim", FAILS, f"{shown} is no whole number of right answers over {n} questions")
        return
    said = f"{possible[0]}/{n}" if len(possible) == 1 else f"{possible[0]} to {possible[-1]} of {n}"
    yield Remark(claim, "grim", HOLDS, f"{shown} is {said}")
    if score.k is not None and score.k not in possible:
        yield Remark(claim, "count", FAILS, f"{shown} is not {score.k}/{n}")
    if score.error is not None:
        fits = any(error_fits(score.error, k, n) for k in possible)
        exact = standard_errors(possible[0], n)[1] if n > 1 else float("nan")
        text = f"{which} standard error {score.error.text}, and {possible[0]}/{n} has {exact:.5f}"
        yield Remark(claim, "error", HOLDS if fits else FAILS, text)


def _leg(leg: Leg, told: Report) -> Iterator[Remark]:
    for which, score in leg.scores.items():
        yield from proportion(leg.id, which, score, leg.n)
    yield from _other_prompts(leg)
    for which, plus in leg.plus.items():
        yield from _above(leg, which, plus, told)
    yield from telling.standing(leg)
    if leg.other_topology:
        text = f"reported once as {leg.topology} and once as {leg.other_topology}: one of them is wrong"
        yield Remark(leg.id, "topology", UNCLEAR, text)
    yield from _exercised(leg, told)


def _other_prompts(leg: Leg) -> Iterator[Remark]:
    """Prompts are counted in the same report; the proportions must come from as many."""
    if leg.prompts is None or leg.prompts == leg.n:
        return
    fit = [score.figure.text for score in leg.scores.values() if counts(score.figure, leg.prompts)]
    none = [score.figure.text for score in leg.scores.values() if not counts(score.figure, leg.prompts)]
    if none:
        text = f"{' and '.join(none)} cannot come from the {leg.prompts} prompts of the same report"
        yield Remark(leg.id, "prompts", FAILS, f"{text}: prompt count and scores describe different sets")
    elif fit:
        text = f"{leg.prompts} prompts beside n = {leg.n}; the proportions could come from either"
        yield Remark(leg.id, "prompts", UNCLEAR, text)
    else:
        text = f"{leg.prompts} prompts beside n = {leg.n}, and no proportion of its own to tell by"
        yield Remark(leg.id, "prompts", UNCLEAR, text)


def _above(leg: Leg, which: str, plus: Printed, told: Report) -> Iterator[Remark]:
    """A leg reported as so many points above another: which counts that leaves."""
    under = told.legs.get(leg.base)
    if under is None or which not in under.scores:
        yield Remark(leg.id, "spread", UNCLEAR, f"{which} +{plus.text} points over a leg that gives none")
        return
    left = counts_above(leg.n, plus, under.scores[which].figure, under.n)
    if not left:
        text = f"{which} {leg.base} + {plus.text} points is no whole number over {leg.n} questions"
        yield Remark(leg.id, "spread", FAILS, text)
        return
    said = ", ".join(f"{k}/{leg.n}" for k in left)
    same = [other.id for other in told.legs.values() if other.n == leg.n and _may_be(other, which, left)]
    echo = f" (as {', '.join(same)})" if same else ""
    yield Remark(leg.id, "spread", HOLDS, f"{which} {leg.base} + {plus.text} points leaves {said}{echo}")


def counts_above(n: int, plus: Printed, figure: Printed, base_n: int) -> list[int]:
    """Counts k whose k/n lies ``plus`` points above ``figure`` (over ``base_n``).

    Either reading of a printed spread is granted: the points between the counts, rounded, or the points
    between the printed figures.
    """
    below = counts(figure, base_n)
    above = figure.value + plus.value / 100
    return [
        k
        for k in range(n + 1)
        if any(plus.holds(100 * (Fraction(k, n) - Fraction(j, base_n))) for j in below)
        or abs(Fraction(k, n) - above) <= figure.half
    ]


def claimed_counts(leg: Leg, which: str, told: Report) -> list[int]:
    """Counts that the report of ``leg`` leaves under ``which``; empty where none can be, or none is told."""
    score = leg.scores.get(which)
    if score is None:
        plus, under = leg.plus[which], told.legs.get(leg.base)
        if under is None or which not in under.scores:
            return []
        return counts_above(leg.n, plus, under.scores[which].figure, under.n)
    possible = counts(score.figure, leg.n)
    if score.k is not None:
        return [score.k] if score.k in possible else []
    return list(possible)


def _may_be(leg: Leg, which: str, left: list[int]) -> bool:
    score = leg.scores.get(which)
    return score is not None and not set(left).isdisjoint(counts(score.figure, leg.n))


def _exercised(leg: Leg, told: Report) -> Iterator[Remark]:
    """Whether the prompts were long enough for the indexer to select anything."""
    shortest = leg.prompt_tokens.get("min")
    if shortest is not None:
        longer = shortest > told.index_topk
        text = f"shortest prompt {shortest} tokens, index_topk {told.index_topk}"
        yield Remark(leg.id, "exercised", HOLDS if longer else FAILS, text)
    elif regime.selects(leg, told) is False:
        whose = "prompts" if leg.prompt_tokens else f"{leg.shots} shots"
        text = f"{whose} stay within {told.index_topk} tokens: does not exercise the sparse indexer"
        yield Remark(leg.id, "exercised", UNCLEAR, text)


def value(figure: Figure, told: Report) -> Fraction:
    """What the rule of ``figure`` gives. Raises `ReportError` for a rule or numbers that are none."""
    if figure.rule not in figures.RULES:
        raise ReportError(
            f"figure {figure.id} has rule {figure.rule!r}, allowed are {', '.join(figures.RULES)}"
        )
    formula, wanted = figures.RULES[figure.rule]
    if set(figure.given) != set(wanted):
        came = ", ".join(figure.given)
        raise ReportError(f"figure {figure.id} has from with {came}, allowed are {', '.join(wanted)}")
    figures.check(figure.id, figure.given)
    return formula(figure.given, told.legs)


def _figure(figure: Figure, exact: Fraction) -> Remark:
    text = f"{figure.says}: {figure.shown.text}, and {figure.rule} gives {float(exact):.6g}"
    return Remark(figure.id, figure.rule, HOLDS if figure.shown.holds(exact) else FAILS, text)
