"""Simpler neighbours of a case: fields made smaller, one kind of change at a time, the boldest first.

Contract: every neighbour is a valid case in which no field is larger or less simple than before and at least
one is simpler, so that going from neighbour to neighbour ends. Fields that depend on the one that shrinks
follow it (units, windows, micro-batches). The values come from what a case may hold (`LIMITS`, the suite's
own limits, tables and fills), so a new suite needs nothing here. What cannot be is left out, never handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.case.case_limits import LIMITS, CaseError
from harness.case.cases import WORDS, Case
from harness.reduce import lengths

SIMPLE_FILLS = ("bytes", "address")
"""Fills that come before the suite's others: exact sums, then values that spell where they come from."""
HARD_FILLS = ("wide", "special", "nan")
"""Fills that come after them."""
SEED = 1
NUMBERS = (
    *("world", "inter", "n", "steps", "ub", "bucket", "r", "p", "h", "d", "k", "layers", "blocks", "page"),
    *("kpool", "stable", "all", "ue"),
)
"""Plain numbers, in the order they are tried."""

Neighbours = Callable[[Case], Iterator[Case]]


def valid(case: Case, **changes: Any) -> Iterator[Case]:
    """``case`` with ``changes`` and what follows from them, if there is such a case and it is another one."""
    try:
        found = case.but(**lengths.fitted(case, changes))
    except CaseError:
        return
    if found != case:
        yield found


def toward(values: Sequence[int], value: int) -> Iterator[int]:
    """Simpler members of ``values`` than ``value``: the first, then from half of the way to one step."""
    place = values.index(value)
    yield from (values[place - step] for step in halves(place))


def halves(count: int) -> Iterator[int]:
    """``count``, its half, the half of that ... down to 1."""
    while count > 0:
        yield count
        count //= 2


def numbers(name: str) -> Neighbours:
    """Neighbours in which the plain number ``name`` is smaller."""

    def found(case: Case) -> Iterator[Case]:
        if name in case.names:
            values = case.declared.limits.get(name, LIMITS[name])
            for value in toward(values, getattr(case, name)):
                yield from valid(case, **{name: value})

    return found


def chosen(name: str) -> Neighbours:
    """Neighbours in which a list of counts (``u``, ``c``) has fewer members or smaller ones; l alike."""

    def found(case: Case) -> Iterator[Case]:
        if name not in case.names:
            return
        value = getattr(case, name)
        if isinstance(value, int):
            for smaller in toward(LIMITS[name], value) if value else ():
                yield from valid(case, **{name: smaller})
            return
        for kept in lengths.shorter(value):
            yield from valid(case, **{name: kept})
        slots = name == "u" and case.kind == "decode"  # units are whole slots of n rows
        values = range(0, LIMITS[name][-1] + 1, case.n) if slots else LIMITS[name]
        for place, member in enumerate(value):
            for smaller in toward(values, member):
                yield from valid(case, **{name: (*value[:place], smaller, *value[place + 1 :])})

    return found


def leaps(case: Case) -> Iterator[Case]:
    """All fields but the lengths at their simplest at once; then all but one of them.

    Most failures need one field or none, so that the search goes on among small cases at once.
    """
    simple: dict[str, Any] = {name: order[0] for name, order in orders(case).items()}
    for name in case.names:
        if name in ("c", "u"):
            simple[name] = (0,)
        elif name in (*NUMBERS, "l"):
            simple[name] = case.declared.limits.get(name, LIMITS[name])[0]
    if "s" in case.names:
        simple["s"] = SEED
    alone = lengths.longest_alone(case)
    yield from valid(case, **simple, **alone)
    for left in simple:
        yield from valid(case, **{name: simple[name] for name in simple if name != left}, **alone)
    yield from valid(case, **simple)


def orders(case: Case) -> dict[str, tuple[str, ...]]:
    """The words of each field that has some, the simplest first."""
    order = {"t": case.declared.tables, "f": fills(case), **WORDS}
    return {name: order[name] for name in case.names if name in order}


def words(case: Case) -> Iterator[Case]:
    """Neighbours with a simpler table style, fill or other word, and with the first seed."""
    for name, order in orders(case).items():
        for simpler in order[: order.index(getattr(case, name))]:
            yield from valid(case, **{name: simpler})
    if "s" in case.names and case.s != SEED:
        yield from valid(case, s=SEED)


def fills(case: Case) -> tuple[str, ...]:
    """The suite's fills, the simplest first."""
    declared = case.declared.fills
    first = [fill for fill in SIMPLE_FILLS if fill in declared]
    last = [fill for fill in HARD_FILLS if fill in declared]
    return (*first, *(fill for fill in declared if fill not in (*first, *last)), *last)


def in_lengths(change: Callable[[Case], Iterator[dict[str, Any]]]) -> Neighbours:
    """Neighbours by a change of sequences, rows or lengths."""

    def found(case: Case) -> Iterator[Case]:
        for changes in change(case):
            yield from valid(case, **changes)

    return found


FAMILIES: tuple[Neighbours, ...] = (
    leaps,
    *(in_lengths(change) for change in lengths.CHANGES),
    *(numbers(name) for name in NUMBERS),
    *(chosen(name) for name in ("c", "u", "l")),
    words,
)
"""All kinds of change, in the order they are tried; each until it gives nothing more."""
