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

    store.check_directory("--dir", args.dir)
    roots = {"project": sweep.PROJECT, **{name: tree.resolve() for name, tree in _trees(args).items()}}
    console, found, alive = console_for_people(), {}, []
    for target in targets:
        plan = sweep.plan(target, roots, args.listing, args.dir, args.sample, args.seed)
        console.print(f"source {target.name}: {len(plan.left)} of {len(plan.names)} faults to try")
        said = time.monotonic()
        for done, _ in enumerate(sweep.run(plan, args.n or provenance.cores()), 1):
            if time.monotonic() - said >= PLAIN_EVERY:
                said = time.monotonic()
                console.print(f"{done} tried")
        found[target.name] = counts(plan.records)
        alive += [(target.name, one) for one in plan.records if survived(one)]
    console.print(summary(found))
    for name, record in alive:
        console.print(
            Text(f"\nsurvived the {args.listing} cases: {name}, {record['location']}, {record['rule']}")
        )
        console.print(Text(record["diff"]), soft_wrap=True)
    if args.json:
        by = provenance.collect((), {"sample": args.sample, "seed": args.seed, "cases": args.listing})
        content = {"provenance": by, "sources": found, "survivors": [one for _, one in alive]}
        document.write_text(args.json, json.dumps(content, indent=1) + "\n")
    code = exits.DIFFER if alive else exits.AGREE
    console.print(f"\nlines  {args.dir}\nexit {code}: {len(alive)} survived")
    return code


def check(args: argparse.Namespace) -> list[Any]:
    """The targets meant. Raises `InputError` naming the argument that is wrong."""
    for option in ("kernel", "mutant", "prepare", "prepared", "markdown", "plot", "path"):
        if getattr(args, option):
            raise exits.InputError(f"--{option} means nothing with --source; leave it out")
    if args.part != "1/1":
        raise exits.InputError("--part means nothing with --source; leave it out")
    for name in args.source:
        if name not in (ALL, *TARGETS):
            raise exits.InputError(f"--source is {name!r}, allowed are {', '.join((ALL, *TARGETS))}")
    document.check_output("--json", args.json)
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


def summary(found: dict[str, Any]) -> Table:
    """A row a file, then one an operator over all files."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "source" else "right")
    for name, one in found.items():
        table.add_row(name, *(str(one[column]) for column in COLUMNS[1:]))
    for rule in sorted({rule for one in found.values() for rule in one["operators"]}):
        parts = [one["operators"][rule] for one in found.values() if rule in one["operators"]]
        killed, alive = (sum(part[name] for part in parts) for name in ("killed", "survived"))
        table.add_row(f"  {rule}", "", str(killed), "", str(alive))
    return table
