"""``harness localize ID``: each stage of a pipeline case by itself, on the oracle's inputs; FP4 or FP8.

A chain that goes wrong is wrong in every stage after the first; here each stage is given what the oracle
left, so that the one at fault is the one that differs on its own. A stage whose values are right, but whose
kernel did something that no entry of the ledger knows, is named too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.cli_check import add_fault_argument, add_path_arguments, faults_of, trees_of
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document, provenance

if TYPE_CHECKING:
    from harness.faults.fault import Fault

EPILOG = """\
examples:
  harness localize pipeline-n2-h16-d128-ctx66,3-world1-inter1-k16-pairneox-fspread-s1
  harness localize pipeline-n3-h16-d128-ctx34,5-world2-inter16-k8-pairinterleaved-fspread-s3 \\
      --path aiter --aiter ../aiter
  harness localize pipeline-n2-h16-d128-ctx66,3-k16-pairneox-fmtfn-ue1-tileflat-fspread-s5 \\
      --path aiter --aiter ../aiter --fault fp8-plain-scale
'harness list cases --suite pipeline' prints ids to start from.

exit codes: 0 every stage that ran agrees, 1 a stage differs or has a new finding, 2 bad input,
4 a stage is unsupported
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a pipeline case")
    add_path_arguments(parser)
    add_fault_argument(parser, "plant this fault of the catalogue in the path (repeatable)")
    parser.add_argument("--json", type=named_path, metavar="F", help="also write the stages to this file")
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Run the stages on each path and print them. Raises `InputError`, `CannotRun` or `CaseError`."""
    case = cases.parse(args.id)
    if case.suite != "pipeline":
        raise exits.InputError(f"ID is of suite {case.suite}, allowed are cases of suite pipeline")
    document.check_output("--json", args.json)
    chosen = registry.choose(args.path, trees_of(args))
    faults = faults_of(args.fault, chosen)
    about = provenance.collect(chosen, {"id": case.id}, faults=[fault.name for fault in faults])
    paths = [registry.create(choice) for choice in chosen]
    records = [record for path in paths for record in stages(case, path, faults)]
    show(records)
    if args.json:
        document.write_text(args.json, json.dumps({"provenance": about, "stages": records}, indent=1) + "\n")
    return code(records)


def stages(case: cases.Case, path: Any, faults: Sequence[Fault] = ()) -> list[dict[str, Any]]:
    """A record a stage: path, stage, what ran in it, status, new findings, and where it differs."""
    from harness.checks.book import Book
    from harness.checks.pipeline import where
    from harness.faults.planted import planted
    from harness.judge import ledger
    from harness.judge.verdict import faulty
    from harness.pipeline import chain, raw
    from harness.pipeline.unfused import Unfused
    from harness.pipeline.witness import Witness

    found: list[dict[str, Any]] = []
    name, known = faulty(path.name, [fault.name for fault in faults]), ledger.load()
    witness = Witness(planted(path, faults))
    book = Book(case, Unfused(witness))
    for one in chain.alone(raw.build(case), book.staged, path):
        ran = witness.took(one.stage.name, book.findings)
        new = [finding.text() for finding in known.split(book.findings, path.name)[1]]
        book.findings.clear()
        record: dict[str, Any] = {
            "path": name,
            "stage": one.stage.name,
            "ran": ran,
            "findings": new,
            "status": "agree",
        }
        if one.refused:
            record |= {"status": "unsupported", "reason": one.refused}
        elif one.wrong is not None:
            different = one.wrong.difference
            record |= {
                "status": "differ",
                "reason": different.reason,
                "where": where(one.wrong),
                "got": different.got,
                "want": different.want,
                "count": different.count,
                "total": different.total,
            }
        elif new:
            record["status"] = "finding"
        found.append(record)
    return found


def code(records: list[dict[str, Any]]) -> int:
    """1 when a stage differs or has a new finding, 4 when one is unsupported and none is so, else 0."""
    statuses = {record["status"] for record in records}
    if statuses & {"differ", "finding"}:
        return exits.DIFFER
    return exits.UNPROVEN if "unsupported" in statuses else exits.AGREE


def show(records: list[dict[str, Any]]) -> None:
    """A row a stage, then the sentences that name the first that differs and those with findings."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in ("path", "stage", "who answered", "status", "where"):
        table.add_column(column)
    styles = {"agree": "green", "differ": "bold red", "finding": "bold red", "unsupported": "blue"}
    for record in records:
        status = Text(record["status"], style=styles[record["status"]])
        table.add_row(record["path"], record["stage"], _answered(record), status, _told(record))
    console = console_for_people()
    console.print(table)
    for name in dict.fromkeys(record["path"] for record in records):
        own = [one for one in records if one["path"] == name]
        wrong = [one["stage"] for one in own if one["status"] == "differ"]
        said = f"the first stage that differs on its own is {wrong[0]!r}" if wrong else "no stage differs"
        console.print(f"\n{name}: {said}", soft_wrap=True)
        told: dict[str, list[str]] = {}
        for one in own:
            for finding in one["findings"]:
                told.setdefault(finding, []).append(repr(one["stage"]))
        for finding, places in told.items():
            console.print(f"{name}: new finding in {', '.join(places)}: {finding}", soft_wrap=True)


def _answered(record: dict[str, Any]) -> str:
    """Function and how it was run, of each request of a stage; or why the oracle answered."""
    said = [
        f"{one['function']} ({one['how']})" if one["function"] else f"{one['how']}: {one['why']}"
        for one in record["ran"]
    ]
    return ", ".join(dict.fromkeys(said)) or "nobody"


def _told(record: dict[str, Any]) -> str:
    if record["status"] == "unsupported":
        return str(record["reason"])
    if record["status"] != "differ":
        return ""
    place = ", ".join(f"{key} {value}" for key, value in record["where"].items() if key != "stage")
    return f"{place}: got {record['got']} want {record['want']}; {record['count']} of {record['total']}"
