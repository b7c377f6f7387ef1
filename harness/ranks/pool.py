"""Rank processes of this process: started when first asked, kept, and all stopped when one fails.

Every rank is a process of its own with one thread. One that dies, breaks or does not answer in time
ends the job with one sentence naming it; the others are stopped, because they may be waiting for it
in a collective, and the next job starts anew.
"""

from __future__ import annotations

import atexit
import multiprocessing
import pickle
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path as FilePath
from typing import Any

from harness.paths.base import Path
from harness.ranks import again, worker
from harness.ranks.worker import Job, Order

SECONDS = 240.0
"""A job takes a few seconds; one that takes this long has hung."""
GRACE = 1.0
"""Seconds to look for a dead rank after another has broken."""


class RankError(RuntimeError):
    """A rank died, broke or did not answer; the message is one sentence naming it."""


@dataclass(frozen=True)
class _Rank:
    process: ForkServerProcess
    pipe: Connection
    log: FilePath

    def last_words(self) -> str:
        """The last line it printed, in brackets; empty when there is none."""
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        spoken = [line.strip() for line in lines if line.strip() and not line.startswith("[Gloo]")]
        return f" (it last said: {spoken[-1][:200]})" if spoken else ""


class Pool:
    """Processes for ranks 0, 1, ...; as many as the largest job so far."""

    def __init__(self) -> None:
        self._ranks: list[_Rank] = []
        self.folder: FilePath | None = None
        self._recipe: again.Recipe | None = None
        self._stores: tuple[int, int] = (0, 0)  # world of the last group, how many groups there were

    def run(self, job: Job, path: Path, shares: Sequence[Any], seconds: float = SECONDS) -> list[Any]:
        """Answers of one rank a share, in order, to ``job(path, group, share)``.

        Raises what the path refuses with, and `RankError`.
        """
        recipe = again.recipe(path)
        try:
            self._start(len(shares), recipe)
            store = self._store(len(shares))
            for rank, share in enumerate(shares):
                order = Order(job, recipe, rank, len(shares), store, seconds, share)
                self._send(rank, pickle.dumps(order), len(shares))
            return self._collected(len(shares), time.monotonic() + seconds, seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all processes, whatever they are doing."""
        for rank in self._ranks:
            rank.pipe.close()
            rank.process.kill()
        for rank in self._ranks:
            rank.process.join()
            rank.process.close()
        self._ranks.clear()
        self._recipe = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    @property
    def processes(self) -> list[int]:
        """Process ids, by rank."""
        return [int(rank.process.pid or 0) for rank in self._ranks]

    def _start(self, world: int, recipe: again.Recipe) -> None:
        """Have ``world`` processes; new ones when another registered path is asked (one tree a process)."""
        inner = again.sound(recipe)
        if recipe.choice and self._recipe not in (None, inner):
            self.close()
        self._recipe = inner if recipe.choice else self._recipe
        if self.folder is None:
            self.folder = FilePath(tempfile.mkdtemp(prefix="ranks-"))
            self._stores = (0, self._stores[1])
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["harness.ranks.warm"])
        for number in range(len(self._ranks), world):
            ours, theirs = context.Pipe()
            log = self.folder / f"rank{number}.log"
            process = context.Process(
                target=worker.serve, args=(theirs, str(log)), name=f"rank{number}", daemon=True
            )
            process.start()
            theirs.close()
            self._ranks.append(_Rank(process, ours, log))

    def _store(self, world: int) -> str:
        """Where the ranks meet: the same file as last time while the group is the same."""
        last, count = self._stores
        if world != last:
            self._stores = (world, count + 1)
        assert self.folder is not None
        return str(self.folder / f"store{self._stores[1]}")

    def _send(self, rank: int, order: bytes, world: int) -> None:
        try:
            self._ranks[rank].pipe.send_bytes(order)
        except OSError:
            raise self._died(rank, world) from None

    def _collected(self, world: int, deadline: float, seconds: float) -> list[Any]:
        answers: dict[int, Any] = {}
        while len(answers) < world:
            waiting = {self._ranks[rank].pipe: rank for rank in range(world) if rank not in answers}
            ready = connection.wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                late = ", ".join(map(str, waiting.values()))
                raise RankError(f"rank {late} of {world} did not answer within {seconds:g} s")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                rank = waiting[pipe]
                answers[rank] = self._received(rank, world)
        return [answers[rank] for rank in range(world)]

    def _received(self, rank: int, world: int) -> Any:
        try:
            word, value = pickle.loads(self._ranks[rank].pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._died(rank, world) from None
        if word == worker.REFUSED:
            raise value
        if word == worker.BROKEN:
            raise self._gone(world) or RankError(f"rank {rank} of {world} broke: {value}")
        return value

    def _gone(self, world: int) -> RankError | None:
        """Of a rank that died, if there is one: those that wait for it break, and may be heard first."""
        processes = [rank.process for rank in self._ranks[:world]]
        connection.wait([process.sentinel for process in processes], timeout=GRACE)
        dead = [rank for rank, process in enumerate(processes) if not process.is_alive()]
        return self._died(dead[0], world) if dead else None

    def _died(self, rank: int, world: int) -> RankError:
        gone = self._ranks[rank]
        gone.process.join(timeout=5)
        code = gone.process.exitcode
        how = f"exit code {code}"
        if code is None:
            how = "its pipe is closed"
        elif code < 0:
            how = signal.Signals(-code).name
        return RankError(f"rank {rank} of {world} died ({how}){gone.last_words()}")


@lru_cache(maxsize=1)
def shared() -> Pool:
    """The pool of this process, stopped when it exits."""
    pool = Pool()
    atexit.register(pool.close)
    return pool
