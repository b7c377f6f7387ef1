"""``harness history``: the verdict of every commit that has something, as a table."""

from __future__ import annotations

import argparse
from typing import Any

from rich.text import Text

from harness import exits
from harness.bisect import cache, evaluating, history, packages, repository, subject
from harness.case import cases
from harness.command import bisect_common
from harness.command.arguments import named_path
from harness.command.cli_check import trees_of
from harness.command.console import console_for_people
from harness.record import document, store

MEANING = {
    exits.AGREE: "every commit has a verdict, and every verdict agrees",
    exits.DIFFER: "a commit differs",
    exits.USAGE: "bad usage or input",
    exits.ERROR: "something could not run",
    exits.UNPROVEN: "no commit differs; one is mistrusted, unsupported, or has no verdict",
    exits.INTERRUPTED: "interrupted; what was evaluated is kept",
}
EPILOG = """\
examples:
  harness history aiter/ops/flydsl/kernels/mqa_logits --repo ../aiter --suite decode --suite prefill
  harness history aiter/ops/flydsl/kernels/mqa_logits --repo ../aiter --suite decode --package flydsl

Commits by first parents. Those in which the files at PATH are the same have one verdict and are one row: give
every file that the verdict depends on. With --package each commit is run under the version of it that its
requirements.txt asks for, which is installed into a folder under --dir.

exit codes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders in the repository")
    parser.add_argument("--repo", type=named_path, required=True, metavar="DIR", help="the git repository")
    parser.add_argument(
        "--from", dest="first", metavar="REV", help="oldest commit (default: the first that touches PATH)"
    )
    parser.add_argument("--to", default="HEAD", metavar="REV", help="newest commit (default: HEAD)")
    parser.add_argument("--case", nargs="+", action="extend", default=[], metavar="ID", help="case ids")
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        choices=cases.SUITES,
        help="the smoke cases of this suite (repeatable)",
    )
    parser.add_argument(
        "--package", metavar="NAME", help="follow the version that each commit asks for (flydsl)"
    )
    bisect_common.add_arguments(parser)
    parser.epilog = EPILOG + "\n".join(f"  {code:<4}{text}" for code, text in MEANING.items())


def main(args: argparse.Namespace) -> int:
    """Ask, print, write. Raises `InputError`, `CannotRun` or `CaseError`."""
    if not args.case and not args.suite:
        raise exits.InputError("--suite or --case is missing, allowed is one or more")
    asked = [*(f"{evaluating.SUITE}{suite}" for suite in args.suite), *args.case]
    bisect_common.check(args)
    repo = repository.Repository.of(args.repo)
    last = repo.commit("--to", args.to)
    commits = _commits(repo, args, last)
    what = subject.Subject.of(args.tree or subject.kind_of(repo, last), args.path, trees_of(args))
    if what.kind != subject.SELF:
        asked = [one if one.startswith(evaluating.SUITE) else cases.parse(one).id for one in asked]
    store.check_directory("--dir", args.dir)
    with bisect_common.terminable(), repository.alone(args.dir):
        return _asked(args, repo, what, asked, commits)


def _commits(repo: repository.Repository, args: argparse.Namespace, last: str) -> list[str]:
    """From --from on, or from the first commit on that touches PATH."""
    if args.first is None:
        touching = repo.chain("", last, args.paths)
        return repo.since(touching[0], last) if touching else []
    commits = repo.since(repo.commit("--from", args.first), last)
    if not commits:
        raise exits.InputError(f"--from {args.first} is no first-parent ancestor of --to, allowed is one")
    return commits


def _asked(
    args: argparse.Namespace,
    repo: repository.Repository,
    what: subject.Subject,
    asked: list[str],
    commits: list[str],
) -> int:
    console = console_for_people()
    package = packages.Package(args.package, args.dir.resolve() / "packages") if args.package else None
    found = list(history.stretches(repo, commits, args.paths, package))
    if not found:
        raise exits.InputError(f"PATH is {' '.join(args.paths)}, which no commit of --repo has")
    count = sum(one.count for one in found)
    console.print(f"{count} commits, {len({one.state for one in found})} states to ask", soft_wrap=True)

    def tell(row: history.Row) -> None:
        one = row.stretch
        head = f"{one.first.hash[:12]}  {one.first.date[:10]}  {one.count} commits  {one.version or ''}"
        said = [f"\n      {answer.asked}: {history.word(answer)}" for answer in row.answers]
        console.print(Text(head.rstrip() + "".join(said)), soft_wrap=True)

    kept = cache.Cache(args.dir / bisect_common.FILE, cache.digest(cache.surroundings(what)))
    with repository.worktree(repo, args.dir, found[0].first.hash) as tree:
        evaluator = evaluating.Evaluator(what, tree, args.limit)
        rows = history.History(evaluator, kept, asked, package, tell).run(found)
    about: dict[str, Any] = {
        "command": "history",
        "repo": str(repo.folder),
        "paths": args.paths,
        "asked": asked,
        "path": what.path,
        "package": args.package,
        "environment": cache.surroundings(what),
    }
    text = history.markdown(rows, asked, about)
    console.print(Text("\n" + text), soft_wrap=True)
    if args.markdown:
        document.write_text(args.markdown, text)
    if args.json:
        document.write_json(args.json, about, history.to_records(rows), complete=True)
    code = exit_code(rows)
    console.print(f"exit {code}: {MEANING[code]}")
    return code


def exit_code(rows: list[history.Row]) -> int:
    """By the worst verdict; a commit without one is unproven."""
    answers = [answer for row in rows for answer in row.answers]
    statuses = {str(record["status"]) for answer in answers for record in answer.records}
    if "differ" in statuses:
        return exits.DIFFER
    if statuses == {"agree"} and all(answer.records and not answer.failure for answer in answers):
        return exits.AGREE
    return exits.UNPROVEN
