"""Mutants of a target in worker processes, one line on disk for each; a sweep that was cut off goes on.

Contract: a line is on disk before the next mutant of that worker begins, and a mutant that has a line is not
run again. Lines belong to one program (its digest is in the file's name) and one acceptance list, so that a
changed kernel, or another aiter, never inherits somebody else's figures.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.paths import registry
from harness.power.targets import TARGETS, Target


@dataclass(frozen=True)
class Asked:
    """One target on one path. ``sample`` mutants drawn with ``seed`` (None: all)."""

    choice: registry.Choice
    target: str
    sample: int | None = None
    seed: int = 1
    only: str = ""


class Worker:
    """Everything a process needs to try a mutant; the enumeration is made when it is first needed."""

    def __init__(self, choice: registry.Choice, target: Target) -> None:
        registry.prepare_environment(choice.name)
        path = registry.create(choice)  # before torch is set up: packages of the path read their environment
        import torch

        from harness.case import cases
        from harness.judge import ledger
        from harness.power.mutants import mutants
        from harness.power.trial import Bench

        torch.set_num_threads(1)
        self._target, self._path = target, path
        self.bench = Bench.of(path, [cases.parse(one) for one in target.cases], ledger.load())
        self.mutants = {one.name: one for one in mutants(self.bench.program)}
        self._enumeration: Any = None

    def record(self, name: str) -> dict[str, Any]:
        """What became of the mutant called ``name``."""
        mutant = self.mutants[name]
        told = self.bench.trial(mutant)
        why = "" if told.how else self._inert(mutant)
        return {"mutant": name, **asdict(mutant), **asdict(told), "why": why}

    def _inert(self, mutant: Any) -> str:
        from harness.case import cases
        from harness.power.inert import Enumeration

        if self._enumeration is None:
            ids = [cases.parse(one) for one in self._target.enumerated]
            self._enumeration = Enumeration.of(self._path, self.bench.program, ids, self._target.said)
        return str(self._enumeration.why(mutant))


_worker: Worker | None = None


def _begin(choice: registry.Choice, target: str) -> None:
    global _worker
    _worker = Worker(choice, TARGETS[target])


def _one(name: str) -> dict[str, Any]:
    assert _worker is not None
    return _worker.record(name)


@dataclass(frozen=True)
class Plan:
    """What a sweep will do: names of all mutants asked for, the file, and what is in it already."""

    asked: Asked
    names: tuple[str, ...]
    all_names: tuple[str, ...]
    file: Path

    @property
    def kept(self) -> dict[str, dict[str, Any]]:
        """Records on disk by mutant; a torn last line counts for nothing."""
        found: dict[str, dict[str, Any]] = {}
        if self.file.is_file():
            for line in self.file.read_bytes().splitlines():
                try:
                    record = json.loads(line)
                    found[record["mutant"]] = record
                except (ValueError, KeyError, TypeError):
                    continue
        return found

    @property
    def records(self) -> list[dict[str, Any]]:
        """Those on disk that were asked for, in the order of the program."""
        kept = self.kept
        return [kept[name] for name in self.names if name in kept]


def plan(asked: Asked, directory: Path) -> Plan:
    """Run the target's cases without a fault, and list its mutants. Raises `CannotRun`."""
    from harness.power.mutants import digest

    worker = Worker(asked.choice, TARGETS[asked.target])
    names = list(worker.mutants)
    chosen = [asked.only] if asked.only else names
    if asked.sample is not None and asked.sample < len(names):
        drawn = set(random.Random(asked.seed).sample(names, asked.sample))
        chosen = [name for name in names if name in drawn]
    file = f"{asked.choice.name}-{asked.target}-{digest(worker.bench.program)[:12]}.jsonl"
    return Plan(asked, tuple(chosen), tuple(names), directory / file)


def run(found: Plan, workers: int) -> Iterator[dict[str, Any]]:
    """Try every mutant that has no line yet; each record as it comes, when it is on disk."""
    kept = found.kept
    left = [name for name in found.names if name not in kept]
    if not left:
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(workers, len(left)), context, _begin, (found.asked.choice, found.asked.target)
    )
    try:
        with open(found.file, "ab") as stream:
            if stream.tell() and not _ends_line(found.file):
                stream.write(b"\n")
            for done in as_completed([pool.submit(_one, name) for name in left]):
                record = done.result()
                stream.write(json.dumps(record).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
                yield record
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def survivors(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of mutants that nothing saw and nothing explains."""
    return [record for record in records if not record["how"] and not record["why"]]


def _ends_line(file: Path) -> bool:
    with open(file, "rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
