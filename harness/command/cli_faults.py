"""``harness faults``: every fault of the catalogue planted on its smallest case, which must be red.

How it would fail silently: a fault that no request reaches leaves its case green for another reason than one
that is missed; so both have their own word, and only all red is exit code 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from harness import exits
from harness.command.arguments import named_path
from harness.command.cli_check import add_fault_argument, add_path_arguments, trees_of
from harness.command.cli_verify import MAX_WORKERS
from harness.command.console import console_for_people
from harness.command.progress import PLAIN_EVERY, clock
from harness.paths import registry
from harness.record import document, provenance

if TYPE_CHECKING:
    from harness.faults.fault import Fault
    from harness.faults.trial import Told

MEANING = {
    exits.AGREE: "every fault is red",
    exits.DIFFER: "a fault was missed: its case does not differ",
    exits.USAGE: "bad usage or input",
    exits.ERROR: "a case is not green without its fault, or broke with it",
    exits.UNPROVEN: "nothing was missed, but a fault cannot be planted on this path, or was not reached",
    exits.INTERRUPTED: "interrupted",
}
EPILOG = """\
examples:
  harness faults                                    the whole catalogue on the in-tree path
  harness faults --stage score --markdown faults.md
  harness faults --fault tie-away --fault opsel-wrong
  harness faults --path aiter --aiter ../aiter
  harness verify --fault tie-away                   plant one, and run the suites
  harness check ID --fault tie-away

'harness list faults' says of each what is wrong, where it was seen, its smallest case and what misses it.

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_path_arguments(parser)
    add_fault_argument(parser, "only this fault (repeatable)")
    parser.add_argument(
        "--stage", action="append", default=[], metavar="S", help="only faults of this stage (repeatable)"
    )
    parser.add_argument(
        "-n", dest="workers", type=int, metavar="CORES", help="worker processes (default: all cores)"
    )
    parser.add_argument("--json", type=named_path, metavar="F", help="write what became of each fault to F")
    parser.add_argument("--markdown", type=named_path, metavar="F", help="write the table to F")
    codes = (f"  {code:<4}{meaning}" for code, meaning in MEANING.items())
    parser.epilog = EPILOG + "\n".join(codes)


def main(args: argparse.Namespace) -> int:
    """Plant, print the table, write files. Raises `InputError` or `CannotRun` before anything runs."""
    chosen, faults, workers = check(args)
    from harness.faults import sweep, table

    console = console_for_people()
    console.print(f"plant {len(faults)} faults on path {chosen.name}, {workers} workers", soft_wrap=True)
    began = time.monotonic()
    told = table.ordered(follow(console, sweep.run(chosen, faults, workers), len(faults)))
    console.print(Text(table.text(told)), soft_wrap=True)
    console.print(f"\n{table.others(told)}", soft_wrap=True)
    show_not_red(console, told)
    write(args, chosen, told)
    code = sweep.exit_code(told)
    said = f"{table.counts(told)}; {time.monotonic() - began:.0f} s"
    console.print(f"\nexit {code}: {MEANING[code]} ({said})", soft_wrap=True)
    return code


def check(args: argparse.Namespace) -> tuple[registry.Choice, tuple[Fault, ...], int]:
    """(path, faults, workers). Raises `InputError` or `CannotRun` naming the argument that is wrong."""
    workers = provenance.cores() if args.workers is None else args.workers
    if not 1 <= workers <= MAX_WORKERS:
        raise exits.InputError(f"-n is {workers}, allowed are 1 to {MAX_WORKERS} worker processes")
    files = {"--json": args.json, "--markdown": args.markdown}
    for field, file in files.items():
        document.check_output(field, file)
    document.check_apart(files)
    if len(args.path) > 1:
        raise exits.InputError(f"--path names {len(args.path)} paths, allowed is one")
    chosen = registry.choose(args.path, trees_of(args))[-1]  # that of the tree, where one is given
    registry.prepare_environment(chosen.name)  # before the catalogue imports what reads it
    from harness.faults import catalogue

    for stage in args.stage:
        if stage not in catalogue.STAGES:
            raise exits.InputError(f"--stage is {stage!r}, allowed are {', '.join(catalogue.STAGES)}")
    faults = catalogue.chosen(args.fault) or catalogue.ALL
    faults = tuple(fault for fault in faults if not args.stage or fault.stage in args.stage)
    if not faults:
        raise exits.InputError(f"--fault {args.fault[0]} is of none of the stages {', '.join(args.stage)}")
    return chosen, faults, workers


def follow(console: Console, done: Any, count: int) -> list[Told]:
    """Collect what comes, with a line of progress now and then."""
    told: list[Told] = []
    began = said = time.monotonic()
    for one in done:
        told.append(one)
        if time.monotonic() - said >= PLAIN_EVERY:
            said = time.monotonic()
            left = (count - len(told)) * (said - began) / len(told)
            console.print(f"{len(told)} of {count} faults, about {clock(left)} left", soft_wrap=True)
    return told


def show_not_red(console: Console, told: Sequence[Told]) -> None:
    """Why a fault is not red, one line each."""
    from harness.faults.trial import RED

    for one in told:
        if one.outcome != RED:
            console.print(Text(f"{one.outcome}: {one.fault} on {one.case}: {one.reason}"), soft_wrap=True)


def write(args: argparse.Namespace, chosen: registry.Choice, told: Sequence[Told]) -> None:
    """The records for machines, the table for a log."""
    from harness.faults import table

    written: list[Path] = []
    if args.json:
        about = provenance.collect([chosen], {"fault": args.fault, "stage": args.stage})
        document.write_json(args.json, about, table.records(told), complete=True)
        written.append(args.json)
    if args.markdown:
        document.write_text(args.markdown, table.markdown(told))
        written.append(args.markdown)
    if written:
        print(f"\nwritten  {', '.join(map(str, written))}")
