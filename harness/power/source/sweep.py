"""Source faults of one file through the cases of its suites, in warm processes; one line on disk for each.

Contract: only cases that are green without a fault judge, quickest first, and a fault without an answer in
`PATIENCE` times what they all took (a loop that never ends) is killed by the clock. Lines belong to one text,
whose digest is in the file's name. Which listing judged is in the line: what only the smoke listing missed is
tried again when the full one is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness.exits import CannotRun
from harness.power import lines
from harness.power.lines import PENDING, Record
from harness.power.source import faults, known
from harness.power.source.targets import SourceTarget
from harness.power.source.tree import Copy

PATIENCE, LEAST = 10, 60.0
"""A fault may take this many times what all cases take without one, and at least this many seconds."""
BEHIND: Mapping[str, frozenset[str]] = {
    "flydsl": frozenset(),
    "aiter": frozenset({"aiter"}),
    "atom": frozenset({"aiter", "atom"}),
}
"""The trees that a path answers from."""
PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True)
class SourcePlan:
    """The faults asked for, by name, and where their lines go."""

    target: SourceTarget
    root: Path
    trees: Mapping[str, str]
    listing: str
    directory: Path
    stem: str
    names: tuple[str, ...]
    faults: Mapping[str, faults.SourceFault]

    @property
    def records(self) -> list[Record]:
        """Those on disk that were asked for, in the order of the text."""
        kept = lines.read(self.directory, self.stem)
        return [kept[name] for name in self.names if name in kept]

    @property
    def left(self) -> list[str]:
        """Names that the listing has not judged yet."""
        done = {one["mutant"] for one in self.records if one["why"] != PENDING or self.listing == "smoke"}
        return [name for name in self.names if name not in done]


def plan(
    target: SourceTarget,
    roots: Mapping[str, Path],
    listing: str,
    directory: Path,
    sample: int | None,
    seed: int,
) -> SourcePlan:
    """Draw the faults. ``roots``: name of a tree to its folder. Raises `CannotRun`."""
    root = roots[target.tree]
    file = root / target.file
    if not file.is_file():
        raise CannotRun(f"source {target.name} is {target.file}, which the tree does not have")
    text = file.read_text(encoding="utf-8")
    found = {one.name: one for one in faults.faults(text, target.functions)}
    names = list(found)
    if sample is not None and sample < len(names):
        drawn = set(random.Random(seed).sample(names, sample))
        names = [name for name in names if name in drawn]
    stem = f"source-{target.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    trees = {name: str(tree) for name, tree in roots.items() if name in BEHIND[target.path]}
    return SourcePlan(target, root, trees, listing, directory, stem, tuple(names), found)


def run(found: SourcePlan, workers: int) -> Iterator[Record]:
    """Try every fault that is left; each record when it is on disk.

    Raises `CannotRun` where no case is green without a fault.
    """
    left = found.left
    if not left:
        return
    reasons = known.load()
    with ExitStack() as stack:
        free: SimpleQueue[Zygote] = SimpleQueue()
        for _ in range(min(workers, len(left))):
            free.put(stack.enter_context(Zygote(found)))
        first = free.get()
        cases, whole = first.baseline(_cases(found.target, found.listing))
        free.put(first)

        def one(name: str) -> Record:
            worker = free.get()
            try:
                return _record(
                    found, found.faults[name], worker.trial(found.faults[name], cases, whole), reasons
                )
            finally:
                free.put(worker)

        written = stack.enter_context(lines.writer(found.directory / f"{found.stem}.jsonl"))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for done in as_completed([pool.submit(one, name) for name in left]):
            record = done.result()
            written.put([record])
            yield record


def _cases(target: SourceTarget, listing: str) -> list[str]:
    """Ids of the suites' listing, each once."""
    from harness.case.lists import SUITES

    chosen = [
        one
        for suite in target.suites
        for one in (
            SUITES[suite].smoke if listing == "smoke" else (*SUITES[suite].smoke, *SUITES[suite].full())
        )
    ]
    return list(dict.fromkeys(chosen))


def _record(
    found: SourcePlan, fault: faults.SourceFault, told: Mapping[str, Any], reasons: Mapping[known.Key, str]
) -> Record:
    where = {"file": found.target.file, "before": fault.before, "after": fault.after}
    reason = reasons.get(known.key(where), "")
    unseen = reason or (PENDING if found.listing == "smoke" else "")
    return {
        "mutant": fault.name,
        "rule": fault.operator,
        "location": f"{found.target.file}:{fault.line}",
        "diff": fault.diff(),
        "how": told["how"],
        "case": told["case"],
        "said": told["said"],
        "missed": [],
        "why": "" if told["how"] else unseen,
    }


class Zygote:
    """A warm process with a copy of the tree of its own."""

    def __init__(self, found: SourcePlan) -> None:
        self._found = found
        self._stack = ExitStack()

    def __enter__(self) -> Zygote:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="power-")))
        self._copy = Copy(self._found.root, folder / "tree", self._found.target.file)
        own = self._found.target.tree == "project"
        self._trees = {
            **self._found.trees,
            **({} if own else {self._found.target.tree: str(folder / "tree")}),
        }
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

    def baseline(self, cases: Sequence[str]) -> tuple[list[str], float]:
        """Cases that are green without a fault, quickest first, and the seconds all of them take."""
        told = self._ask(cases, 3600.0, every=True)
        took = told["took"]
        if told["how"] or not took:
            said = told["said"] or "no case is green"
            raise CannotRun(f"source {self._found.target.name} without a fault: {said}")
        return sorted(took, key=lambda one: float(took[one])), max(LEAST, PATIENCE * sum(took.values()))

    def trial(self, fault: faults.SourceFault, cases: Sequence[str], seconds: float) -> dict[str, Any]:
        """What became of ``fault``."""
        self._copy.replace(fault.text)
        try:
            return self._ask(cases, seconds)
        finally:
            self._copy.restore()

    def _ask(self, cases: Sequence[str], seconds: float, every: bool = False) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {
            "path": self._found.target.path,
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
            raise CannotRun(f"a process that tries source faults ended: {error}") from error
        return told
