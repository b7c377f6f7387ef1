"""The catalogue and what became of it as tables: for people, for a log, for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from harness.faults import catalogue, elsewhere
from harness.faults.fault import Fault
from harness.faults.trial import OUTCOMES, RED, Told
from harness.power import acceptance

COLUMNS = ("fault", "stage", "outcome", "let pass by", "seconds", "case")


def ordered(told: Iterable[Told]) -> list[Told]:
    """In the order of the catalogue."""
    place = {fault.name: number for number, fault in enumerate(catalogue.ALL)}
    return sorted(told, key=lambda one: place[one.fault])


def said(one: Told) -> str:
    """``red (bits)``, or what it is instead."""
    return f"{one.outcome} ({one.layer})" if one.outcome == RED else one.outcome


def missed_by(one: Told) -> str:
    """Rules in use elsewhere that let the same scores pass; the fault's own words where there are no such."""
    if one.passing is None:
        return catalogue.named(one.fault).weak
    return "; ".join(one.passing) or "no rule in use elsewhere"


def text(told: Sequence[Told]) -> str:
    """Two lines a fault: what became of it on which case, and what lets it pass."""
    lines = [f"{'fault':<31} {'stage':<12} {'outcome':<14} {'seconds':>7}  case"]
    for one in told:
        lines.append(f"{one.fault:<31} {one.stage:<12} {said(one):<14} {one.seconds:>7.2f}  {one.case}")
        lines.append(f"{'':<31} let pass by  {missed_by(one)}")
    return "\n".join(lines)


def others(told: Sequence[Told]) -> str:
    """How many of the faults that are seen in scores each rule in use elsewhere lets pass."""
    judged = [one for one in told if one.outcome == RED and one.passing is not None]
    counted = (f"{name}: {sum(name in (one.passing or ()) for one in judged)}" for name in acceptance.RULES)
    return f"let pass of {len(judged)} faults seen in whole scores: {', '.join(counted)}"


def counts(told: Iterable[Told]) -> str:
    """``81 red, 1 missed``."""
    found = Counter(one.outcome for one in told)
    return ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome])


def markdown(told: Sequence[Told]) -> str:
    """The same table for a log or a pull request."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for one in told:
        cells = (one.fault, one.stage, said(one), missed_by(one), f"{one.seconds:.2f}", f"`{one.case}`")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"{others(told)}."]) + "\n"


def records(told: Sequence[Told]) -> list[dict[str, Any]]:
    """JSON-able, each with what the catalogue says of the fault."""
    return [{**described(catalogue.named(one.fault)), **asdict(one)} for one in told]


def described(fault: Fault) -> dict[str, str]:
    """The texts of a fault."""
    texts = ("name", "stage", "wrong", "seen", "weak", "case", "source")
    return {text: str(getattr(fault, text)) for text in texts}


def lines() -> list[str]:
    """A paragraph a fault, for ``harness list faults``, then what no path can have."""
    rest = [
        f"{one.report:<32}{'elsewhere':<12}{one.what}\n"
        f"{'':<32}why     {one.why}\n"
        f"{'':<32}shown   {', '.join(one.shown)}"
        for one in elsewhere.ALL
    ]
    return [*_faults(), *rest]


def _faults() -> list[str]:
    return [
        f"{fault.name:<32}{fault.stage:<12}{fault.wrong}\n"
        f"{'':<32}seen    {fault.seen}\n"
        f"{'':<32}case    {fault.case}\n"
        f"{'':<32}missed  {fault.weak}"
        for fault in catalogue.ALL
    ]
