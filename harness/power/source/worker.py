"""A warm process that tries source faults, with a copy of the tree of its own (`zygote` is what it runs)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.case.cases import parse
from harness.exits import CannotRun
from harness.power.source.faults import SourceFault
from harness.power.source.targets import SourceTarget
from harness.power.source.tree import Copy

PATIENCE, LEAST, LONGEST = 10, 60.0, 3600.0
"""A fault may take this many times what all cases take without one, and at least so many seconds; without a
fault they may take the longest."""
PROJECT = Path(__file__).parents[3]
OWN = ("harness", "oracles")
"""Packages of this project."""


@dataclass(frozen=True)
class Baseline:
    """``cases`` that are green without a fault, quickest first; ``left_out``: others, with what was red.

    ``seconds``: how long a fault may take over all of them.
    """

    cases: tuple[str, ...]
    left_out: Mapping[str, str]
    seconds: float


class Unchanged:
    """The project's own files as they were at first: one that changes meanwhile kills faults by itself."""

    def __init__(self, root: Path = PROJECT) -> None:
        self._root, self._first = root, state(root)

    def check(self) -> None:
        """Raises `CannotRun` when a file is another, or new, or gone."""
        changed = sorted(name for name, _ in self._first ^ state(self._root))
        if changed:
            raise CannotRun(f"{changed[0]} changed while faults were tried; run the same command again")


def state(root: Path) -> frozenset[tuple[str, tuple[int, int]]]:
    """(file, (bytes, nanoseconds of its last change)) of every source and data file in `OWN` of ``root``."""
    found = []
    for package in OWN:
        for file in (root / package).rglob("*"):
            if file.suffix in (".py", ".toml") and file.is_file():
                about = file.stat()
                found.append((str(file.relative_to(root)), (about.st_size, about.st_mtime_ns)))
    return frozenset(found)


class Zygote:
    """A warm process with a copy of the tree of its own."""

    def __init__(self, target: SourceTarget, root: Path, trees: Mapping[str, str]) -> None:
        self._target, self._root, self._trees = target, root, dict(trees)
        self._stack = ExitStack()

    def __enter__(self) -> Zygote:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="power-")))
        self._copy = Copy(self._root, folder / "tree", self._target.file)
        own = self._target.tree == "project"
        if not own:
            self._trees[self._target.tree] = str(folder / "tree")
        imported = str(folder / "tree") if own else str(PROJECT)
        environment = {**os.environ, "PYTHONPATH": imported, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.power.source.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=imported,
            env=environment,
        )
        self._stack.callback(self._end)
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def baseline(self, cases: Sequence[str]) -> Baseline:
        """What each case says without a fault, and again in the order in which they judge.

        A case that kills or hangs its process, or that is red in one of the orders, is left out like one
        that is red. Raises `CannotRun` for a suite without a green one, and where the path breaks.
        """
        took: dict[str, float] = {}
        red: dict[str, str] = {}
        while left := [one for one in cases if one not in took and one not in red]:
            told = self._sound(self._ask(left, LONGEST, every=True))
            took.update(told["took"])
            red.update(told["red"])
            if told["how"]:
                red[told["case"]] = f"{told['how']}: {told['said']}"
        while True:
            ordered = tuple(sorted(took, key=lambda one: took[one]))
            self._judging(cases, ordered, red)
            told = self._sound(self._ask(ordered, LONGEST))
            if not told["how"]:
                return Baseline(ordered, red, max(LEAST, PATIENCE * sum(took.values())))
            del took[told["case"]]
            red[told["case"]] = f"{told['how']} when it runs after others: {told['said']}"

    def _judging(self, cases: Sequence[str], green: Sequence[str], red: Mapping[str, str]) -> None:
        for suite in self._target.suites:
            asked = [one for one in cases if parse(one).suite == suite]
            if not any(one in green for one in asked):
                said = "; ".join(dict.fromkeys(red[one] for one in asked)) or "it lists none"
                raise CannotRun(
                    f"source {self._target.name}: no case of suite {suite} is green without a fault: {said}"
                )

    def _sound(self, told: dict[str, Any]) -> dict[str, Any]:
        """``told`` where a case is to blame for what went wrong. Raises `CannotRun` otherwise."""
        if told["how"] and not told["case"]:
            raise CannotRun(f"source {self._target.name} without a fault: {told['said']}")
        return told

    def trial(self, fault: SourceFault, baseline: Baseline) -> dict[str, Any]:
        """What became of ``fault``."""
        self._copy.replace(fault.text)
        try:
            return self._ask(baseline.cases, baseline.seconds)
        finally:
            self._copy.restore()

    def _ask(self, cases: Sequence[str], seconds: float, every: bool = False) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {
            "path": self._target.path,
            "trees": self._trees,
            "cases": list(cases),
            "seconds": seconds,
            "all": every,
        }
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            told: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise CannotRun(f"a process that tries source faults ended: {error}; run again") from error
        if told["how"] == "broke":  # neither the path nor a check: the harness itself
            raise CannotRun(f"source {self._target.name}: {told['said']}")
        return told
