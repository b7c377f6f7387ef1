"""``harness localize ID``: each stage of a pipeline case by itself, on the oracle's inputs.

A chain that goes wrong is wrong in every stage after the first; here each stage is given what the oracle
left, so that the one at fault is the one that differs on its own.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments, trees_of
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document, provenance

EPILOG = """\
examples:
  harness localize pipeline-n2-h16-d128-ctx66,3-world1-inter1-k16-pairneox-fspread-s1
  harness localize pipeline-n3-h16-d128-ctx34,5-world2-inter16-k8-pairinterleaved-fspread-s3 \\
      --path aiter --aiter ../aiter
'harness list cases --suite pipeline' prints ids to start from.

exit codes: 0 every stage that ran agrees, 1 a stage differs, 2 bad input, 4 no stage could be asked
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of a pipeline case")
    add_path_arguments(parser)
    parser.add_argument("--json", type=named_path, metavar="F", help="also write the stages to this file")
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Run the stages on each path and print them. Raises `InputError`, `CannotRun` or `CaseError`."""
    case = cases.parse(args.id)
    if case.suite != "pipeline":
        raise exits.InputError(f"ID is of suite {case.suite}, allowed are cases of suite pipeline")
    document.check_output("--json", args.json)
    chosen = registry.choose(args.path, trees_of(args))
    about = provenance.collect(chosen, {"id": case.id})
    records = [record for choice in chosen for record in stages(case, registry.create(choice))]
    show(records)
    if args.json:
        document.write_text(args.json, json.dumps({"provenance": about, "stages": records}, indent=1) + "\n")
    return code(records)


def stages(case: cases.Case, path: Any) -> list[dict[str, Any]]:
    """A record a stage: path, stage, who answered, status, and where it differs."""
    from harness.checks.book import Book
    from harness.checks.pipeline import where
    from harness.pipeline import chain, raw

    found = []
    book = Book(case, path)
    for one in chain.alone(raw.build(case), book.stage):
        answered = book.facts.pop("subjects", {})
        record = {"path": path.name, "stage": one.stage.name, "subjects": answered, "status": "agree"}
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
        found.append(record)
    return found


def code(records: list[dict[str, Any]]) -> int:
    """1 when a stage differs, 4 when one is unsupported and none differs, else 0."""
    statuses = {record["status"] for record in records}
    if "differ" in statuses:
        return exits.DIFFER
    return exits.UNPROVEN if "unsupported" in statuses else exits.AGREE


def show(records: list[dict[str, Any]]) -> None:
    """A row a stage, then the sentence that names the first that differs."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in ("path", "stage", "who answered", "status", "where"):
        table.add_column(column)
    styles = {"agree": "green", "differ": "bold red", "unsupported": "blue"}
    for record in records:
        answered = ", ".join(dict.fromkeys(record["subjects"].values())) or "nobody"
        status = Text(record["status"], style=styles[record["status"]])
        table.add_row(record["path"], record["stage"], answered, status, _told(record))
    console = console_for_people()
    console.print(table)
    for name in dict.fromkeys(record["path"] for record in records):
        wrong = [one for one in records if one["path"] == name and one["status"] == "differ"]
        said = (
            f"the first stage that differs on its own is {wrong[0]['stage']!r}"
            if wrong
            else "no stage differs"
        )
        console.print(f"\n{name}: {said}", soft_wrap=True)


def _told(record: dict[str, Any]) -> str:
    if record["status"] == "unsupported":
        return str(record["reason"])
    if record["status"] == "agree":
        return ""
    place = ", ".join(f"{key} {value}" for key, value in record["where"].items() if key != "stage")
    return f"{place}: got {record['got']} want {record['want']}; {record['count']} of {record['total']}"
