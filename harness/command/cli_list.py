"""``harness list``: what there is to run. Loads no torch but for the faults, so that it answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from harness import exits
from harness.case import case_lists, cases, lists
from harness.paths import registry

WHAT = ("cases", "paths", "suites", "fills", "faults")
FIELDS_HELP = "\n".join(f"  {name:<8}{meaning}" for name, meaning in cases.HELP.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=WHAT, help="what to list")
    parser.add_argument(
        "--suite", action="append", default=[], choices=cases.SUITES, help="only cases of this suite"
    )
    parser.add_argument(
        "--cases", default="smoke", choices=("smoke", "full"), help="which list (default: smoke)"
    )
    parser.epilog = f"fields of a case id, in the order of its suite:\n{FIELDS_HELP}"


def main(args: argparse.Namespace) -> int:
    """Print one line for each thing listed."""
    print("\n".join(_lines(args)))
    return exits.AGREE


def _fills() -> Iterator[tuple[str, str]]:
    for suite in lists.SUITES.values():
        if any("f" in names for names in suite.kinds.values()):
            yield from suite.fills.items()


def _lines(args: argparse.Namespace) -> list[str]:
    if args.what == "cases":
        chosen = args.suite or cases.SUITES
        return [case.id for suite in chosen for case in case_lists.listed(suite, args.cases)]
    if args.what == "faults":
        return _faults()
    if args.what == "paths":
        return [f"{name:<10}{entry.about}" for name, entry in registry.PATHS.items()]
    if args.what == "fills":
        return list(dict.fromkeys(f"{name:<10}{about}" for name, about in _fills()))
    return [_suite_line(suite) for suite in cases.SUITES]


def _faults() -> list[str]:
    registry.prepare_environment(registry.DEFAULT)  # before a module of a stage imports what reads it
    from harness.faults import table

    return table.lines()


def _suite_line(suite: str) -> str:
    smoke, full = (len(case_lists.listed(suite, size)) for size in case_lists.LISTS)
    return f"{suite:<12}{smoke:5} smoke{full:6} full   {lists.SUITES[suite].about}"
