"""A rank process: waits for an order, makes its path once, meets its group, does the job, answers.

It leaves when its parent is gone or has closed the pipe. How it would fail silently: a refusal of
the path and a defect of the job look alike from outside, so they are sent as different words.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from harness.paths.base import Path, Unsupported
from harness.ranks import again, group
from harness.ranks.group import Group

DONE, REFUSED, BROKEN = "done", "refused", "broken"

Job = Callable[[Path, Group, Any], Any]
"""What a rank does: (path, group, its share) to its answer; a function of a module, pickled by name."""


@dataclass(frozen=True)
class Order:
    """One job for one rank; ``store`` is the file at which the ranks of a group meet."""

    job: Job
    recipe: again.Recipe
    rank: int
    world: int
    store: str
    seconds: float
    share: Any


def serve(pipe: Connection, log: str) -> None:
    """Answer orders until the pipe is closed. What is printed goes to the file ``log``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _print_to(log)
    torch.set_num_threads(1)
    rank = _Rank()
    while True:
        try:
            order = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        answer = rank.answer(order)
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


class _Rank:
    """What a rank keeps from one order to the next: its path and its group."""

    def __init__(self) -> None:
        self._recipe: again.Recipe | None = None
        self._inner: Path | None = None
        self._path: Path | None = None
        self._store = ""
        self._group: Group | None = None

    def answer(self, raw: bytes) -> bytes:
        try:
            order: Order = pickle.loads(raw)
            return pickle.dumps((DONE, order.job(self._made(order), self._met(order), order.share)))
        except Unsupported as refusal:
            return pickle.dumps((REFUSED, refusal))
        except Exception as problem:  # whatever it is, the parent must hear of it
            traceback.print_exc()
            return pickle.dumps((BROKEN, f"{type(problem).__name__}: {problem}"))

    def _made(self, order: Order) -> Path:
        if self._inner is None or again.sound(order.recipe) != again.sound(self._recipe):
            self._inner, self._recipe = again.make(order.recipe), None
        if self._path is None or order.recipe != self._recipe:
            self._path, self._recipe = again.plant(self._inner, order.recipe), order.recipe
        return self._path

    def _met(self, order: Order) -> Group:
        if self._group is None or order.store != self._store:
            self._group = group.join(order.rank, order.world, order.store, order.seconds)
            self._store = order.store
        return self._group


def _print_to(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
