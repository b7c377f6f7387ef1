"""``harness check ID``: one case on one path, in this process; any id, listed or not."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import exits
from harness.case import cases
from harness.paths import registry
from harness.record import document, provenance

EPILOG = """\
examples:
  harness check decode-n1-h64-d128-ctx2047-tshuffled-u0-l0-fbytes-s1
  harness check prefill-h32-d128-ctx700-w0@0:690+10-c0-tshuffled-u0-l0-faddress-s3 --path oracle
'harness list cases' prints ids to start from, 'harness list --help' what their fields mean.
"""


def add_path_arguments(parser: argparse.ArgumentParser) -> None:
    """``--path`` and ``--aiter``, the same for every command that runs cases."""
    parser.add_argument(
        "--path",
        default=registry.DEFAULT,
        metavar="P",
        help="path under test: " + ", ".join(registry.PATHS) + " (default: %(default)s)",
    )
    parser.add_argument("--aiter", type=Path, metavar="DIR", help="aiter source tree, for --path aiter")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="case id")
    add_path_arguments(parser)
    parser.add_argument(
        "--json", type=Path, metavar="F", help="also write the verdict and provenance to this file"
    )
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Run the case and print its verdict. Raises `InputError`, `CannotRun` or `CaseError`."""
    case = cases.parse(args.id)
    document.check_output("--json", args.json)
    registry.check(args.path, args.aiter)
    about = provenance.collect(path=args.path, aiter=args.aiter, arguments={"id": case.id})
    path = registry.create(args.path, args.aiter)

    from harness import runner
    from harness.judge import ledger

    verdict = runner.run(case, path, ledger.load())
    print(verdict.text())
    record = verdict.to_record()
    if args.json:
        document.write_json(args.json, about, [record], complete=True)
    return exits.of_records([record], asked={case.suite})
