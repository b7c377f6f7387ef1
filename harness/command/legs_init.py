"""``harness legs init``: write a commented campaign to start from."""

from __future__ import annotations

import argparse

from harness import exits
from harness.command.arguments import named_path
from harness.exits import InputError
from harness.legs import example
from harness.record import document


def add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=named_path, metavar="FILE", help="campaign file to write (*.toml)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--atom", dest="kind", action="store_const", const="atom", help="ATOM server (default)"
    )
    which.add_argument(
        "--local", dest="kind", action="store_const", const="local", help="a server on this machine"
    )


def init(args: argparse.Namespace) -> int:
    """Write the file. Raises `InputError` rather than replace one."""
    if args.file.exists():
        raise InputError(f"FILE {args.file} exists already; give another name")
    document.check_output("FILE", args.file)
    make = example.local if args.kind == "local" else example.atom
    document.write_text(args.file, make(str(args.file)))
    print(f"written  {args.file}; edit it, then: harness legs run {args.file}")
    return exits.AGREE
