"""Git, as a bisection needs it: questions to the user's repository, and a worktree that is ours alone.

Nothing here writes to the user's checkout, its index or its branches: questions take no optional locks,
hooks are off, and what is checked out lies in a linked worktree. How this would fail silently: a command
meant for the worktree that git resolves to a repository around it, which would then be cleaned; so git
never looks above the worktree's own folder, and no ``GIT_*`` variable is passed on.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.exits import CannotRun, InputError

PREFIX = "tree-"


def environment() -> dict[str, str]:
    """The environment for git and what asks git: plain messages, no locks, no other repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_LFS_SKIP_SMUDGE": "1"}


def git(folder: Path, *arguments: str, allowed: Sequence[int] = (0,), inside: bool = False) -> str:
    """Output of a git command in ``folder``, stripped; ``inside``: refuse a repository further up.

    Raises `CannotRun` with git's own words when it ends with a code that is not ``allowed``.
    """
    ceiling = {"GIT_CEILING_DIRECTORIES": str(folder.parent)} if inside else {}
    line = ["git", "-c", f"core.hooksPath={os.devnull}", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, errors="replace", env={**environment(), **ceiling}
        )
    except OSError as error:
        raise CannotRun(f"git cannot be run here: {str(error.strerror).lower()}") from None
    if done.returncode not in allowed:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotRun(f"git {arguments[0]} failed: {said[-1] if said else f'code {done.returncode}'}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Commit:
    """``date``: author date, ISO. ``files``: status letter and name of each, against the first parent.

    A version of a package is one too: ``hash`` is ``NAME==VERSION``, and there is no date.
    """

    hash: str
    date: str
    subject: str
    files: tuple[str, ...] = ()

    @property
    def version(self) -> bool:
        return "==" in self.hash

    @property
    def short(self) -> str:
        return self.hash if self.version else self.hash[:12]


@dataclass(frozen=True)
class Repository:
    """The user's repository, which is only asked."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """Raises `InputError` when ``folder`` belongs to no git repository."""
        if not folder.is_dir():
            raise InputError(f"--repo {folder} is no directory; give one of a git repository")
        try:
            git(folder, "rev-parse", "--git-common-dir")
        except CannotRun:
            raise InputError(f"--repo {folder} is no git repository") from None
        return cls(folder.resolve())

    def commit(self, option: str, revision: str) -> str:
        """Full hash of ``revision``. Raises `InputError` naming ``option``."""
        try:
            return git(
                self.folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except CannotRun:
            raise InputError(f"{option} is {revision!r}, which names no commit of {self.folder}") from None

    def has(self, commit: str, path: str) -> bool:
        """Whether ``path`` is there at ``commit``."""
        return bool(git(self.folder, "ls-tree", "--full-tree", commit, "--", path))

    def text(self, commit: str, path: str) -> str:
        """The text of the file ``path`` at ``commit``."""
        return git(self.folder, "show", f"{commit}:{path}")

    def chain(self, good: str, bad: str, only: Sequence[str] = ()) -> list[str]:
        """Commits after ``good`` up to ``bad`` by first parents, oldest first; those that touch ``only``.

        ``good`` empty: from the beginning on.
        """
        order = ["rev-list", "--reverse", "--first-parent", bad, *([f"^{good}"] if good else [])]
        return git(self.folder, *order, "--", *only).split()

    def since(self, first: str, last: str) -> list[str]:
        """``first`` and what follows up to ``last``, by first parents; empty where it is not among them."""
        commits = self.chain("", last)
        return commits[commits.index(first) :] if first in commits else []

    def files(self, commit: str, paths: Sequence[str]) -> str:
        """Names and contents (as hashes) of all that ``paths`` match at ``commit``."""
        return git(self.folder, "ls-tree", "-r", "--full-tree", commit, "--", *paths)

    def parent(self, commit: str) -> str:
        """The first parent of ``commit``; empty where it has none."""
        return git(self.folder, "rev-parse", "--verify", "--quiet", f"{commit}^", allowed=(0, 1))

    def is_ancestor(self, older: str, newer: str) -> bool:
        base = git(self.folder, "merge-base", older, newer, allowed=(0, 1))
        return base == older

    def describe(self, commit: str, *, files: bool = False) -> Commit:
        """What ``commit`` is; the names of its files only when ``files`` are asked for."""
        hash_, date, subject = git(self.folder, "show", "-s", "--format=%H%n%aI%n%s", commit).split("\n")[:3]
        names: tuple[str, ...] = ()
        if files:
            listed = git(self.folder, "show", "--format=", "--name-status", "-m", "--first-parent", commit)
            names = tuple(line.replace("\t", " ") for line in listed.splitlines())
        return Commit(hash_, date, subject, names)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold ``directory`` for this process, without what a killed run left there.

    Raises `InputError` when another bisection has it.
    """
    with open(directory / "lock", "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"--dir {directory} is in use by another bisection; give another one") from None
        clear(directory)
        yield


@contextmanager
def worktree(repository: Repository, directory: Path, commit: str, name: str = "") -> Iterator[Path]:
    """A worktree of ``commit`` under ``directory`` (see `alone`), gone afterwards whatever happens.

    ``name``: for a folder that is the same each time.
    """
    tree = directory.resolve() / f"{PREFIX}{name}"
    if name:
        tree.mkdir()
    else:
        tree = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory)).resolve()
    try:
        git(repository.folder, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        yield tree
    finally:
        remove(tree)


def clear(directory: Path) -> None:
    """Remove the worktrees that a killed run left in ``directory``."""
    for left in sorted(directory.glob(f"{PREFIX}*")):
        remove(left)


def remove(tree: Path) -> None:
    """Remove a worktree, and its entry in whatever repository it belongs to."""
    try:
        shared = git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir", inside=True)
    except CannotRun:  # not made a worktree yet, or its repository is gone
        shared = ""
    shutil.rmtree(tree, ignore_errors=True)
    if shared:
        git(Path(shared), "worktree", "prune", "--expire=now")


def restore(tree: Path) -> None:
    """Undo what an evaluation changed or left in our worktree."""
    git(tree, "reset", "--quiet", "--hard", inside=True)
    git(tree, "clean", "-ffdxq", inside=True)


def check_out(tree: Path, commit: str) -> None:
    """Bring our worktree to ``commit``."""
    git(tree, "checkout", "--quiet", "--force", "--detach", commit, inside=True)
