"""How far a run is: reads the journals as they grow and shows them, live or as plain lines.

The display reads only what is on disk, so it shows what a crash would leave behind, and a worker
that stops writing is seen as a case whose time keeps growing. How it would fail silently: a
display that counts cases it never saw end; so the counts come from verdict lines alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from harness.judge.verdict import Status, Verdict
from harness.record.store import Run, read_event
from harness.record.summary import STYLES, likeness, statuses

PLAIN_EVERY = 10.0
"""Seconds between two plain lines."""

HEADLINES = 20
"""Failures told while a run goes on; the summary at its end has them all."""


@dataclass
class Watch:
    """The state of a run that is going on, read from its folder a bit at a time."""

    run: Run
    planned: int | None = None
    records: list[dict[str, Any]] = field(default_factory=list)
    current: dict[str, tuple[str, float]] = field(default_factory=dict)
    _offsets: dict[Path, int] = field(default_factory=dict)

    def poll(self) -> list[dict[str, Any]]:
        """Read what was added since the last call; the verdict records among it."""
        fresh: list[dict[str, Any]] = []
        for journal in self.run.journals():
            for event in self._added(journal):
                self._take(event, fresh)
        self.records.extend(fresh)
        return fresh

    def _take(self, event: Mapping[str, Any], fresh: list[dict[str, Any]]) -> None:
        worker = str(event["worker"])
        if event["event"] == "plan":
            self.planned = int(event["count"])
        elif event["event"] == "start":
            self.current[worker] = (str(event["case"]), time.monotonic())
        else:
            self.current.pop(worker, None)
            fresh.append(dict(event["record"]))

    def _added(self, journal: Path) -> list[dict[str, Any]]:
        """Whole lines past the last offset; a line still being written waits for the next call."""
        with open(journal, "rb") as stream:
            stream.seek(self._offsets.get(journal, 0))
            data = stream.read()
        whole = data.rfind(b"\n") + 1
        self._offsets[journal] = self._offsets.get(journal, 0) + whole
        return [event for event in map(read_event, data[:whole].splitlines()) if event is not None]

    def left(self, elapsed: float) -> float | None:
        """Seconds left at the rate so far; None before anything has ended."""
        if not self.records or self.planned is None:
            return None
        return max(0, self.planned - len(self.records)) * elapsed / len(self.records)


class Display:
    """Shows a `Watch` until closed: redrawn in place on a terminal, else one line now and then."""

    def __init__(self, console: Console, watch: Watch) -> None:
        self._console = console
        self._watch = watch
        self._began = time.monotonic()
        self._said = self._began
        self._failures: Counter[str] = Counter()
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._task = self._bar.add_task("collecting", total=None)
        self._live = Live(self._draw(), console=console, refresh_per_second=5, transient=True)
        self._moving = console.is_terminal and not console.is_dumb_terminal
        if self._moving:
            self._live.start()

    def update(self) -> None:
        """Read the run's folder and show it."""
        for record in self._watch.poll():
            self._announce(record)
        if self._moving:
            self._live.update(self._draw())
        elif time.monotonic() - self._said >= PLAIN_EVERY:
            self._said = time.monotonic()
            self._console.print(Text(self.line()), soft_wrap=True)

    def _announce(self, record: Mapping[str, Any]) -> None:
        """Print a failure's headline at once, unless its like was printed or many were."""
        if record["status"] in (Status.AGREE, Status.UNSUPPORTED):
            return
        told = likeness(record)
        self._failures[told] += 1
        if self._failures[told] > 1 or len(self._failures) > HEADLINES:
            return
        headline = Verdict.from_record(record).text().splitlines()[0]
        self._console.print(Text(headline, style=STYLES[record["status"]]), soft_wrap=True)

    def close(self) -> None:
        if self._moving:
            self._live.stop()

    def line(self) -> str:
        """The state in one plain line."""
        watch = self._watch
        total = "?" if watch.planned is None else str(watch.planned)
        now = ", ".join(case for case, _ in watch.current.values()) or "nothing"
        return f"{len(watch.records)} of {total} cases: {statuses(watch.records)}; {self._times()}; now {now}"

    def _draw(self) -> Group:
        watch = self._watch
        self._bar.update(
            self._task,
            total=watch.planned,
            completed=len(watch.records),
            description="collecting" if watch.planned is None else "cases",
        )
        lines = [Text(f"  {statuses(watch.records)}; {self._times()}", no_wrap=True, overflow="ellipsis")]
        for worker, (case, since) in sorted(watch.current.items()):
            text = f"  {worker:<5}{time.monotonic() - since:5.0f} s  {case}"
            lines.append(Text(text, style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(self._bar, *lines)

    def _times(self) -> str:
        elapsed = time.monotonic() - self._began
        left = self._watch.left(elapsed)
        return f"{clock(elapsed)} elapsed" + (f", about {clock(left)} left" if left is not None else "")


def clock(seconds: float) -> str:
    """``75`` as ``1:15``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
