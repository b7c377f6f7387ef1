"""``harness check ID``: one case, or a capture, on its paths, in this process; any id, listed or not."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import exits
from harness.case import cases
from harness.command.arguments import named_path
from harness.paths import registry
from harness.record import document, provenance

if TYPE_CHECKING:
    from harness.faults.fault import Fault

EPILOG = """\
examples:
  harness check decode-n1-h64-d128-ctx2047-tshuffled-u0-l0-fbytes-s1
  harness check prefill-h32-d128-ctx700-w0@0:690+10-c0-tshuffled-u0-l0-faddress-s3 --path oracle
  harness check quantise-r1-d128-fboundary-s2 --fault tie-away
  harness check --capture DIR
'harness list cases' prints ids to start from, 'harness list --help' what their fields mean,
'harness capture-spec' what a capture is.
"""
CANNOT_TELL = 125
"""What ``git bisect run`` takes for a commit that cannot be tested."""


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """``--path`` and the source trees, the same for every command that runs cases."""
    names = ", ".join(registry.PATHS)
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="P",
        help=f"path under test, repeatable: {names} (default: {registry.DEFAULT}, and every path whose "
        "source tree is given)",
    )
    for option, source in registry.SOURCES.items():
        parser.add_argument(f"--{option}", type=named_path, metavar="DIR", help=f"directory of {source.what}")


def trees_of(args: argparse.Namespace) -> registry.Trees:
    """The source trees that were given."""
    return registry.Trees(**{option: getattr(args, option) for option in registry.SOURCES})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="case id")
    add_capture_argument(parser)
    add_path_arguments(parser)
    parser.add_argument(
        "--json", type=named_path, metavar="F", help="also write the verdict and provenance to this file"
    )
    add_fault_argument(parser, "plant this fault of the catalogue in the path (repeatable)")
    parser.add_argument(
        "--git-exit",
        action="store_true",
        help=f"exit as 'git bisect run' wants it: 0 agrees, 1 differs, {CANNOT_TELL} cannot be told",
    )
    parser.epilog = EPILOG


def add_fault_argument(parser: argparse.ArgumentParser, about: str) -> None:
    """``--fault NAME``, the same wherever faults can be planted."""
    parser.add_argument("--fault", action="append", default=[], metavar="NAME", help=about)


def add_capture_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--capture",
        type=named_path,
        metavar="DIR",
        help="run captured tensors instead (see 'harness capture-spec')",
    )


def main(args: argparse.Namespace) -> int:
    """Run, and return the exit code in the form that was asked for."""
    if not args.git_exit:
        return check(args)
    sys.dont_write_bytecode = True  # two commits within a second may have files of one size
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        code = check(args)
    except Exception as error:  # any other code of ours would call the commit bad
        print(f"harness: {error}", file=sys.stderr)
        return CANNOT_TELL
    return code if code in (exits.AGREE, exits.DIFFER) else CANNOT_TELL


def check(args: argparse.Namespace) -> int:
    """Run the case on each path and print the verdicts. Raises `InputError`, `CannotRun` or `CaseError`."""
    if (args.id is None) == (args.capture is None):
        given = (
            "is missing; give a case id" if args.id is None else f"is {args.id!r} beside --capture; give one"
        )
        raise exits.InputError(f"ID {given} or --capture DIR")
    if args.capture is not None:
        return check_capture(args)
    case = cases.parse(args.id)
    document.check_output("--json", args.json)
    chosen = registry.choose(args.path, trees_of(args))
    faults = faults_of(args.fault, chosen)
    about = provenance.collect(chosen, {"id": case.id}, faults=[fault.name for fault in faults])
    paths = [registry.create(choice) for choice in chosen]

    from harness import runner
    from harness.faults.planted import planted
    from harness.judge import ledger

    records = []
    for path in paths:
        verdict = runner.run(case, planted(path, faults), ledger.load())
        print(verdict.text())
        records.append(verdict.to_record())
    if args.json:
        document.write_json(args.json, about, records, complete=True)
    return exits.of_records(records, asked={case.suite})


def faults_of(names: list[str], chosen: Sequence[registry.Choice]) -> Sequence[Fault]:
    """The faults called ``names``; nothing is imported for none. Raises `InputError` with near names."""
    if not names:
        return ()
    for choice in chosen:
        registry.prepare_environment(choice.name)  # before a module of a stage imports what reads it
    from harness.faults import catalogue

    return catalogue.chosen(names)


def check_capture(args: argparse.Namespace) -> int:
    """The same for a capture; what it holds of its engine is judged too."""
    if args.fault:
        raise exits.InputError(
            f"--fault {args.fault[0]} means nothing with --capture, whose answers are there"
        )
    document.check_output("--json", args.json)
    chosen = registry.choose(args.path, trees_of(args))

    from harness.capture import loading, running
    from harness.judge import ledger

    capture = loading.load(args.capture)
    about = provenance.collect(chosen, running.about(capture))
    paths = [registry.create(choice) for choice in chosen]
    records = []
    for verdict in running.verdicts(capture, paths, ledger.load()):
        print(verdict.text())
        records.append(verdict.to_record())
    if args.json:
        document.write_json(args.json, about, records, complete=True)
    return running.exit_code(records)
