"""How far a campaign is: a bar for each leg on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections import defaultdict
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from harness.command.legs_left import Left
from harness.command.progress import PLAIN_EVERY, clock
from harness.legs.drive import Display


class Bars(Display):
    """Shows what `harness.legs.drive.run` tells; time left is that of the sample."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._moving = console.is_terminal and not console.is_dumb_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=not self._moving,
        )
        self._task: dict[str, TaskID] = {}
        self._said = time.monotonic()
        self._begin("", 0, 0, [], 1)

    def _begin(self, leg: str, number: int, expected: int, kept: list[dict[str, Any]], at_once: int) -> None:
        self._leg, self._number, self._expected = leg, number, expected
        self._done = {int(one["question"]): one for one in kept}
        self._left = Left(expected, len(self._done), at_once)

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def sample(self, leg: str, number: int, expected: int, kept: list[dict[str, Any]], at_once: int) -> None:
        self._begin(leg, number, expected, kept, at_once)
        about = f"{leg} sample {number}"
        if leg not in self._task:
            self._task[leg] = self._bars.add_task(about, total=expected, told="")
        self._bars.reset(self._task[leg], description=about, total=expected, completed=len(kept), told="")
        more = f", {len(kept)} kept" if kept else ""
        self.say(f"{about}: {expected} questions{more}")

    def record(self, record: dict[str, Any]) -> None:
        self._done[int(record["question"])] = record
        self._left.reply(float(record["latency"] or 0.0) * (1 + int(record["retries"] or 0)))
        told = self.told()
        if self._moving:
            self._bars.update(self._task[self._leg], completed=len(self._done), told=told)
        elif time.monotonic() - self._said >= PLAIN_EVERY or len(self._done) == self._expected:
            counts = f"{len(self._done)}/{self._expected}"
            self.say(f"{self._leg} sample {self._number}: {counts}, {told}")

    def told(self) -> str:
        """Accuracy so far under both filters, failures, time left."""
        words = accuracy(list(self._done.values()))
        failed = sum(one["status"] == "failed" for one in self._done.values())
        seconds = self._left.seconds()
        if seconds is not None:
            words += f", about {clock(seconds)} left"
        return words + (f", {failed} failed" if failed else "")

    def say(self, sentence: str) -> None:
        self._said = time.monotonic()
        self._bars.console.print(Text(sentence), soft_wrap=True)


def accuracy(records: list[dict[str, Any]]) -> str:
    """``strict 0.968, flexible 0.970`` over what was answered; undefined where nothing was."""
    judged = [one for one in records if one["status"] != "failed"]
    if not judged:
        return "strict undefined, flexible undefined"
    right = {which: sum(one[f"{which}_correct"] for one in judged) for which in ("strict", "flexible")}
    return ", ".join(f"{which} {count / len(judged):.4f}" for which, count in right.items())


def counted(records: list[dict[str, Any]]) -> dict[str, int]:
    """Number of records by status."""
    found: dict[str, int] = defaultdict(int)
    for record in records:
        found[str(record["status"])] += 1
    return dict(found)
