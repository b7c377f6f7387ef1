"""What a sweep comes to: killed, inert and survived, by kernel, by suite and by acceptance rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.table import Table

from harness.power.acceptance import RULES
from harness.power.inert import SAME, UNUSED

COLUMNS = ("kernel", "mutants", "killed", "inert", "survived")
OURS = "bits, mask, findings"
"""What the suites of this project go by."""
Figures = Mapping[str, Any]


def counts(records: Sequence[Mapping[str, Any]], held: Collection[str] = tuple(RULES)) -> dict[str, Any]:
    """Figures of one target, to which the acceptance rules ``held`` can be put.

    ``missed``: rule to how many of the killed mutants it let pass, on the very cases that were run until
    bit equality was red; None for a rule that is not held. ``layers``: what was red. ``inert``: by kind of
    reason. ``by``: id of the case that was red to number. ``faults``: rule that makes the faults to killed,
    inert and survived.
    """
    killed = [record for record in records if record["how"]]
    inert = [record for record in records if not record["how"] and record["why"].startswith((SAME, UNUSED))]
    alive = [record for record in records if record not in killed and record not in inert]
    kinds = Counter(SAME if record["why"].startswith(SAME) else UNUSED for record in inert)
    parts = {"killed": killed, "inert": inert, "survived": alive}
    rules = dict.fromkeys(record["rule"] for record in records)
    return {
        "mutants": len(records),
        **{name: len(part) for name, part in parts.items()},
        "layers": dict(Counter(record["how"] for record in killed)),
        "reasons": dict(kinds),
        "by": dict(Counter(record["case"] for record in killed)),
        "missed": {
            rule: sum(rule in record["missed"] for record in killed) if rule in held else None
            for rule in RULES
        },
        "faults": {
            rule: {name: sum(one["rule"] == rule for one in part) for name, part in parts.items()}
            for rule in rules
        },
    }


def suites(found: Mapping[str, Figures]) -> dict[str, dict[str, Any]]:
    """Figures summed over the kernels of each suite (the first word of a kernel's name without its path)."""
    made: dict[str, dict[str, Any]] = {}
    for name, one in found.items():
        suite = name.split()[-1].partition("-")[0]
        into = made.setdefault(suite, {**dict.fromkeys(COLUMNS[1:], 0), "missed": dict.fromkeys(RULES)})
        for column in COLUMNS[1:]:
            into[column] += one[column]
        for rule in RULES:
            if one["missed"][rule] is not None:
                into["missed"][rule] = (into["missed"][rule] or 0) + one["missed"][rule]
    return made


def rows(found: Mapping[str, Figures]) -> list[list[str]]:
    """A row a kernel, then, where a suite has several, a row a suite."""
    several = [suite for suite, one in suites(found).items() if one["mutants"] not in _sizes(found)]
    whole = {f"suite {suite}": suites(found)[suite] for suite in several}
    return [
        [name, *(str(one[column]) for column in COLUMNS[1:]), *(_told(one["missed"][rule]) for rule in RULES)]
        for name, one in {**found, **whole}.items()
    ]


def _told(missed: int | None) -> str:
    return "-" if missed is None else str(missed)


def _sizes(found: Mapping[str, Figures]) -> set[int]:
    return {one["mutants"] for one in found.values()}


def summary(found: Mapping[str, Figures]) -> Table:
    """For each rule that others use, how many of the killed faults it lets pass."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in (*COLUMNS, *(f"passed by {rule}" for rule in RULES)):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for row in rows(found):
        table.add_row(*row)
    return table


def by_rule(found: Mapping[str, Figures]) -> dict[str, dict[str, int]]:
    """Acceptance rule, ours first, to killed, inert and survived over all kernels.

    What another rule lets pass survives it. Faults that no case of ours saw are not counted against it; nor
    are those of kernels that it cannot be put to.
    """
    parts = ("killed", "inert", "survived")
    made = {OURS: {name: sum(one[name] for one in found.values()) for name in parts}}
    for rule in RULES:
        put = [one for one in found.values() if one["missed"][rule] is not None]
        killed, inert, survived = (sum(one[name] for one in put) for name in parts)
        missed = sum(one["missed"][rule] for one in put)
        made[rule] = {"killed": killed - missed, "inert": inert, "survived": survived + missed}
    return made


def markdown(found: Mapping[str, Figures]) -> str:
    """The tables for a log or a pull request: by kernel, and by acceptance rule."""
    columns = [*COLUMNS, *(f"passed by {rule}" for rule in RULES)]
    held = [[rule, *map(str, one.values())] for rule, one in by_rule(found).items()]
    return (
        _lines(columns, rows(found)) + "\n" + _lines(["acceptance rule", "killed", "inert", "survived"], held)
    )


def _lines(columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]) + "\n"
