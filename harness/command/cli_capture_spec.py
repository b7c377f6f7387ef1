"""``harness capture-spec``: the format of captured tensors, and an example of it made from a case."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import exits
from harness.capture import format as capture_format
from harness.case import cases
from harness.command.arguments import EMPTY

EPILOG = """\
examples:
  harness capture-spec
  harness capture-spec --example cap decode-n2-h32-d128-ctx700,437-tshuffled-u0-l0-fnatural-s1
  harness check --capture cap
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--example",
        nargs=2,
        metavar=("DIR", "ID"),
        help="write a capture of this decode or prefill case into DIR",
    )
    parser.epilog = EPILOG


def main(args: argparse.Namespace) -> int:
    """Print the format, or write an example. Raises `InputError` or `CaseError`."""
    if args.example is None:
        print(capture_format.spec())
        return exits.AGREE
    if not args.example[0]:
        raise exits.InputError(f"--example {EMPTY}")
    folder, case = Path(args.example[0]), cases.parse(args.example[1])

    from harness.capture import writing

    writing.write(folder, *writing.example(case))
    print(f"written  {folder}; try: harness check --capture {folder}")
    return exits.AGREE
