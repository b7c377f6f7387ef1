"""Suite dcp-prefill, the ranks: in processes of their own where there are two, else one after another.

In one process the collective is played back: every rank is first asked to hear what it gives, and those
that are judged once more with what all of them gave. How that would fail silently: a rank that gives
something else the second time is not heard; two real ranks, which meet in a collective of
torch.distributed, are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.checks.book import Book
from harness.checks.dcp_prefill.shards import Job
from harness.findings import Finding
from harness.judge.verdict import SUBJECTS
from harness.paths.base import Path
from harness.paths.requests.staging import StagePrefill
from harness.ranks import pool
from harness.ranks.group import Group

PROCESSES = 2
"""World whose ranks are processes."""


class Heard(Exception):
    """A rank has given all that it gives; what it would make of it is not wanted."""


@dataclass
class Recorder:
    """A collective that hears one rank, and hands back its own tensors as if all ranks had given them.

    It ends the rank with `Heard` after ``most`` calls, if that is known.
    """

    world: int
    most: int | None = None
    heard: list[Tensor] = field(default_factory=list)

    def __call__(self, tensor: Tensor) -> Tensor:
        self.heard.append(tensor.clone())
        if len(self.heard) == self.most:
            raise Heard
        return torch.cat([tensor] * self.world)


@dataclass
class Player:
    """A collective that hands a rank what all of them gave: ``given`` by rank, in the order of the calls."""

    given: Sequence[Sequence[Tensor]]
    calls: int = 0

    def __call__(self, tensor: Tensor) -> Tensor:
        self.calls += 1
        return torch.cat([theirs[self.calls - 1] for theirs in self.given])


@dataclass(frozen=True)
class Share:
    """What a rank process is given: its request, without the collective that it will find there."""

    case: Case
    request: StagePrefill


def ask(book: Book, job: Job, ranks: int) -> list[Any]:
    """Staged planes and table of the first ``ranks`` ranks, or of both where they are processes."""
    if job.case.world == PROCESSES:
        return in_processes(book, job)
    return in_this_process(book, job, ranks)


def in_this_process(book: Book, job: Job, ranks: int) -> list[Any]:
    """Rank 0 is heard to its end, which tells how often the others give something."""
    first = Recorder(job.case.world)
    book.ask(job.request(0, first))
    given = [first.heard, *(heard(book, job, rank, len(first.heard)) for rank in range(1, job.case.world))]
    return [book.ask(job.request(rank, Player(given))) for rank in range(ranks)]


def heard(book: Book, job: Job, rank: int, most: int) -> list[Tensor]:
    """The first ``most`` tensors that ``rank`` gives to the collective."""
    recorder = Recorder(job.case.world, most)
    with suppress(Heard):
        book.ask(job.request(rank, recorder))
    return recorder.heard


def in_processes(book: Book, job: Job) -> list[Any]:
    """Each rank in a process of its own."""
    shares = [Share(job.case, job.request(rank, alone)) for rank in range(job.case.world)]
    values = []
    for value, backend, findings, subjects in pool.shared().run(stage, book.path, shares):
        values.append(value)
        book.findings.extend(findings)
        book.facts.setdefault(SUBJECTS, {}).update(subjects)
        book.facts |= {"processes": len(shares), "backend": backend}
    return values


def alone(tensor: Tensor) -> Tensor:
    """Stands in a request until it has arrived where its collective is."""
    raise RuntimeError("a rank asked for its collective before it had one")


def stage(path: Path, group: Group, share: Share) -> tuple[Any, str, tuple[Finding, ...], dict[str, str]]:
    """The job of a rank process: (value, backend, findings, who answered). Raises as the path does."""
    book = Book(share.case, path)
    value = book.ask(replace(share.request, all_gather=lambda tensor: group.all_gather(tensor).flatten(0, 1)))
    return value, group.backend, tuple(book.findings), book.facts[SUBJECTS]
