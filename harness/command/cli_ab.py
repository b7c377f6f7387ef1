"""``harness ab``: the same inputs through two source trees, every output byte and signature compared.

"The FP8 default is unchanged" is ``harness ab --base OLD --head NEW --suite fp8``. How it would fail
silently: nothing compared looks like nothing changed, so exit code 0 takes at least one answer that
both trees gave.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import exits
from harness.ab import compare, show, sides, text
from harness.ab.order import SIDES, Order, same_kind
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document, provenance

MEANING = {
    exits.AGREE: "every answer that both trees gave has the same bytes, and no signature changed",
    exits.DIFFER: "something differs: bytes, a signature or default, or the head no longer answers",
    exits.USAGE: "bad usage or input",
    exits.ERROR: "a side could not run, or a case breaks on both",
    exits.UNPROVEN: "nothing was compared, at all or of a suite that was named",
    exits.INTERRUPTED: "interrupted",
}
EPILOG = """\
examples:
  harness ab --base ../aiter-released --head ../aiter --suite fp8     the FP8 default is unchanged
  harness ab --base ../aiter-released --head ../aiter                 all suites that aiter answers
  harness ab --base ../ATOM-main --head ../ATOM --aiter ../aiter --suite gate pool --json ab.json

Each tree runs in a process of its own, on the CPU where no gfx950 is there, and is given the same
requests. A case stops at its first answer that the oracle contradicts or the tree refuses, on both
sides alike. Trees of one commit each are made by: git -C ../aiter worktree add ../aiter-released COMMIT

what becomes of a case:
"""
PLAIN_EVERY = 10.0
"""Seconds between two plain lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", type=named_path, required=True, metavar="DIR", help="the tree as it was")
    parser.add_argument(
        "--head", type=named_path, required=True, metavar="DIR", help="the tree as it is to be"
    )
    parser.add_argument(
        "--aiter",
        type=named_path,
        metavar="DIR",
        help="for ATOM trees: the aiter checkout that both stand on",
    )
    parser.add_argument(
        "--suite",
        nargs="+",
        action="extend",
        default=[],
        metavar="S",
        help=f"only these (default: all that the trees' path answers): {', '.join(cases.SUITES)}",
    )
    parser.add_argument("--cases", default="smoke", choices=("smoke", "full"), help="default: smoke")
    parser.add_argument(
        "--json", type=named_path, metavar="F", help="write every case and change to this file"
    )
    words = "\n".join(show.meaning(word) for word in show.WORDS)
    codes = "\n".join(f"  {code:<4}{text}" for code, text in MEANING.items())
    parser.epilog = f"{EPILOG}{words}\n\nexit codes:\n{codes}"


def main(args: argparse.Namespace) -> int:
    """Compare and return the exit code. Raises `InputError` or `CannotRun` before anything runs."""
    trees = {side: getattr(args, side).resolve() for side in SIDES}
    path = same_kind(trees["base"], trees["head"])
    suites = _suites(args.suite, path)
    document.check_output("--json", args.json)
    if args.aiter is not None:
        if registry.entry(path).beneath != "aiter":
            raise exits.InputError(f"--aiter {args.aiter} means nothing to trees of {path}")
        registry.check_tree("aiter", args.aiter)
    console = console_for_people()
    console.print(show.headline(trees["base"], trees["head"], path, suites, args.cases), soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="harness-ab-"))
    before = signal.signal(signal.SIGTERM, _interrupt)  # so that the folder goes, too
    try:
        return _compared(console, args, path, suites, trees, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _suites(named: Sequence[str], path: str) -> tuple[str, ...]:
    unknown = [suite for suite in named if suite not in cases.SUITES]
    if unknown:
        raise exits.InputError(f"--suite is {unknown[0]!r}, allowed are {', '.join(cases.SUITES)}")
    return tuple(dict.fromkeys(named)) or registry.entry(path).suites or tuple(cases.SUITES)


def _compared(
    console: Console,
    args: argparse.Namespace,
    path: str,
    suites: tuple[str, ...],
    trees: dict[str, Path],
    folder: Path,
) -> int:
    beneath = None if args.aiter is None else str(args.aiter.resolve())
    started = []
    try:
        for side in SIDES:
            own = folder / side
            own.mkdir()
            order = Order(path, str(trees[side]), beneath, suites, args.cases, str(own))
            registry.choose([path], order.choice.trees)
            started.append(sides.start(order))
        both = (started[0], started[1])
        progress = Progress(console, both)
        found = [
            compare.case(base, head, (both[0].folder, both[1].folder))
            for base, head in sides.paired(both, progress)
        ]
        whole = all(side.ended for side in both)
        logs = (
            {} if whole else {side: one.log() for side, one in zip(SIDES, both, strict=True) if not one.ended}
        )
    finally:
        for one in started:
            sides.stop(one)
    changes, alone = compare.functions(both[0].functions, both[1].functions)
    alone += text.notes(both[0].texts, both[1].texts)
    code = exit_code(found, changes, whole=whole, named=args.suite)
    console.print(show.table(found))
    show.details(console, found)
    show.signatures(console, changes, alone, len(both[0].functions.keys() & both[1].functions.keys()))
    for side, log in logs.items():
        console.print(f"\n{side} stopped before its end; it said last:\n{log}", soft_wrap=True)
    if args.json:
        _write(args, trees, path, suites, found, changes, alone, code, whole)
    said = show.nothing(found, path) if code == exits.UNPROVEN else MEANING[code]
    console.print(f"exit {code}: {said}", soft_wrap=True)
    return code


def exit_code(
    found: Sequence[compare.Compared],
    changes: Sequence[compare.Change],
    *,
    whole: bool,
    named: Sequence[str] = (),
) -> int:
    """A difference outranks what could not run, and that outranks what proves nothing.

    ``named``: suites that were asked for by name, of each of which something must have been compared.
    """
    statuses = {one.status for one in found}
    if changes or statuses & {compare.DIFFERS, compare.GONE}:
        return exits.DIFFER
    if not whole or compare.ERROR in statuses:
        return exits.ERROR
    compared = {one.suite for one in found if one.status == compare.SAME}
    return exits.AGREE if compared and compared >= set(named) else exits.UNPROVEN


def _write(
    args: argparse.Namespace,
    trees: dict[str, Path],
    path: str,
    suites: tuple[str, ...],
    found: Sequence[compare.Compared],
    changes: Sequence[compare.Change],
    alone: Sequence[str],
    code: int,
    whole: bool,
) -> None:
    about: dict[str, Any] = {
        "command": "ab",
        "path": path,
        **{side: {"tree": str(tree), **provenance.commit_of(tree)} for side, tree in trees.items()},
        "suites": list(suites),
        "cases": args.cases,
        "exit_code": code,
        "notes": list(alone),
    }
    records = [one.to_record() for one in found]
    records += [{"kind": "signature", "what": change.what} for change in changes]
    document.write_json(args.json, about, records, complete=whole)


class Progress:
    """Called now and then: a line in place on a terminal, else a plain one every `PLAIN_EVERY` seconds."""

    def __init__(self, console: Console, both: tuple[sides.Side, sides.Side]) -> None:
        self._console, self._both = console, both
        self._said = time.monotonic()

    def __call__(self) -> None:
        every = 0.5 if self._console.is_terminal else PLAIN_EVERY
        if time.monotonic() - self._said < every:
            return
        self._said = time.monotonic()
        end = "\r" if self._console.is_terminal else "\n"
        text = self.line().ljust(self._console.width - 1)[: self._console.width - 1]
        self._console.print(text if end == "\r" else self.line(), end=end, soft_wrap=True)

    def line(self) -> str:
        parts = []
        for name, side in zip(SIDES, self._both, strict=True):
            total = "?" if side.planned is None else str(side.planned)
            doing = f" ({side.now})" if side.running and not side.ended else ""
            parts.append(f"{name} {len(side.cases)} of {total} cases{doing}")
        return "; ".join(parts)
