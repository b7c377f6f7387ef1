"""``harness verify``: a thin front on the test engine. Checks the input, runs, sums up, writes.

Everything that can be refused is refused before the first case starts, and everything that has
ended is on disk before the summary is made. How it would fail silently: an engine that stopped
before it ran anything; a run with no verdicts is therefore an error that shows the engine's log.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from harness import exits
from harness.case import cases
from harness.command import engine
from harness.command.arguments import named_path
from harness.command.cli_check import (
    add_capture_argument,
    add_fault_argument,
    add_path_arguments,
    faults_of,
    trees_of,
)
from harness.command.console import console_for_people
from harness.command.progress import Display, Watch
from harness.judge import ledger
from harness.paths import registry
from harness.record import document, provenance, store, summary

EPILOG = """\
examples:
  harness verify
  harness verify --path aiter --aiter ../aiter --cases full --html verify.html
  harness verify --aiter ../aiter --atom ../ATOM
  harness verify --suite decode --suite prefill -n 1 --json verdicts.json
  harness verify --fault tie-away                   are the suites able to see it?

exit codes:
"""
MAX_WORKERS = 256
SECONDS_A_CASE = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_path_arguments(parser)
    add_capture_argument(parser)
    add_fault_argument(parser, "plant this fault of the catalogue in the paths (repeatable)")
    suites = ", ".join(cases.SUITES)
    parser.add_argument(
        "--suite", nargs="+", action="extend", default=[], metavar="S", help=f"only these: {suites}"
    )
    parser.add_argument("--cases", choices=("smoke", "full"), help="which list (default: smoke)")
    parser.add_argument(
        "-n", dest="workers", type=int, metavar="CORES", help="worker processes (default: all cores)"
    )
    parser.add_argument(
        "--limit", type=int, metavar="S", help=f"seconds a case may take (default: {SECONDS_A_CASE})"
    )
    parser.add_argument(
        "--json", type=named_path, metavar="F", help="write verdicts and provenance to this file"
    )
    parser.add_argument("--junit", type=named_path, metavar="F", help="write a JUnit report to this file")
    parser.add_argument("--html", type=named_path, metavar="F", help="write the run as one page to this file")
    add_results_argument(parser)
    parser.epilog = EPILOG + exits.table()


def add_results_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results",
        type=named_path,
        default=Path(store.DEFAULT_DIRECTORY),
        metavar="DIR",
        help="results store (default: ./%(default)s)",
    )


@dataclass(frozen=True)
class Order:
    """What was asked, checked: nothing in it can be refused any more."""

    paths: tuple[registry.Choice, ...]
    suites: tuple[str, ...]
    cases: str
    workers: int
    limit: int
    faults: tuple[str, ...] = ()

    @property
    def trees(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for choice in self.paths:
            found |= choice.trees.given()
        return found

    def options(self) -> list[str]:
        """The engine's options (see ``suites/plugin.py``)."""
        options = ["--cases", self.cases, "--limit", str(self.limit)]
        options += [f"--path={choice.name}" for choice in self.paths]
        options += [f"--{option}={tree}" for option, tree in self.trees.items()]
        options += [f"--fault={name}" for name in self.faults]
        return options + [f"--suite={suite}" for suite in self.suites]

    def arguments(self) -> dict[str, Any]:
        """The arguments in effect, defaults filled in."""
        return {
            "path": [choice.name for choice in self.paths],
            **{option: str(tree) for option, tree in self.trees.items()},
            "cases": self.cases,
            "suite": list(self.suites),
            "workers": self.workers,
            "limit": self.limit,
            **({"fault": list(self.faults)} if self.faults else {}),
        }


def main(args: argparse.Namespace) -> int:
    """Run the suites. Raises `InputError` or `CannotRun` before any case has run."""
    if args.capture is not None:
        from harness.command import captured

        return captured.verify(args)
    order = check(args)
    about = provenance.collect(order.paths, order.arguments(), faults=order.faults)
    run = store.create(args.results, about)
    console = console_for_people()
    which = f"{order.cases} cases of {', '.join(order.suites) or 'all suites'}"
    console.print(
        f"verify path {about['path']}, {which}, {order.workers} workers, run {run.id}", soft_wrap=True
    )
    line = engine.command(run, order.workers, order.options(), junit=args.junit)
    threads = max(1, provenance.cores() // order.workers)
    ended = engine.run(line, run.log, Display(console, Watch(run)), threads=threads)
    return conclude(console, run, order, ended, args)


def check(args: argparse.Namespace) -> Order:
    """Check everything that was asked, cheapest first. Raises `InputError` or `CannotRun`."""
    unknown = [suite for suite in args.suite if suite not in cases.SUITES]
    if unknown:
        raise exits.InputError(f"--suite is {unknown[0]!r}, allowed are {', '.join(cases.SUITES)}")
    workers = provenance.cores() if args.workers is None else args.workers
    if not 1 <= workers <= MAX_WORKERS:
        raise exits.InputError(f"-n is {workers}, allowed are 1 to {MAX_WORKERS} worker processes")
    limit = SECONDS_A_CASE if args.limit is None else args.limit
    if limit < 1:
        raise exits.InputError(f"--limit is {limit}, allowed is a positive number of seconds")
    files = {f"--{field}": getattr(args, field) for field in ("json", "junit", "html")}
    for field, file in files.items():
        document.check_output(field, file)
    document.check_apart(files)
    paths = registry.choose(args.path, trees_of(args))
    faults = tuple(fault.name for fault in faults_of(args.fault, paths))
    ledger.load()
    store.check_directory("--results", args.results)
    suites = tuple(dict.fromkeys(args.suite))
    return Order(paths, suites, args.cases or "smoke", workers, limit, faults)


def conclude(
    console: Console, run: store.Run, order: Order, ended: engine.Ended, args: argparse.Namespace
) -> int:
    """Compile the run, write what was asked for, print the summary, and choose the exit code."""
    loaded = store.load(run)
    complete = ended.whole and len(loaded.records) >= (loaded.planned or 1)
    book = ledger.load()
    stale = summary.stale(loaded.records, book) if complete else []
    code = exits.of_records(loaded.records, asked=order.suites, stale=len(stale), complete=complete)
    code = exits.INTERRUPTED if ended.interrupted else code
    store.finish(run, complete=complete, exit_code=code)
    summary.show(console, loaded.records, book, stale=stale)
    show_gaps(console, run, loaded, ended)
    write_files(console, run, loaded, args, complete)
    console.print(f"\nresults  {run.folder}", soft_wrap=True)
    console.print(f"exit {code}: {exits.MEANING[code]} ({summary.statuses(loaded.records)})", soft_wrap=True)
    return code


def show_gaps(console: Console, run: store.Run, loaded: store.Loaded, ended: engine.Ended) -> None:
    """Say what did not end, and why the engine stopped if it did by itself."""
    missing = (loaded.planned or 0) - len(loaded.records)
    if missing > 0:
        console.print(f"\n{missing} of {loaded.planned} cases did not end")
    for case in loaded.unfinished:
        console.print(f"  cut short  {case}", soft_wrap=True)
    if not ended.interrupted and (missing > 0 or not ended.whole):
        tail = run.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        console.print(
            f"\nthe test engine stopped with code {ended.exit_code}; the end of {run.log}:", soft_wrap=True
        )
        console.print(Text("\n".join(f"  {line}" for line in tail)), soft_wrap=True)


def write_files(
    console: Console, run: store.Run, loaded: store.Loaded, args: argparse.Namespace, complete: bool
) -> None:
    """The JSON document and the page, where they were asked for (the engine wrote the JUnit report)."""
    manifest = run.manifest()
    about = {**manifest["provenance"], **{key: manifest.get(key) for key in ("id", "started", "finished")}}
    if args.json:
        document.write_json(args.json, about, loaded.records, complete=complete)
    if args.html:
        from harness.report import page

        document.write_text(args.html, page.render(run))
    written = [
        f"--{field} {getattr(args, field)}"
        for field in ("json", "junit", "html")
        if getattr(args, field, None)
    ]
    if written:
        console.print(f"\nwritten  {', '.join(written)}", soft_wrap=True)
