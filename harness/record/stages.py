"""Which production code ran in each stage of a pipeline: a table a path and chain (FP4, FP8).

Made of what each case's verdict says of its stages (`harness.pipeline.witness`), so it shows what was run,
not what a path is able to. A stage that ran in several ways over the cases has a row for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.case import cases
from harness.findings import Finding
from harness.judge.ledger import Ledger

COLUMNS = ("stage", "function", "source in the tree", "how it was run", "why, or findings")
STAGES = "stages"
"""Key of `Verdict.facts` that holds the records of a case's stages."""


@dataclass(frozen=True)
class Section:
    """The stages of one chain on one path, a row of `COLUMNS` each, in order."""

    title: str
    rows: tuple[tuple[str, ...], ...]


def sections(records: Iterable[Mapping[str, Any]], ledger: Ledger) -> list[Section]:
    """One section a path and chain of which some stage ran a source of a tree.

    On the others a path is all that there is to name, and the summary names it.
    """
    grouped: dict[tuple[str, str], list[Sequence[Mapping[str, Any]]]] = {}
    for record in records:
        told = (record.get("facts") or {}).get(STAGES)
        if told:
            chain = "FP8" if cases.parse(str(record["case"])).kind == "fp8" else "FP4"
            grouped.setdefault((str(record["path"]), chain), []).append(told)
    return [
        Section(f"{chain} pipeline on {path}", rows(told, path, ledger))
        for (path, chain), told in sorted(grouped.items())
        if any(stage["source"] for one in told for stage in one)
    ]


def rows(
    told: Sequence[Sequence[Mapping[str, Any]]], path: str, ledger: Ledger
) -> tuple[tuple[str, ...], ...]:
    """Rows of ``told``, the stages of each case: in the order of the case with most stages."""
    order: list[str] = []
    found: dict[tuple[str, ...], list[str]] = {}
    for stages in sorted(told, key=len, reverse=True):
        for stage in stages:
            name = str(stage["stage"])
            order.extend([] if name in order else [name])
            function = str(stage["function"] or stage["request"])
            key = (name, function, str(stage["source"] or "-"), str(stage["how"]))
            said = found.setdefault(key, [])
            said.extend(one for one in remarks(stage, path, ledger) if one not in said)
    ranked = sorted(found, key=lambda key: order.index(key[0]))
    return tuple((*key, "; ".join(found[key])) for key in ranked)


def remarks(stage: Mapping[str, Any], path: str, ledger: Ledger) -> list[str]:
    """Why the oracle answered, and what kernels did besides: ``NEW kind of operand``, or ``known``."""
    known, new = ledger.split((Finding(**one) for one in stage["findings"]), path)
    why = [str(stage["why"])] if stage["why"] else []
    told = [f"NEW {finding.what}" for finding in new] + [f"known {finding.what}" for finding, _ in known]
    return list(dict.fromkeys(why + told))


def show(console: Console, found: Sequence[Section]) -> None:
    """Each section as lines whose columns are as wide as they must be."""
    for section in found:
        console.print(f"\n{section.title}: the code of each stage", soft_wrap=True)
        lines = (COLUMNS, *section.rows)
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            console.print(Text(f"  {'  '.join(cells).rstrip()}"), soft_wrap=True)
