"""``harness diagnose ID``: which fault of the catalogue gives the very answers that a path gave.

How it would fail silently: a fault named for a difference it does not make; so every answer of the case,
and of more cases like it, is held against it bit for bit, and what fits alone is told from what fits among
others.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import Any

from rich.text import Text

from harness import exits
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.cli_check import add_path_arguments, trees_of
from harness.command.console import console_for_people
from harness.command.progress import PLAIN_EVERY, clock
from harness.paths import registry
from harness.record import document, provenance

SECONDS = 120.0
LONGEST = 86400.0
MEANING = {
    exits.AGREE: "the case agrees, there is nothing to diagnose (with --all-faults: the target holds)",
    exits.DIFFER: "a fault was named, or several that are not told apart (--all-faults: target missed)",
    exits.USAGE: "bad usage or input",
    exits.ERROR: "the path cannot run the case",
    exits.UNPROVEN: "no fault of the catalogue fits; the structure of the difference is shown",
    exits.INTERRUPTED: "interrupted",
}
EPILOG = """\
examples:
  harness diagnose decode-n2-h32-d128-ctx70,300-tshuffled-u0-l0-fbytes-s1 --path aiter --aiter ../aiter
  harness diagnose quantise-r48-d128-fboundary-s1 --fault tie-away
  harness diagnose --all-faults --path oracle

Every fault of the catalogue that touches what is answered otherwise is planted in the oracle; it fits if it
gives every bit that is compared. What fits is held against two fresh seeds, its own smallest case and three
other shapes. certain: one fits them all, and no other does. If none fits, pairs are tried for --seconds, and
the structure of the difference is shown.

--all-faults plants each fault of the catalogue in the path, diagnoses its smallest case, and counts: once
with the whole catalogue, where it should be named first, once without it, where nothing should be certain.

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="id of a case that differs")
    add_path_arguments(parser)
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="plant this fault first, to try it out"
    )
    parser.add_argument(
        "--all-faults", action="store_true", help="measure: plant and diagnose every fault of the catalogue"
    )
    parser.add_argument(
        "--stage", action="append", default=[], metavar="S", help="of --all-faults, this stage"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"time for pairs (default: {SECONDS:g})"
    )
    parser.add_argument("--json", type=named_path, metavar="F", help="also write the diagnosis to this file")
    parser.add_argument("--markdown", type=named_path, metavar="F", help="also write it as Markdown")
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Diagnose, and return the exit code. Raises `InputError`, `CannotRun` or `CaseError`."""
    if (args.id is None) != args.all_faults:
        given = (
            "is missing; give a case id"
            if args.id is None
            else f"is {args.id!r} beside --all-faults; give one"
        )
        raise exits.InputError(f"ID {given} or --all-faults")
    if args.stage and not args.all_faults:
        raise exits.InputError("--stage is given without --all-faults, which it belongs to")
    if not 0 <= args.seconds <= LONGEST:
        raise exits.InputError(f"--seconds is {args.seconds:g}, allowed are 0 to {LONGEST:g}")
    case = None if args.id is None else cases.parse(args.id)
    files = {"--json": args.json, "--markdown": args.markdown}
    for option, file in files.items():
        document.check_output(option, file)
    document.check_apart(files)
    chosen = registry.choose(args.path, trees_of(args))
    if len(chosen) != 1:
        names = ", ".join(choice.name for choice in chosen)
        raise exits.InputError(f"--path is {names}, allowed is one path; name it with --path")
    about = provenance.collect(chosen, {"id": args.id, "fault": args.fault})
    path = registry.create(chosen[0])
    if case is None:
        return measured(args, path, about)
    return diagnosed(args, case, path, chosen[0], about)


def diagnosed(
    args: argparse.Namespace, case: cases.Case, path: Any, choice: registry.Choice, about: Any
) -> int:
    """One case."""
    from harness.diagnose import text
    from harness.diagnose.search import Search
    from harness.faults import catalogue
    from harness.judge import ledger

    console = console_for_people()
    planted = tuple(map(catalogue.named, args.fault))
    console.print(
        f"diagnose {case.id} on {path.name}" + "".join(f", with {one.name} planted" for one in planted),
        soft_wrap=True,
    )
    search = Search(
        path, catalogue.ALL, ledger.load(), planted=planted, seconds=args.seconds, tell=progress(console)
    )
    found = search.run(case)
    if not found.seen.told:
        raise exits.CannotRun(f"ID {case.id} is unsupported on {path.name}: {found.seen.verdict.reason}")
    console.print(Text(text.plain(found)), soft_wrap=True)
    options = [*choice.trees.options(), *(word for one in planted for word in ("--fault", one.name))]
    again = shlex.join(["harness", "diagnose", case.id, "--path", choice.name, *options])
    if args.json:
        document.write_json(args.json, about, [text.record(found)], complete=True)
    if args.markdown:
        document.write_text(args.markdown, text.markdown(found, again))
    return code(found)


def code(found: Any) -> int:
    """0 where nothing differs, 1 where something is named, 4 where nothing fits."""
    if not found.seen.differs:
        return exits.AGREE
    return exits.DIFFER if found.standing else exits.UNPROVEN


def measured(args: argparse.Namespace, path: Any, about: Any) -> int:
    """Every fault of the catalogue (or of some stages), planted and diagnosed."""
    from harness.diagnose import measuring
    from harness.faults import catalogue
    from harness.judge import ledger

    faults = [one for one in catalogue.ALL if not args.stage or one.stage in args.stage]
    for stage in args.stage:
        if stage not in catalogue.STAGES:
            raise exits.InputError(f"--stage is {stage!r}, allowed are {', '.join(catalogue.STAGES)}")
    console, records = console_for_people(), []
    console.print(f"diagnose {len(faults)} faults on {path.name}", soft_wrap=True)
    for fault in faults:
        one = measuring.measure(fault, catalogue.ALL, path, ledger.load())
        records.append(one)
        console.print(Text(one.text()), soft_wrap=True)
    console.print(f"\n{measuring.summary(records)}", soft_wrap=True)
    if args.json:
        document.write_json(args.json, about, [one.to_record() for one in records], complete=True)
    if args.markdown:
        document.write_text(args.markdown, measuring.markdown(records, path.name))
    return exits.AGREE if measuring.holds(records) else exits.DIFFER


def progress(console: Any) -> Any:
    """A line now and then."""
    began = said = time.monotonic()

    def tell(text: str) -> None:
        nonlocal said
        if time.monotonic() - said >= PLAIN_EVERY:
            said = time.monotonic()
            console.print(f"{clock(said - began)}, {text}", soft_wrap=True)

    return tell
