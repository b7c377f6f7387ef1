"""``harness claims audit``: reported figures held against arithmetic; no server, no model, no torch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table
from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.legs.claims import audit, reported, sources, withdrawn
from harness.legs.claims.audit import FAILS, HOLDS, UNCLEAR, Remark
from harness.record import document

STYLES = {HOLDS: "green", FAILS: "bold red", UNCLEAR: "yellow"}
EPILOG = """\
examples:
  harness claims audit
  harness claims audit results_2026-08-20.json --json remarks.json
  harness claims audit table.md --n 1319

Checks: grim (is the proportion a whole number of right answers over its n?), count, error (standard
error against p and n), prompts (does the same report count other prompts?), spread, exercised (prompts
longer than index_topk), claim (about two legs, against their counts), standing, measured (times and the
like, which only another measurement can tell), withdrawn (a withdrawn figure is cited), and the rules of
bytes, blocks, units.
Of a Markdown file the columns of its tables that are named as scores are read (accuracy, score, strict,
flexible, ...); other figures that look like proportions are told as 'not read'.

exit codes: 0 everything holds or cannot be told, 1 something cannot be, 2 bad input, 3 could not run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("audit",), metavar="audit", help="what to do")
    parser.add_argument(
        "files",
        nargs="*",
        type=named_path,
        metavar="FILE",
        help="lm-eval results (file or folder) or Markdown tables to audit; none: the reported figures",
    )
    parser.add_argument(
        "--reported",
        type=named_path,
        default=reported.FILE,
        metavar="F",
        help="file of reported figures (default: results/reported.toml)",
    )
    parser.add_argument("--n", type=int, metavar="N", help="questions behind figures that name no n")
    parser.add_argument("--json", type=named_path, metavar="F", help="also write the remarks to this file")
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Print every remark; the exit code says whether something cannot be. Raises `InputError`."""
    if args.what is None:
        raise exits.InputError(
            "what to do is missing, allowed is audit: 'harness claims audit' holds the reported figures "
            "against arithmetic, 'harness claims audit FILE' those of an lm-eval results file or a Markdown "
            "table (see 'harness claims --help')"
        )
    document.check_output("--json", args.json)
    if args.n is not None and not 1 <= args.n <= 1_000_000:
        raise exits.InputError(f"--n is {args.n}, allowed are 1 to 1000000")
    told = reported.load(args.reported)
    remarks = elsewhere(told, args.files, args.n) if args.files else audit.report(told)
    show(remarks)
    if args.json:
        records = [remark.to_record() for remark in remarks]
        document.write_text(args.json, json.dumps({"remarks": records}, indent=1) + "\n")
    return exits.DIFFER if any(remark.verdict == FAILS for remark in remarks) else exits.AGREE


def elsewhere(told: reported.Report, files: Iterable[Path], n: int | None) -> list[Remark]:
    """Remarks about figures that others printed."""
    remarks: list[Remark] = []
    for file in files:
        cited, unread = sources.read(file, n)
        for one in cited:
            if one.n is None:
                text = f"{one.which} {one.score.figure.text}: {one.why}"
                remarks.append(Remark(one.where, "grim", UNCLEAR, text))
            else:
                remarks += audit.proportion(one.where, one.which, one.score, one.n)
        remarks += withdrawn.remarks(told, cited)
        remarks += [Remark(one.where, "not read", UNCLEAR, one.said) for one in unread]
    return remarks


def show(remarks: list[Remark]) -> None:
    """A row a remark, and the sums."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in ("claim", "check", "verdict"):
        table.add_column(column, no_wrap=True)
    table.add_column("what the figures say")
    for remark in remarks:
        verdict = Text(remark.verdict, style=STYLES[remark.verdict])
        table.add_row(remark.claim, remark.check, verdict, remark.text)
    console = console_for_people()
    console.print(table)
    counted = [(verdict, sum(remark.verdict == verdict for remark in remarks)) for verdict in audit.VERDICTS]
    console.print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counted))
