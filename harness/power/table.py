"""What a sweep comes to: killed, inert and survived, and which other acceptance rule let how many pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from harness.power.acceptance import RULES
from harness.power.inert import SAME, UNUSED

COLUMNS = ("kernel", "mutants", "killed", "inert", "survived")


def counts(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of one target.

    ``missed``: rule to how many of the killed mutants it let pass, on the very cases that were run until
    bit equality was red. ``layers``: what was red. ``inert``: by kind of reason.
    """
    killed = [record for record in records if record["how"]]
    inert = [record for record in records if not record["how"] and record["why"]]
    kinds = Counter(SAME if record["why"].startswith(SAME) else UNUSED for record in inert)
    return {
        "mutants": len(records),
        "killed": len(killed),
        "inert": len(inert),
        "survived": len(records) - len(killed) - len(inert),
        "layers": dict(Counter(record["how"] for record in killed)),
        "reasons": dict(kinds),
        "missed": {rule: sum(rule in record["missed"] for record in killed) for rule in RULES},
    }


def summary(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row a target; for each rule that others use, how many of the killed faults it lets pass."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in (*COLUMNS, *(f"passed by {rule}" for rule in RULES)):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for name, one in found.items():
        passed = (str(one["missed"][rule]) for rule in RULES)
        table.add_row(name, *(str(one[column]) for column in COLUMNS[1:]), *passed)
    return table


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The same table for a log or a pull request."""
    columns = [*COLUMNS, *(f"passed by {rule}" for rule in RULES)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, one in found.items():
        cells = [name, *(str(one[column]) for column in COLUMNS[1:])]
        lines.append("| " + " | ".join([*cells, *(str(one["missed"][rule]) for rule in RULES)]) + " |")
    return "\n".join(lines) + "\n"
