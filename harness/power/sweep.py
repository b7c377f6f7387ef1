"""Mutants of a target in worker processes: tried first, those that no case saw explained after.

Contract: a sweep that was cut off goes on where its lines end (`harness.power.lines`), and what is left of it
may be split over machines. The faults that no case saw are held against the enumeration together, because
one run of the right program watches any number of them.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

from harness.power import lines
from harness.power.benches import Prepared
from harness.power.lines import PENDING, Record

BATCH = 48
"""Mutants that one run of the enumeration watches: enough to share it, few enough to share out."""


@dataclass(frozen=True)
class Asked:
    """``sample`` mutants drawn with ``seed`` (None: all), or ``only`` one; of these ``part`` (I, N)."""

    sample: int | None = None
    seed: int = 1
    only: str = ""
    part: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Plan:
    """What a sweep will do: the recorded target, names of the mutants asked for and of all there are."""

    prepared: Prepared
    names: tuple[str, ...]
    all_names: tuple[str, ...]
    part: tuple[int, int]

    @property
    def records(self) -> list[Record]:
        """Those on disk that were asked for, in the order of the program."""
        kept = lines.read(self.prepared.directory, self.prepared.stem)
        return [kept[name] for name in self.names if name in kept]

    @property
    def file(self) -> str:
        """Where this part's lines go."""
        number, parts = self.part
        return self.prepared.stem + (f"-{number}-of-{parts}" if parts > 1 else "") + ".jsonl"


def plan(prepared: Prepared, asked: Asked) -> Plan:
    """Draw the mutants that are asked for."""
    from harness.power.mutants import mutants

    names = [one.name for one in mutants(prepared.bench().program)]
    chosen = [asked.only] if asked.only else names
    if asked.sample is not None and asked.sample < len(names):
        drawn = set(random.Random(asked.seed).sample(names, asked.sample))
        chosen = [name for name in names if name in drawn]
    number, parts = asked.part
    return Plan(prepared, tuple(chosen[number - 1 :: parts]), tuple(names), asked.part)


def run(found: Plan, workers: int, enumerate_launches: Callable[[], None]) -> Iterator[Record]:
    """Try every mutant that has no line yet, then explain those no case saw; each record when it is on disk.

    ``enumerate_launches`` is called when there is something to explain.
    """
    have = {record["mutant"]: record for record in found.records}
    left = [name for name in found.names if name not in have]
    pending = [record for record in have.values() if record["why"] == PENDING]
    with lines.writer(found.prepared.directory / found.file) as written:
        for record in _each(found, workers, _try, left):
            written.put([record])
            if record["why"] == PENDING:
                pending.append(record)
            yield record
        if not pending:
            return
        enumerate_launches()
        size = max(1, min(BATCH, -(-len(pending) // max(1, workers))))
        batches = [pending[start : start + size] for start in range(0, len(pending), size)]
        unequal: list[Record] = []
        for batch in _each(found, workers, _same_values, batches):
            done = [record for record in batch if record["why"] != PENDING]
            written.put(done)
            unequal += [record for record in batch if record["why"] == PENDING]
            yield from done
        for record in _each(found, workers, _same_stores, unequal):
            written.put([record])
            yield record


def _each(found: Plan, workers: int, task: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """What ``task`` makes of each of ``items`` in workers, as it comes."""
    if not items:
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(items)), context, _begin, (found.prepared,))
    try:
        for done in as_completed([pool.submit(task, item) for item in items]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Worker:
    """Everything a process needs; the enumeration is loaded when it is first needed."""

    def __init__(self, prepared: Prepared) -> None:
        import torch

        from harness.judge import ledger
        from harness.power.mutants import mutants

        torch.set_num_threads(1)
        self.ledger = ledger.load()
        self.bench = prepared.bench()
        self.mutants = {one.name: one for one in mutants(self.bench.program)}
        self._prepared, self._enumeration = prepared, None

    @property
    def enumeration(self) -> Any:
        if self._enumeration is None:
            self._enumeration = self._prepared.enumeration()
        return self._enumeration


_worker: Worker | None = None


def _begin(prepared: Prepared) -> None:
    global _worker
    _worker = Worker(prepared)


def _try(name: str) -> Record:
    assert _worker is not None
    mutant = _worker.mutants[name]
    told = _worker.bench.trial(mutant, _worker.ledger)
    return {"mutant": name, **asdict(mutant), **asdict(told), "why": "" if told.how else PENDING}


def _same_values(records: list[Record]) -> list[Record]:
    """The batch, with reasons where no lane gets another value."""
    assert _worker is not None
    same = _worker.enumeration.same_values([_worker.mutants[record["mutant"]] for record in records])
    return [{**record, "why": same.get(record["mutant"], PENDING)} for record in records]


def _same_stores(record: Record) -> Record:
    """The record with its reason, or with none: a survivor."""
    assert _worker is not None
    return {**record, "why": _worker.enumeration.same_stores(_worker.mutants[record["mutant"]])}


def survivors(records: Sequence[Record]) -> list[Record]:
    """Records of mutants that nothing saw and nothing explains (yet)."""
    return [record for record in records if not record["how"] and record["why"] in ("", PENDING)]
