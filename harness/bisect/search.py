"""The search over commits: ``git bisect`` itself, in a worktree whose bisection state is its own.

Git chooses the commits, over merges and around skipped ones. Where it stands is read from its references
and not from what it prints, so that an end is an end only if the history says so: one commit is left, or
only such as were skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bisect.judging import Said, Word
from harness.bisect.repository import git, restore
from harness.exits import CannotRun

ENDED = (0, 2, 4)
"""Codes of ``git bisect``: went on or found, only skipped ones are left, nothing is left to test."""


@dataclass(frozen=True)
class Search:
    """A bisection in the worktree ``tree``. ``only``: paths; other commits are not looked at."""

    tree: Path
    good: str
    bad: str
    only: tuple[str, ...] = ()
    first_parent: bool = False

    def run(self, ask: Callable[[str, int], Said]) -> tuple[str, ...]:
        """Candidates for the first bad commit, oldest first; more than one only where skips leave several.

        ``ask``: is called with a commit, which is checked out, and the number of candidates left.
        Raises `CannotRun` when no commit can be the first bad one (only with ``only``).
        """
        mode = ["--first-parent"] if self.first_parent else []
        self._bisect("start", *mode, self.bad, self.good, "--", *self.only)
        skipped: set[str] = set()
        while True:
            left, bad = self.left(), self._git("rev-parse", "refs/bisect/bad")
            if not left:
                raise CannotRun(
                    f"no commit that touches {', '.join(self.only)} turned bad; ask without --only"
                )
            if not set(left) - skipped - {bad}:
                return tuple(left)
            commit = self._git("rev-parse", "HEAD")
            if commit not in left or commit in skipped or commit == bad:
                raise CannotRun(f"git bisect checked out {commit[:12]}, which has been answered already")
            said = ask(commit, len(left))
            if said.word is Word.SKIP:
                skipped.add(commit)
            restore(self.tree)
            self._bisect(said.word)

    def left(self) -> Sequence[str]:
        """Commits that can still be the first bad one, oldest first."""
        mode = ["--first-parent"] if self.first_parent else []
        good = self._git("for-each-ref", "--format=%(objectname)", "refs/bisect/good-*").split()
        order = ["rev-list", "--reverse", "--topo-order", *mode, "refs/bisect/bad", "--not", *good]
        return self._git(*order, "--", *self.only).split()

    def _bisect(self, *arguments: str) -> None:
        git(self.tree, "bisect", *arguments, allowed=ENDED, inside=True)

    def _git(self, *arguments: str) -> str:
        return git(self.tree, *arguments, inside=True)
