"""The search: from neighbour to simpler neighbour for as long as the failure stays the same.

Contract: the case that comes out fails as the first one did, and no neighbour of it does (by the verdicts
that were seen). No case is judged twice. Verdicts are kept on disk as they come, so that a killed reduction
goes on; they belong to one source (see `stamp`), because a fault that was mended in between would be "found"
again from the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.case.cases import Case
from harness.judge.ledger import Ledger
from harness.judge.verdict import Verdict
from harness.reduce.same import Failure, failure
from harness.reduce.smaller import FAMILIES

Judge = Callable[[Case], Verdict]


@dataclass
class Tried:
    """Verdicts by case id, on disk in ``file`` (None: in memory alone)."""

    file: Path | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    judged: int = 0
    """How many of them were judged now, and not read."""

    def __post_init__(self) -> None:
        if self.file is not None and self.file.is_file():
            for line in self.file.read_bytes().splitlines():
                try:
                    verdict = Verdict.from_record(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    continue  # the line that a kill tore
                self.verdicts[verdict.case] = verdict

    def verdict(self, case: Case, judge: Judge) -> Verdict:
        """The verdict of ``case``, from ``judge`` unless it is here."""
        if case.id not in self.verdicts:
            found = judge(case)
            self.judged += 1
            self._write(found)
            self.verdicts[case.id] = found
        return self.verdicts[case.id]

    def _write(self, verdict: Verdict) -> None:
        if self.file is None:
            return
        with open(self.file, "ab") as stream:
            torn = stream.tell() and self.file.read_bytes()[-1:] != b"\n"
            stream.write((b"\n" if torn else b"") + json.dumps(verdict.to_record()).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


@dataclass
class Search:
    """A reduction that is going on; ``smallest`` is right at any time, so it may be left at any time."""

    first: Verdict
    wanted: Failure
    smallest: Case
    judge: Judge
    ledger: Ledger
    tried: Tried
    tell: Callable[[Search, bool], None] = lambda search, better: None
    """Called after each candidate; told whether it is the smallest now."""

    def run(self) -> Case:
        """Shrink until a whole round of changes is in vain."""
        before = None
        while before != self.smallest:
            before = self.smallest
            for neighbours in FAMILIES:
                while self._step(neighbours(self.smallest)):
                    pass
        return self.smallest

    def _step(self, candidates: Iterable[Case]) -> bool:
        """Whether one of the candidates fails in the same way; it is the smallest then."""
        for candidate in candidates:
            better = self.fails(candidate)
            if better:
                self.smallest = candidate
            self.tell(self, better)
            if better:
                return True
        return False

    def fails(self, case: Case) -> bool:
        """Whether ``case`` fails as the first one did."""
        return self.wanted.same(failure(self.tried.verdict(case, self.judge), self.ledger))


def size(case: Case) -> dict[str, int]:
    """How large a case is: sequences, query rows, keys, cells of what is compared."""
    keys = max(map(sum, case.v)) if case.v else sum(case.ctx) or case.longest
    cells = case.rows * case.width if case.kind else case.rows * max(1, case.d)
    return {"sequences": case.batch, "rows": case.rows, "keys": keys, "cells": cells}


def stamp(folders: Iterable[Path]) -> str:
    """Digest of names, sizes and times of all sources in ``folders``: other sources, other verdicts."""
    found = hashlib.blake2b(digest_size=8)
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            about = file.stat()
            found.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return found.hexdigest()


def described(before: Case, after: Case) -> list[tuple[str, int, int]]:
    """(what, before, after) of each size."""
    large, small = size(before), size(after)
    return [(name, large[name], small[name]) for name in large]
