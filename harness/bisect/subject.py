"""Which tree a repository holds, and the command that evaluates a commit of it.

aiter and ATOM are given to this harness as ``--aiter`` and ``--atom``; of this project itself, the commit's
own harness is run. How this would fail silently: a process that imports another tree than the one checked
out; so the commit's harness is run from its folder, and only if every package of it is there, since Python
would take an installed one in its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bisect.repository import Repository, environment
from harness.exits import InputError
from harness.paths import registry

SELF = "self"
PACKAGE = "package"
"""Kind of what is no tree: versions of a package, which is imported instead of the installed one."""
MARKS: Mapping[str, str] = {name: source.folder for name, source in registry.SOURCES.items()} | {
    SELF: "harness/__main__.py"
}
"""Kind of tree to the path that every such tree has."""
PACKAGES = ("harness", "oracles", "suites")
"""Packages of this project."""
HOME = Path(__file__).resolve().parents[2]


def kind_of(repository: Repository, commit: str) -> str:
    """``aiter``, ``atom`` or ``self``, from the files of ``commit``. Raises `InputError`."""
    kind = next((kind for kind, mark in MARKS.items() if repository.has(commit, mark)), None)
    if kind is None:
        raise InputError(
            f"--repo {repository.folder} is no tree that is known: "
            f"--bad has none of {', '.join(MARKS.values())}; give --tree {'|'.join(MARKS)}"
        )
    return kind


@dataclass(frozen=True)
class Subject:
    """``kind``: see `MARKS`, or `PACKAGE`. ``path``: the path asked. ``others``: trees besides its own."""

    kind: str
    path: str
    others: registry.Trees

    @classmethod
    def of(cls, kind: str, path: str | None, others: registry.Trees) -> Subject:
        """Checked. ``path`` None: the kind's own. Raises `InputError` naming the option that is wrong."""
        name = path or (kind if kind in registry.SOURCES else _own(kind, others))
        taken = registry.entry(name).takes
        if kind in registry.SOURCES and kind not in taken:
            raise InputError(f"--path {name} takes no tree of {kind}, allowed are {', '.join(_takers(kind))}")
        for option, tree in others.given().items():
            if option == kind:
                raise InputError(
                    f"--{option} {tree} means nothing here: the commits of --repo are the {option}"
                )
            if option not in taken:
                raise InputError(f"--{option} {tree} means nothing to path {name}")
            registry.check_tree(option, tree)
        own = registry.entry(name).source
        if own not in (None, kind) and own not in others.given():
            raise InputError(f"--{own} is missing; give the directory of {registry.SOURCES[str(own)].what}")
        return cls(kind, name, others.only(taken))

    def options(self, tree: Path) -> list[str]:
        """``--path`` and the trees, with ``tree`` in its place."""
        own = [f"--{self.kind}", str(tree)] if self.kind in registry.SOURCES else []
        return ["--path", self.path, *own, *self.others.options()]

    def command(self, tree: Path, asked: Sequence[str]) -> list[str]:
        """The command line of the process that answers ``asked``."""
        return [sys.executable, "-m", "harness", *asked, *self.options(tree)]

    def lacks(self, tree: Path) -> str:
        """Why ``tree`` cannot be asked, if a package is missing of which another one would be imported."""
        wanted = PACKAGES if self.kind == SELF else ()
        absent = [name for name in wanted if not (tree / name / "__init__.py").is_file()]
        return f"this commit has no package {absent[0]}" if absent else ""

    def surroundings(self, tree: Path, folder: Path) -> tuple[Path, dict[str, str]]:
        """(working directory, environment) of that process; ``folder``: an empty one.

        Without byte code: commits checked out within one second may have files of one size.
        """
        home = tree if self.kind == SELF else HOME
        more = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(home), *([more] if more else [])])
        return (
            tree if self.kind == SELF else folder,
            {**environment(), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def again(self, repository: Repository, commit: str, asked: str) -> str:
        """The lines that run ``asked`` on ``commit`` once more."""
        made = f"git -C {repository.folder} worktree add --detach ../first-bad {commit[:12]}"
        tree = repository.folder.parent / "first-bad"
        check = " ".join(["python -m harness check", asked, *self.options(tree)])
        return f"{made}\n{f'cd {tree} && ' if self.kind == SELF else ''}{check}"


def _own(kind: str, others: registry.Trees) -> str:
    """The default path; that of the tree that is given, the last of several, with versions of a package."""
    given = list(others.given())
    return given[-1] if given and kind == PACKAGE else registry.DEFAULT


def _takers(kind: str) -> list[str]:
    return [name for name, entry in registry.PATHS.items() if kind in entry.takes]
