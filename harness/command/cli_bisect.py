"""``harness bisect``: the first commit at which a case that was right is red, or a good leg is worse.

How it would fail silently: an end that is not what it is said to be makes the search end at a commit all
the same; so both ends are evaluated before it begins.
"""

from __future__ import annotations

import argparse

from harness import exits
from harness.bisect import repository
from harness.case import cases
from harness.command import bisect_commits, bisect_common, bisect_leg, bisect_pairs
from harness.command.arguments import named_path
from harness.record import store

EXPLAIN = 600.0
MEANING = {
    exits.AGREE: "the first bad commit (version, pair) is named",
    exits.USAGE: "bad usage or input; --good is not good, --bad is not bad",
    exits.ERROR: "an end cannot be told, or something could not run",
    exits.UNPROVEN: "several candidates are left, or samples of one commit differ by more than chance",
    exits.INTERRUPTED: "interrupted; what was evaluated is kept",
}
EPILOG = """\
examples:
  harness bisect --repo ../aiter --good v1 --bad main --case decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1
  harness bisect --repo ../aiter --good v1 --bad main --suite decode --only aiter/ops/flydsl
  harness bisect --repo ../ATOM --aiter ../aiter --good v1 --bad main --suite gate --markdown bisect.md
  harness bisect --repo . --good HEAD~40 --bad HEAD --path oracle --case quantise-r8-d128-fnatural-s1
  harness bisect --package flydsl --good 0.4.0 --bad 0.5.0 --aiter ../aiter --suite decode
  harness bisect --repo ../aiter --good v1 --bad v2 --with-repo ../ATOM --with-good v1 --with-bad v2 --case ID
  harness bisect --repo ../ATOM --good v1 --bad main --leg campaign.toml

git bisect chooses the commits, in a worktree under --dir; the checkout in --repo is left as it is.
Every commit is evaluated by a process of its own, whose answer is kept in --dir: a search that was cut off
goes on.
  good  the cases that are red at --bad are as right as at --good
  bad   one of them differs, or has a new finding, or raises an error as it does at --bad
  skip  it cannot be told: unsupported, does not import, another error, too slow; the reason is shown
A suite is run whole at both ends; in between, the quickest case that is red at --bad speaks for it. Once the
commit is known, the red case is diagnosed and reduced there.

--package goes over the versions that the package index has, each installed into a folder under --dir.
--with-repo varies a second repository too: does one suffice, or which pair of first commits does it take?
--leg takes samples of the one leg in the campaign that names {tree}, which stands for the commit's tree, and
goes over first parents. No single sample decides: every commit has a probability to be the first bad one, the
next sample is taken where it tells most, and the search stops at --confidence. A leg that crashes or is not
certified is a skip.

git bisect can ask by itself, too (good 0, bad 1, cannot be told 125):
  git bisect run harness check ID --path aiter --aiter . --git-exit

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--repo", type=named_path, metavar="DIR", help="the git repository")
    subject.add_argument("--package", metavar="NAME", help="versions of this package instead (flydsl)")
    parser.add_argument("--good", required=True, metavar="REV", help="a commit where the cases are right")
    parser.add_argument("--bad", required=True, metavar="REV", help="a later one where one of them is red")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--case", nargs="+", action="extend", metavar="ID", help="case ids")
    asked.add_argument("--suite", choices=cases.SUITES, metavar="S", help="the smoke cases of this suite")
    asked.add_argument("--leg", type=named_path, metavar="CAMPAIGN", help="an accuracy leg of this campaign")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATHSPEC", help="only commits that touch these"
    )
    parser.add_argument(
        "--first-parent", action="store_true", help="of a merge, follow the first parent only"
    )
    bisect_pairs.add_arguments(parser)
    bisect_leg.add_arguments(parser)
    parser.add_argument(
        "--explain",
        type=float,
        default=EXPLAIN,
        metavar="S",
        help=f"seconds for each of diagnosis and reduction, 0 for neither (default: {EXPLAIN:g})",
    )
    bisect_common.add_arguments(parser)
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{text}" for code, text in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Search, print the answer. Raises `InputError`, `CannotRun` or `CaseError`."""
    check(args)
    repo = None if args.repo is None else repository.Repository.of(args.repo)
    ends = ("", "")
    if repo is not None:
        ends = bisect_common.ends(repo, ("--good", args.good), ("--bad", args.bad))
    store.check_directory("--dir", args.dir)
    with bisect_common.terminable():
        if repo is None:
            code = bisect_commits.versions(args)
        elif args.with_repo is not None:
            code = bisect_pairs.main(args, repo, ends)
        elif args.leg is not None:
            code = bisect_leg.main(args, repo, ends)
        else:
            code = bisect_commits.commits(args, repo, ends)
    print(f"exit {code}: {MEANING[code]}")
    return code


def check(args: argparse.Namespace) -> None:
    """Raises `InputError` for a value that cannot be, or an option that means nothing to what is asked."""
    bisect_common.check(args)
    bisect_pairs.check(args)
    bisect_leg.check(args)
    if not 0 <= args.explain < float("inf"):
        raise exits.InputError(f"--explain is {args.explain:g}, allowed are seconds, 0 or more")
    nothing = {
        "--package": args.package and ["only", "first_parent", "with_repo", "leg", "tree"],
        "--leg": args.leg and ["with_repo", "path", "tree", "aiter", "atom"],
    }
    for option, names in nothing.items():
        given = [name for name in names or () if getattr(args, name) not in (None, [], False)]
        if given:
            raise exits.InputError(f"--{given[0].replace('_', '-')} means nothing beside {option}")
