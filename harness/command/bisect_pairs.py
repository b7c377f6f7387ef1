"""``harness bisect --with-repo``: the pair of first commits of two repositories at which a case is red."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace

from rich.text import Text

from harness import exits
from harness.bisect import cache, ending, evaluating, outcome, pairs, repository, subject
from harness.bisect.search import Search
from harness.command import bisect_common
from harness.command.arguments import named_path
from harness.command.bisect_commits import asked_of, told
from harness.command.cli_check import trees_of
from harness.command.console import console_for_people
from harness.paths import registry
from harness.record import document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--with-repo", type=named_path, metavar="DIR", help="a second repository, varied too")
    parser.add_argument("--with-good", metavar="REV", help="its good end")
    parser.add_argument("--with-bad", metavar="REV", help="its bad end")


def check(args: argparse.Namespace) -> None:
    """Raises `InputError` where one of the three is given without the others."""
    given = {name: getattr(args, f"with_{name}") for name in ("repo", "good", "bad")}
    lacking = [name for name, value in given.items() if value is None]
    if lacking and len(lacking) < len(given):
        raise exits.InputError(f"--with-{lacking[0]} is missing, allowed are all three of --with-...")


def main(args: argparse.Namespace, repo: repository.Repository, ends: tuple[str, str]) -> int:
    """Search, print the answer. Raises `InputError`, `CannotRun` or `CaseError`."""
    other = repository.Repository.of(args.with_repo)
    others = bisect_common.ends(other, ("--with-good", args.with_good), ("--with-bad", args.with_bad))
    kind, second = args.tree or subject.kind_of(repo, ends[1]), subject.kind_of(other, others[1])
    if second not in registry.SOURCES or second == kind:
        raise exits.InputError(
            f"--with-repo holds {second} and --repo {kind}, allowed are two, the second "
            f"{' or '.join(registry.SOURCES)}"
        )
    if getattr(args, second) is not None:
        raise exits.InputError(f"--{second} means nothing here: the commits of --with-repo are the {second}")
    console = console_for_people()

    def tell(pair: pairs.Pair, step: outcome.Step) -> None:
        line = f"{pair[0][:12]} {pair[1][:12]}  {told(step)}"
        console.print(Text(line), soft_wrap=True)

    with (
        repository.alone(args.dir),
        repository.worktree(repo, args.dir, ends[1]) as tree,
        repository.worktree(other, args.dir, others[1]) as beside,
    ):
        given = replace(trees_of(args), **{second: beside})
        path = args.path or _common(kind, second)
        what = subject.Subject.of(kind, path, given)
        asked = asked_of(args, kind)
        first = pairs.Axis(repo, Search(tree, *ends, tuple(args.only), args.first_parent))
        beyond = pairs.Axis(other, Search(beside, *others, (), args.first_parent))
        kept = cache.Cache(args.dir / bisect_common.FILE, "")
        grid = pairs.Grid((first, beyond), evaluating.Evaluator(what, tree, args.limit), kept)
        search = pairs.Pairs(grid, asked, tell)
        found = search.run(f"{args.good} beside {args.with_good}", f"{args.bad} beside {args.with_bad}")
        explained = []
        if found.single:
            case = search.watched[0].case
            explained = ending.explain(grid.ready(search.pair()), case, args.dir / "reduced", args.explain)
    text = "\n\n".join(filter(None, (pairs.conclusion(found, (kind, second)), ending.text(explained))))
    console.print(Text("\n" + text), soft_wrap=True)
    code = exits.AGREE if found.single else exits.UNPROVEN
    about = {
        "command": "bisect",
        "repos": [str(repo.folder), str(other.folder)],
        "good": [ends[0], others[0]],
        "bad": [ends[1], others[1]],
        "asked": asked,
        "path": path,
        "alone": list(found.alone),
        "several": found.several,
        "candidates": [[one.hash for one in line.candidates] if line else [] for line in found.along],
        "exit_code": code,
    }
    if args.json:
        records = [{"pair": list(pair), **asdict(step)} for pair, step in found.steps]
        document.write_json(args.json, about, records, complete=True)
    if args.markdown:
        document.write_text(args.markdown, pairs.markdown(found, (kind, second)) + ending.markdown(explained))
    console.print(f"\n{len(found.steps)} pairs asked")
    return code


def _common(kind: str, second: str) -> str:
    """The path that takes both trees."""
    for name, entry in registry.PATHS.items():
        if {kind, second} - {subject.SELF} <= set(entry.takes):
            return name
    raise exits.InputError(f"--path is missing: no path takes {kind} and {second}")
