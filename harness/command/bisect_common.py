"""What ``harness bisect`` and ``harness history`` share: where answers are kept, limits, files, signals."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import exits
from harness.bisect import subject
from harness.bisect.repository import Repository
from harness.command.arguments import named_path
from harness.paths import registry
from harness.record import document

ROOT = Path("results/bisect")
LIMIT = 900
FILE = "verdicts.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options about the tree, the path and the files written."""
    parser.add_argument(
        "--tree", choices=tuple(subject.MARKS), help="what --repo holds (default: told by its files)"
    )
    parser.add_argument("--path", metavar="P", help="path under test (default: the one of the tree)")
    for option, source in registry.SOURCES.items():
        about = f"{source.what} that stays as it is"
        parser.add_argument(f"--{option}", type=named_path, metavar="DIR", help=about)
    parser.add_argument(
        "--limit", type=int, default=LIMIT, metavar="S", help="seconds an evaluation may take (default: 900)"
    )
    parser.add_argument(
        "--dir",
        type=named_path,
        default=ROOT,
        metavar="DIR",
        help=f"where answers are kept (default: {ROOT})",
    )
    parser.add_argument("--json", type=named_path, metavar="F", help="write the steps and the answer to F")
    parser.add_argument("--markdown", type=named_path, metavar="F", help="write a summary to F")


def check(args: argparse.Namespace) -> None:
    """Raises `InputError` for a limit or a file that cannot be."""
    if args.limit < 1:
        raise exits.InputError(f"--limit is {args.limit}, allowed is a positive number of seconds")
    files = {"--json": args.json, "--markdown": args.markdown}
    for option, file in files.items():
        document.check_output(option, file)
    document.check_apart(files)


def ends(repo: Repository, good: tuple[str, str], bad: tuple[str, str]) -> tuple[str, str]:
    """Full hashes of (option, revision) pairs. Raises `InputError` unless good is an ancestor of bad."""
    older, newer = repo.commit(*good), repo.commit(*bad)
    if older == newer or not repo.is_ancestor(older, newer):
        raise exits.InputError(f"{good[0]} {good[1]} is no ancestor of {bad[0]} {bad[1]}, allowed is one")
    return older, newer


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that the worktree goes, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
