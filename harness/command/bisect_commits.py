"""``harness bisect`` by cases: over commits, over versions of a package, over pairs of commits."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from harness import exits
from harness.bisect import (
    asking,
    cache,
    ending,
    evaluating,
    linear,
    outcome,
    packages,
    repository,
    subject,
)
from harness.bisect.search import Search
from harness.case import cases
from harness.command import bisect_common
from harness.command.cli_check import trees_of
from harness.command.console import console_for_people
from harness.record import document


def asked_of(args: argparse.Namespace, kind: str) -> list[str]:
    """What is asked of each commit; ids are checked unless the commits' own harness has to know them."""
    if args.suite:
        return [f"{evaluating.SUITE}{args.suite}"]
    ids = list(dict.fromkeys(args.case))
    return ids if kind == subject.SELF else [cases.parse(one).id for one in ids]


def commits(args: argparse.Namespace, repo: repository.Repository, ends: tuple[str, str]) -> int:
    """Over the commits of one repository. Raises `InputError`, `CannotRun` or `CaseError`."""
    what = subject.Subject.of(args.tree or subject.kind_of(repo, ends[1]), args.path, trees_of(args))
    asked = asked_of(args, what.kind)
    around = cache.surroundings(what)
    kept = cache.Cache(args.dir / bisect_common.FILE, cache.digest(around))
    with repository.alone(args.dir), repository.worktree(repo, args.dir, ends[1]) as tree:
        source = asking.Commits(repo, evaluating.Evaluator(what, tree, args.limit), kept)
        search = Search(tree, *ends, tuple(args.only), args.first_parent)
        shown = Shown(args, console_for_people(), {"repo": str(repo.folder), "environment": around})
        return shown.run(source, asked, ends, search.run, lambda name, case: what.again(repo, name, case))


def versions(args: argparse.Namespace) -> int:
    """Over the versions of a package. Raises `InputError`, `CannotRun` or `CaseError`."""
    package = packages.Package(args.package, args.dir.resolve() / "packages")
    row = package.between(args.good, args.bad)
    what = subject.Subject.of(subject.PACKAGE, args.path, trees_of(args))
    asked = asked_of(args, what.kind)
    around = cache.surroundings(what)
    kept = cache.Cache(args.dir / bisect_common.FILE, cache.digest(around))

    def again(name: str, case: str) -> str:
        folder = package.folder(name.removeprefix(f"{args.package}=="))
        install = f"pip install --no-deps --target {folder} {name}"
        options = " ".join(what.options(subject.HOME))
        return f"{install}\nPYTHONPATH={folder} python -m harness check {case} {options}"

    with repository.alone(args.dir):
        evaluator = evaluating.Evaluator(what, args.dir.resolve(), args.limit)
        source = asking.Versions(package, evaluator, kept)
        shown = Shown(args, console_for_people(), {"package": args.package, "environment": around})
        return shown.run(source, asked, (row[0], row[-1]), lambda ask: linear.search(row, ask), again)


@dataclass(frozen=True)
class Shown:
    """A bisection that is told as it goes on, and written at its end; ``about``: what the files say of it."""

    args: argparse.Namespace
    console: Console
    about: dict[str, Any]

    def run(
        self,
        source: asking.Commits | asking.Versions,
        asked: list[str],
        ends: tuple[str, str],
        search: outcome.Searcher,
        again: Callable[[str, str], str],
    ) -> int:
        """``again(name, case)``: the lines that run the red case once more. The exit code."""
        args = self.args
        bisection = outcome.Bisection(source, asked, self.tell)
        found = bisection.run((args.good, ends[0]), (args.bad, ends[1]), search)
        last, case = found.candidates[-1], str(found.red["case"])
        rerun = again(last.hash, case)
        if found.found:
            name = last.hash.split("==")[-1]
            found.explained = ending.explain(source.ready(name), case, args.dir / "reduced", args.explain)
        self.console.print(Text(f"\n{outcome.conclusion(found, rerun)}"), soft_wrap=True)
        code = exits.AGREE if found.found else exits.UNPROVEN
        about = {
            "command": "bisect",
            **self.about,
            "good": ends[0],
            "bad": ends[1],
            "asked": asked,
            "path": source.evaluator.subject.path,
            "candidates": [one.hash for one in found.candidates],
            "explained": {one.command: one.text for one in found.explained},
            "exit_code": code,
        }
        if args.json:
            document.write_json(args.json, about, found.to_records(), complete=True)
        if args.markdown:
            document.write_text(args.markdown, outcome.markdown(found, rerun, about))
        kept = sum(step.kept for step in found.steps)
        what = "versions" if args.package else "commits"
        self.console.print(f"\n{len(found.steps)} {what} asked, {kept} of them answered from {args.dir}")
        return code

    def tell(self, step: outcome.Step) -> None:
        """One line as a step ends."""
        self.console.print(Text(told(step)), soft_wrap=True)


def told(step: outcome.Step) -> str:
    """The word on a commit, what it took, what is left, and why it is not good."""
    took = "kept" if step.kept else f"{step.seconds:.0f} s"
    rest = f", {step.left} candidates, about {_steps(step.left)} more to ask" if step.left else ""
    why = f"\n      {step.said.why}" if step.said.why else ""
    return f"{step.said.word:<5} {outcome.short(step.commit)} ({took}{rest}){why}"


def _steps(left: int) -> int:
    """Questions left, about, while one of ``left`` candidates is being asked."""
    return max(0, (left - 1).bit_length() - 1)
