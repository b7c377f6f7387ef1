"""``harness report``: past runs from the store, crashed ones included, as list, summary or page."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.cli_verify import add_results_argument, console_for_people
from harness.judge import ledger
from harness.judge.verdict import Verdict
from harness.record import document, store, summary

EPILOG = """\
examples:
  harness report                      the runs, oldest first
  harness report last                 the newest run's summary again
  harness report 20261201 --html F    the run whose id starts so, as one page
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="a run's id, the start of one, or 'last'; none: list runs"
    )
    parser.add_argument("--all", action="store_true", help="print every failure's text")
    parser.add_argument("--html", type=named_path, metavar="F", help="write the run as one page to this file")
    parser.add_argument(
        "--json", type=named_path, metavar="F", help="write verdicts and provenance to this file"
    )
    add_results_argument(parser)
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Show what was asked for; 0 when it could be shown, whatever the run's verdicts were."""
    if not args.results.is_dir():
        raise exits.InputError(f"--results {args.results} is no directory; 'harness verify' makes one")
    if args.run is None:
        if args.html or args.json or args.all:
            raise exits.InputError("RUN is missing; give a run's id or 'last'")
        list_runs(console_for_people(), args.results)
        return exits.AGREE
    document.check_output("--html", args.html)
    document.check_output("--json", args.json)
    show_run(console_for_people(), store.find(args.results, args.run), args)
    return exits.AGREE


def list_runs(console: Console, directory: Path) -> None:
    """One row a run."""
    known = store.runs(directory)
    if not known:
        console.print(f"no runs in {directory}")
        return
    shown = Table(show_edge=False, pad_edge=False, header_style="bold")
    for column in ("run", "path", "cases", "verdicts", "state"):
        shown.add_column(column, overflow="fold")
    for run in known:
        loaded, manifest = store.load(run), run.manifest()
        about = manifest.get("provenance") or {}
        arguments = about.get("arguments") or {}
        state = "complete" if manifest.get("complete") else f"cut short, {_of_plan(loaded)}"
        shown.add_row(
            run.id, str(about.get("path", "?")), _which(arguments), summary.statuses(loaded.records), state
        )
    console.print(shown)


def show_run(console: Console, run: store.Run, args: argparse.Namespace) -> None:
    """The summary as it was printed when the run ended, and the files asked for."""
    loaded, manifest = store.load(run), run.manifest()
    about = manifest.get("provenance") or {}
    complete = bool(manifest.get("complete"))
    console.print(f"run {run.id}, path {about.get('path', '?')}, started {manifest.get('started', '?')}")
    if not complete:
        console.print(f"cut short: {_of_plan(loaded)}")
    if loaded.torn:
        console.print(f"{loaded.torn} torn journal lines were left out (a write was cut off)")
    for case in loaded.unfinished:
        console.print(f"  cut short  {case}", soft_wrap=True)
    book = ledger.load()
    stale = summary.stale(loaded.records, book) if complete else []
    summary.show(console, loaded.records, book, stale=stale)
    if args.all:
        for record in summary.red(loaded.records)[summary.TEXTS_SHOWN :]:
            console.print(Text(f"\n{Verdict.from_record(record).text()}"), soft_wrap=True)
    code = manifest.get("exit_code")
    if isinstance(code, int) and code in exits.MEANING:
        console.print(
            f"\nexit {code}: {exits.MEANING[code]} ({summary.statuses(loaded.records)})", soft_wrap=True
        )
    if args.json:
        document.write_json(args.json, {**about, "id": run.id}, loaded.records, complete=complete)
    if args.html:
        from harness.report import page

        document.write_text(args.html, page.render(run))
        console.print(f"\nwritten  {args.html}", soft_wrap=True)


def _which(arguments: dict[str, object]) -> str:
    suites = arguments.get("suite")
    named = ", ".join(map(str, suites)) if isinstance(suites, list) and suites else "all suites"
    return f"{arguments.get('cases', '?')}, {named}"


def _of_plan(loaded: store.Loaded) -> str:
    planned = "an unknown number of" if loaded.planned is None else loaded.planned
    return f"{len(loaded.records)} of {planned} cases ended"
