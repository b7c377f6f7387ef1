"""``harness legs report``: a campaign folder as one page."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from harness import exits
from harness.command.arguments import named_path
from harness.exits import CannotRun, InputError
from harness.record import document


def add_page(what: Any) -> None:
    """``report``; what draws is loaded only when it is asked for."""
    page = what.add_parser(
        "report",
        help="write a campaign folder as one self-contained page",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    page.add_argument("directory", type=named_path, metavar="DIR", help="campaign folder")
    page.add_argument("--html", required=True, type=named_path, metavar="F", help="file to write")


def report(args: argparse.Namespace) -> int:
    """Write the page; 0 when it could be written, whatever it says. Raises `InputError`, `CannotRun`."""
    directory = args.directory
    if not directory.is_dir():
        raise InputError(f"{directory} is no folder; give a campaign folder")
    document.check_output("--html", args.html)
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotRun("the pictures need the package matplotlib (pip install '.[legs]')")
    from harness.legs import journal, pooling
    from harness.legs.certify import certifying
    from harness.legs.page import page

    certificates = certifying.certify(directory)
    if not certificates:
        raise InputError(f"{directory} holds no sample of a leg")
    table = journal.table(directory)
    found = pooling.pool(directory, table, certificates)
    document.write_text(args.html, page.render(directory, table, found, certificates))
    print(f"written  {args.html}")
    return exits.AGREE
