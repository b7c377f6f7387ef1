"""``harness legs certify``: may the legs of a campaign folder be believed?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from harness import exits
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.exits import InputError
from harness.legs.certify.certificate import Certificate
from harness.record import document


def add_certify(what: Any) -> None:
    """``certify``; what judges is loaded only when it is asked for."""
    certify = what.add_parser(
        "certify",
        help="certify the legs of a campaign folder",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    certify.add_argument("directory", type=named_path, metavar="DIR", help="campaign folder")
    certify.add_argument("--json", type=named_path, metavar="F", help="also write all figures to this file")
    certify.add_argument(
        "--index-topk",
        type=int,
        metavar="N",
        help="tokens that a prompt must exceed; 0: no sparse indexer (default: the campaign's, else 2048)",
    )
    certify.add_argument(
        "--tokenizer",
        type=named_path,
        metavar="DIR_OR_FILE",
        help="tokenizer.json of the model, for prompts whose tokens the server did not tell",
    )


def certify(args: argparse.Namespace) -> int:
    """Certify, print, write; exit code 4 when a leg is not certified. Raises `InputError`."""
    from harness.legs import drive
    from harness.legs.certify import certifying, tokens

    directory = args.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is no folder; give a campaign folder")
    if args.index_topk is not None and args.index_topk < 0:
        raise InputError(f"--index-topk is {args.index_topk}, allowed is 0 or more")
    drive.check_files(directory)
    document.check_output("--json", args.json)
    count = tokens.tokenizer(args.tokenizer) if args.tokenizer else None
    found = certifying.certify(directory, index_topk=args.index_topk, count=count)
    if not found:
        raise InputError(f"{directory} holds no sample of a leg")
    console = console_for_people()
    show(console, found)
    certifying.write(found, directory / certifying.FILE)
    if args.json:
        certifying.write(found, args.json)
    left = certifying.uncertified(found)
    console.print(said(found, left), soft_wrap=True)
    return exits.UNPROVEN if left else exits.AGREE


def show(console: Console, found: Mapping[str, Certificate]) -> None:
    """The table of all points."""
    from harness.legs.certify import tables

    console.print(tables.console(found))
    console.print()


def said(found: Mapping[str, Certificate], left: list[str]) -> str:
    """The last line: which legs are not certified."""
    if left:
        names = ", ".join(f"{leg} ({found[leg].word})" for leg in left)
        legs, are = _legs(len(found)), "is" if len(left) == 1 else "are"
        return f"exit 4: {len(left)} of {legs} {are} not certified: {names}"
    bad = [leg for leg, one in found.items() if one.known_bad and not one.certified]
    good = len(found) - len(bad)
    whole = f"all {_legs(good)}" if good > 1 and not bad else _legs(good)
    but = f"; not certified, and known to be bad: {', '.join(bad)}" if bad else ""
    return f"exit 0: {whole} {'is' if good == 1 else 'are'} certified{_except(found)}{but}"


def _except(found: Mapping[str, Certificate]) -> str:
    """What the certificates leave out, with the legs where it is not all of them."""
    left: dict[str, list[str]] = {}
    certified = [one for one in found.values() if one.certified]
    for one in certified:
        for point in one.unshown:
            left.setdefault(point.name, []).append(one.leg)
    said = [
        name if len(legs) == len(certified) else f"{name} ({', '.join(legs)})" for name, legs in left.items()
    ]
    return f" except {', '.join(said)}" if said else ""


def _legs(count: int) -> str:
    return "1 leg" if count == 1 else f"{count} legs"
