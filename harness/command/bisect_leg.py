"""``harness bisect --leg``: the first commit at which an accuracy leg is worse."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.text import Text

from harness import exits
from harness.bisect import repository
from harness.command.console import console_for_people
from harness.record import document

if TYPE_CHECKING:
    from harness.bisect.noisy import Noisy

TREE = "leg"
"""The worktree has one name, since a server's command with another one would be another leg."""


def main(args: argparse.Namespace, repo: repository.Repository, ends: tuple[str, str]) -> int:
    """Search, print the answer. Raises `InputError`, `CannotRun`."""
    from harness.bisect import leg as legs
    from harness.bisect.noisy import Noisy
    from harness.command.legs_show import Bars
    from harness.legs import campaign as campaigns

    campaign = campaigns.load(args.leg)
    leg = legs.leg_of(campaign)
    margin = (campaign.margin if args.margin is None else args.margin) / 100
    spread = margin / 2 if args.spread is None else args.spread / 100
    names = [ends[0], *repo.chain(*ends, args.only)]
    if names[-1] != ends[1]:
        names.append(ends[1])
    commits = [repo.describe(name, files=True) for name in names]
    console = console_for_people()

    def tell(taken: Any, search: Any) -> None:
        console.print(Text(telling.step(taken, search, commits[taken.commit])), soft_wrap=True)

    from harness.bisect import telling

    with (
        repository.alone(args.dir),
        repository.worktree(repo, args.dir, ends[1], TREE) as tree,
        Bars(console) as bars,
    ):
        asked = legs.Leg(campaign, leg, tree, args.dir.resolve() / "legs", args.filter, bars)

        def measure(commit: str, number: int) -> legs.Measured:
            repository.check_out(tree, commit)
            try:
                return asked.measure(commit, number)
            finally:
                repository.restore(tree)

        found = Noisy(names, measure, margin, spread, args.confidence, args.samples, tell)
        found.run((args.good, args.bad))
    numbers, sure = found.candidates()
    candidates = [commits[number] for number in numbers]
    console.print(Text("\n" + telling.conclusion(found, candidates, sure)), soft_wrap=True)
    code = exit_code(found)
    about = {
        "command": "bisect",
        "repo": str(repo.folder),
        "good": ends[0],
        "bad": ends[1],
        "leg": leg,
        "campaign": campaign.name,
        "filter": args.filter,
        "margin": 100 * margin,
        "spread": 100 * spread,
        "confidence": args.confidence,
        "probability": sure,
        "scatter": found.scatter,
        "candidates": [one.hash for one in candidates],
        "exit_code": code,
    }
    if args.json:
        document.write_json(args.json, about, telling.records(found), complete=True)
    if args.markdown:
        document.write_text(args.markdown, telling.markdown(found, commits, candidates, sure, about))
    return code


def exit_code(found: Noisy) -> int:
    """0 where one commit is the first bad one with enough probability, and nothing drifts; else 4."""
    from harness.bisect.noisy import CHANCE

    single = len(found.candidates()[0]) == 1 and found.search.settled
    return exits.AGREE if single and found.scatter >= CHANCE else exits.UNPROVEN


def check(args: argparse.Namespace) -> None:
    """Raises `InputError` for what no leg can be bisected with."""
    if not 0.5 < args.confidence < 1:
        raise exits.InputError(f"--confidence is {args.confidence:g}, allowed is above 0.5 and below 1")
    if args.margin is not None and not 0 < args.margin < 100:
        raise exits.InputError(f"--margin is {args.margin:g}, allowed are points above 0 and below 100")
    if args.spread is not None and not 0 <= args.spread < 100:
        raise exits.InputError(f"--spread is {args.spread:g}, allowed are points from 0 on and below 100")
    if args.samples < 1:
        raise exits.InputError(f"--samples is {args.samples}, allowed is 1 or more")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that mean something with --leg alone."""
    parser.add_argument(
        "--confidence", type=float, default=0.95, metavar="P", help="of --leg: stop at it (default: 0.95)"
    )
    parser.add_argument(
        "--margin", type=float, metavar="POINTS", help="of --leg: loss at least (default: the campaign's)"
    )
    parser.add_argument(
        "--spread",
        type=float,
        metavar="POINTS",
        help="of --leg: standard deviation between harmless commits (default: half the margin)",
    )
    parser.add_argument(
        "--samples", type=int, default=100, metavar="N", help="of --leg: at most so many (default: 100)"
    )
    parser.add_argument(
        "--filter", choices=("strict", "flexible"), default="strict", help="of --leg: what counts as right"
    )
