"""Runs both sides at once, a process each, and hands over each case as soon as both have ended it.

Tensors of a case are deleted when it has been compared, so that a long list needs no more room than a
short one. How it would fail silently: a side that stopped early looks like one with fewer cases; so a
comparison counts as whole only when both sides wrote their end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.ab.child import EVENTS
from harness.ab.order import Order

POLL = 0.1


@dataclass
class Side:
    """One running tree: what it wrote so far."""

    order: Order
    process: subprocess.Popen[bytes]
    planned: int | None = None
    now: str = ""
    cases: list[dict[str, Any]] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    _offset: int = 0

    @property
    def folder(self) -> Path:
        return Path(self.order.folder)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def poll(self) -> None:
        """Take in the whole lines that were added."""
        file = self.folder / EVENTS
        if not file.exists():
            return
        with open(file, "rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for line in data[:whole].splitlines():
            self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "plan":
            self.planned = int(event["count"])
        elif kind == "start":
            self.now = str(event["case"])
        elif kind == "case":
            self.cases.append(dict(event))
        elif kind == "signatures":
            self.functions, self.texts = dict(event["functions"]), dict(event["texts"])
        self.ended = self.ended or kind == "end"

    def forget(self, number: int) -> None:
        """Delete the tensors of a case."""
        for file in self.folder.glob(f"{number}-*"):
            file.unlink()

    def log(self) -> str:
        """The end of what the process said."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-12:])


def start(order: Order) -> Side:
    """Start the process of ``order``; its folder must exist."""
    folder = Path(order.folder)
    order.write(folder / "order.json")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.ab.child", str(folder / "order.json")],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    return Side(order, process)


def paired(
    sides: tuple[Side, Side], tick: Callable[[], None]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each case's events of both sides, as they come; ``tick`` is called now and then while waiting."""
    given = 0
    while True:
        running = any(side.running for side in sides)
        for side in sides:
            side.poll()
        while given < min(len(side.cases) for side in sides):
            yield sides[0].cases[given], sides[1].cases[given]
            for side in sides:
                side.forget(given)
            given += 1
        tick()
        if not running:
            return
        if any(not side.running and not side.ended for side in sides):
            return  # the other one has nothing left to be compared with
        time.sleep(POLL)


def stop(side: Side) -> None:
    """End the process, if it still runs, and what it started."""
    if side.running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(side.process.pid, signal.SIGKILL)
    side.process.wait()
    if side.process.stdin:
        side.process.stdin.close()
