"""``harness legs pool``: the legs of a campaign folder pooled into statements no stronger than the data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness import exits
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.exits import InputError
from harness.legs import journal
from harness.record import document, store

if TYPE_CHECKING:
    from harness.legs.certify.certificate import Certificate
    from harness.legs.pool.pooled import Pooled


def add_pool(what: Any) -> None:
    """``pool``; the statistics are loaded only when they are asked for."""
    pooling = what.add_parser(
        "pool",
        help="pool the legs of a campaign folder",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pooling.add_argument("directory", type=named_path, metavar="DIR", help="campaign folder")
    pooling.add_argument(
        "--base",
        metavar="LEG",
        help="leg the others are held against (default: the campaign's, else the first)",
    )
    pooling.add_argument(
        "--margin",
        type=float,
        metavar="POINTS",
        help="equivalence margin (default: the campaign's, else 1.0)",
    )
    pooling.add_argument("--json", type=named_path, metavar="F", help="also write all figures to this file")
    pooling.add_argument(
        "--write",
        type=named_path,
        metavar="DIR",
        help="write pooled.md, certificates.md, legs and comparisons as CSV and Parquet",
    )


def pool(args: argparse.Namespace) -> int:
    """Pool, print, write; exit code 4 when a leg that should be is not measured, or not certified.

    Past lm-eval runs keep too little to be certified, so there only what fails counts.
    """
    directory = args.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is no folder; give a campaign folder")
    if args.margin is not None and not 0 < args.margin < 100:
        raise InputError(f"--margin is {args.margin}, allowed are points above 0 and below 100")
    document.check_output("--json", args.json)
    if args.write:
        store.check_directory("--write", args.write)
    from harness.legs import pooling
    from harness.legs.certify import certifying, measured

    certificates = certifying.certify(directory, base=args.base)
    if not certificates:
        raise InputError(f"{directory} holds no sample of a leg")
    if args.base is not None and args.base not in certificates:
        raise InputError(f"--base is {args.base!r}, allowed are {', '.join(certificates)}")
    found = pooling.pool(
        directory, journal.table(directory), certificates, base=args.base, margin=args.margin
    )
    show(found, certificates)
    write(args, found, certificates)
    refused = [leg for leg in found.refused if leg not in found.known_bad]
    left = certifying.uncertified(certificates) if measured.campaign_of(directory) else []
    return exits.UNPROVEN if refused or left else exits.AGREE


def show(found: Pooled, certificates: Mapping[str, Certificate]) -> None:
    """Tables, then the sentences, then what limits them."""
    from harness.legs.certify import tables as certified
    from harness.legs.pool import tables

    console = console_for_people()
    for one in tables.console(found):
        console.print(one)
        console.print()
    for sentence in (*tables.sentences(found), *certified.limits(certificates)):
        console.print(sentence, soft_wrap=True)


def write(args: argparse.Namespace, found: Pooled, certificates: Mapping[str, Certificate]) -> None:
    """The files of --json and --write."""
    from harness.legs.certify import tables as certified
    from harness.legs.pool import tables

    if args.json:
        document.write_text(args.json, json.dumps(found.records(), indent=1) + "\n")
    if args.write:
        files = tables.write(found, args.write)
        files.append(args.write / "certificates.md")
        document.write_text(files[-1], "\n".join(certified.markdown(certificates)) + "\n")
        print("written  " + ", ".join(map(str, files)))
