"""``harness bisect``: the first commit at which a case that was right is red.

How it would fail silently: an end that is not what it is said to be makes the search end at a commit all
the same; so both ends are evaluated before it begins.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import exits
from harness.bisect import cache, evaluating, outcome, repository, subject
from harness.bisect.search import Search
from harness.case import cases
from harness.command.arguments import named_path
from harness.command.cli_check import trees_of
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document, store

ROOT = Path("results/bisect")
LIMIT = 900
FILE = "verdicts.jsonl"
MEANING = {
    exits.AGREE: "the first bad commit is named",
    exits.USAGE: "bad usage or input; --good is not good, --bad is not bad",
    exits.ERROR: "an end cannot be told, or something could not run",
    exits.UNPROVEN: "skipped commits leave several candidates",
    exits.INTERRUPTED: "interrupted; what was evaluated is kept",
}
EPILOG = """\
examples:
  harness bisect --repo ../aiter --good v1 --bad main --case decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1
  harness bisect --repo ../aiter --good v1 --bad main --suite decode --only aiter/ops/flydsl
  harness bisect --repo ../ATOM --aiter ../aiter --good v1 --bad main --suite gate --markdown bisect.md
  harness bisect --repo . --good HEAD~40 --bad HEAD --path oracle --case quantise-r8-d128-fnatural-s1

git bisect chooses the commits, in a worktree under --dir; the checkout in --repo is left as it is.
Every commit is evaluated by a process of its own, whose answer is kept in --dir: a search that was cut off
goes on.
  good  the cases that are red at --bad are as right as at --good
  bad   one of them differs, or has a new finding, or raises an error as it does at --bad
  skip  it cannot be told: unsupported, does not import, another error, too slow; the reason is shown
A suite is run whole at both ends; in between, the quickest case that is red at --bad speaks for it.

git bisect can ask by itself, too (good 0, bad 1, cannot be told 125):
  git bisect run harness check ID --path aiter --aiter . --git-exit

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", type=named_path, required=True, metavar="DIR", help="the git repository")
    parser.add_argument("--good", required=True, metavar="REV", help="a commit where the cases are right")
    parser.add_argument("--bad", required=True, metavar="REV", help="a later one where one of them is red")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--case", nargs="+", action="extend", metavar="ID", help="case ids")
    asked.add_argument("--suite", choices=cases.SUITES, metavar="S", help="the smoke cases of this suite")
    parser.add_argument(
        "--tree", choices=tuple(subject.MARKS), help="what --repo holds (default: told by its files)"
    )
    parser.add_argument("--path", metavar="P", help="path under test (default: the one of the tree)")
    for option, source in registry.SOURCES.items():
        about = f"{source.what} that stays as it is"
        parser.add_argument(f"--{option}", type=named_path, metavar="DIR", help=about)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATHSPEC", help="only commits that touch these"
    )
    parser.add_argument(
        "--first-parent", action="store_true", help="of a merge, follow the first parent only"
    )
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
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{text}" for code, text in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Search, print the answer. Raises `InputError`, `CannotRun` or `CaseError`."""
    asked = [f"{evaluating.SUITE}{args.suite}"] if args.suite else list(dict.fromkeys(args.case))
    if args.limit < 1:
        raise exits.InputError(f"--limit is {args.limit}, allowed is a positive number of seconds")
    files = {"--json": args.json, "--markdown": args.markdown}
    for option, file in files.items():
        document.check_output(option, file)
    document.check_apart(files)
    repo = repository.Repository.of(args.repo)
    good, bad = repo.commit("--good", args.good), repo.commit("--bad", args.bad)
    if good == bad or not repo.is_ancestor(good, bad):
        raise exits.InputError(f"--good {args.good} is no ancestor of --bad {args.bad}, allowed is one")
    what = subject.Subject.of(args.tree or subject.kind_of(repo, bad), args.path, trees_of(args))
    if what.kind != subject.SELF:  # the cases of an older harness are its own
        asked = [one if args.suite else cases.parse(one).id for one in asked]
    store.check_directory("--dir", args.dir)
    before = signal.signal(signal.SIGTERM, _interrupt)  # so that the worktree goes, too
    try:
        with repository.alone(args.dir):
            return _searched(args, repo, what, asked, (good, bad))
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _searched(
    args: argparse.Namespace,
    repo: repository.Repository,
    what: subject.Subject,
    asked: list[str],
    ends: tuple[str, str],
) -> int:
    console = console_for_people()

    def tell(step: outcome.Step) -> None:
        took = "kept" if step.kept else f"{step.seconds:.0f} s"
        rest = f", {step.left} candidates, about {_steps(step.left)} more to ask" if step.left else ""
        why = f"\n      {step.said.why}" if step.said.why else ""
        line = f"{step.said.word:<5} {outcome.short(step.commit)} ({took}{rest}){why}"
        console.print(Text(line), soft_wrap=True)

    around = cache.surroundings(what)
    kept = cache.Cache(args.dir / FILE, cache.digest(around))
    with repository.worktree(repo, args.dir, ends[1]) as tree:
        evaluator = evaluating.Evaluator(what, tree, args.limit)
        bisection = outcome.Bisection(repo, evaluator, kept, asked, tell)
        search = Search(tree, *ends, tuple(args.only), args.first_parent)
        found = bisection.run((args.good, ends[0]), (args.bad, ends[1]), search)
    again = what.again(repo, found.candidates[-1].hash, str(found.red["case"]))
    fresh = sum(not step.kept for step in found.steps)
    console.print(Text(f"\n{outcome.conclusion(found, again)}"), soft_wrap=True)
    code = exits.AGREE if found.found else exits.UNPROVEN
    about: dict[str, Any] = {
        "command": "bisect",
        "repo": str(repo.folder),
        "good": ends[0],
        "bad": ends[1],
        "asked": asked,
        "path": what.path,
        "environment": around,
        "candidates": [one.hash for one in found.candidates],
        "exit_code": code,
    }
    if args.json:
        document.write_json(args.json, about, found.to_records(), complete=True)
    if args.markdown:
        document.write_text(args.markdown, outcome.markdown(found, again, about))
    console.print(
        f"\n{len(found.steps)} commits asked, {len(found.steps) - fresh} of them answered from {args.dir}"
    )
    console.print(f"exit {code}: {MEANING[code]}")
    return code


def _steps(left: int) -> int:
    """Questions left, about, while one of ``left`` candidates is being asked."""
    return max(0, (left - 1).bit_length() - 1)
