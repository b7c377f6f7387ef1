"""``harness power --source``: faults in source text instead of a kernel's program."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.command.console import console_for_people
from harness.command.progress import PLAIN_EVERY
from harness.power.source.targets import TARGETS
from harness.record import document, provenance, store

ALL = "all"
PACKAGES = {"aiter": "aiter", "atom": "atom"}
"""The folder that a tree of each option has."""
COLUMNS = ("source", "faults", "killed", "equivalent", "survived")


def main(args: argparse.Namespace) -> int:
    """Sweep, print a table by source and operator, and the survivors as diffs. Raises `InputError`."""
    targets = check(args)
    from harness.power.source import sweep
    from harness.power.source.worker import PROJECT

    store.check_directory("--dir", args.dir)
    roots = {"project": PROJECT, **{name: tree.resolve() for name, tree in _trees(args).items()}}
    console, found, alive = console_for_people(), {}, []
    for target in targets:
        plan = sweep.plan(target, roots, args.listing, args.dir, args.sample, args.seed)
        console.print(f"source {target.name}: {len(plan.left)} of {len(plan.names)} faults to try")
        said = time.monotonic()
        for done, _ in enumerate(sweep.run(plan, args.n or provenance.cores()), 1):
            if time.monotonic() - said >= PLAIN_EVERY:
                said = time.monotonic()
                console.print(f"{done} tried")
        found[target.name] = {**counts(plan.records), "left_out": plan.left_out}
        alive += [(target.name, one) for one in plan.records if survived(one)]
    console.print(summary(found))
    for name, one in found.items():
        for case, said in one["left_out"].items():
            console.print(f"{name} is not judged by {case}, red without a fault: {said}", soft_wrap=True)
    for name, record in alive:
        console.print(
            Text(f"\nsurvived the {args.listing} cases: {name}, {record['location']}, {record['rule']}")
        )
        console.print(Text(record["diff"]), soft_wrap=True)
    if args.json:
        by = provenance.collect((), {"sample": args.sample, "seed": args.seed, "cases": args.listing})
        content = {"provenance": by, "sources": found, "survivors": [one for _, one in alive]}
        document.write_text(args.json, json.dumps(content, indent=1) + "\n")
    if args.markdown:
        document.write_text(args.markdown, markdown(found))
    code = exits.DIFFER if alive else exits.AGREE
    console.print(f"\nlines  {args.dir}\nexit {code}: {len(alive)} survived")
    return code


def check(args: argparse.Namespace) -> list[Any]:
    """The targets meant. Raises `InputError` naming the argument that is wrong."""
    for option in ("kernel", "mutant", "prepare", "prepared", "plot", "path"):
        if getattr(args, option):
            raise exits.InputError(f"--{option} means nothing with --source; leave it out")
    if args.part != "1/1":
        raise exits.InputError("--part means nothing with --source; leave it out")
    for name in args.source:
        if name not in (ALL, *TARGETS):
            raise exits.InputError(f"--source is {name!r}, allowed are {', '.join((ALL, *TARGETS))}")
    document.check_output("--json", args.json)
    document.check_output("--markdown", args.markdown)
    chosen = [one for name, one in TARGETS.items() if name in args.source or ALL in args.source]
    given = _trees(args)
    for name, tree in given.items():
        if not (tree / PACKAGES[name]).is_dir():
            raise exits.InputError(f"--{name} {tree} has no folder {PACKAGES[name]}, so is no checkout of it")
    foreign = [one for one in chosen if one.tree != "project" and one.tree not in given]
    for one in foreign:
        if one.name in args.source:
            raise exits.InputError(f"--source is {one.name}, which needs --{one.tree} DIR")
    return [one for one in chosen if one not in foreign]


def _trees(args: argparse.Namespace) -> dict[str, Path]:
    """Option to folder, of the trees that were given."""
    return {name: Path(getattr(args, name)) for name in PACKAGES if getattr(args, name)}


def survived(record: Any) -> bool:
    """Whether no case saw the fault and no reason is known."""
    from harness.power.lines import PENDING

    return not record["how"] and record["why"] in ("", PENDING)


def counts(records: Any) -> dict[str, Any]:
    """Figures of one file, in all and by operator."""
    alive = [one for one in records if survived(one)]
    killed = [one for one in records if one["how"]]
    rules = dict.fromkeys(one["rule"] for one in records)
    return {
        "faults": len(records),
        "killed": len(killed),
        "equivalent": len(records) - len(killed) - len(alive),
        "survived": len(alive),
        "operators": {
            rule: {
                "killed": sum(one["rule"] == rule for one in killed),
                "survived": sum(one["rule"] == rule for one in alive),
            }
            for rule in rules
        },
    }


def rows(found: dict[str, Any]) -> list[list[str]]:
    """A row a source, then, where there are several, one of all."""
    whole = {column: sum(one[column] for one in found.values()) for column in COLUMNS[1:]}
    named = {**found, **({ALL: whole} if len(found) > 1 else {})}
    return [[name, *(str(one[column]) for column in COLUMNS[1:])] for name, one in named.items()]


def summary(found: dict[str, Any]) -> Table:
    """`rows`, then one an operator over all sources."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "source" else "right")
    for row in rows(found):
        table.add_row(*row)
    for rule in sorted({rule for one in found.values() for rule in one["operators"]}):
        parts = [one["operators"][rule] for one in found.values() if rule in one["operators"]]
        killed, alive = (sum(part[name] for part in parts) for name in ("killed", "survived"))
        table.add_row(f"  {rule}", "", str(killed), "", str(alive))
    return table


def markdown(found: dict[str, Any]) -> str:
    """`rows` for a log, then what did not judge."""
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- |" + " ---: |" * (len(COLUMNS) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in rows(found)]
    left_out = [(name, *pair) for name, one in found.items() for pair in one["left_out"].items()]
    lines += [
        "",
        *(f"{name} is not judged by `{case}`, red without a fault: {said}" for name, case, said in left_out),
    ]
    return "\n".join(lines).rstrip() + "\n"
