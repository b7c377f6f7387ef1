"""``harness bench legs``: wall time of ``harness legs run`` as a ratio to lm-eval's own command line.

Whole processes, start to exit, ask one server of fixed latency the same prompts with the same concurrency,
one prompt a request; the two take turns, since absolute times of shared machines say little. The failure to
fear is a ratio of unlike work: a run that asked another number of questions than it should ends the bench.
lm-eval takes long to start (it indexes all its tasks), which would hide what a question costs; so the limit
holds for the whole run and for the time from the first request to the last reply, each by itself. CPU seconds
(of the process and all it started, not of the server) stand beside: wall time hides work behind the latency
of a server, and a faster server would show it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import exits
from harness.command.arguments import named_path
from harness.command.bench_commands import OURS, PLAIN, Setting, prepare
from harness.command.bench_server import Adding, serving
from harness.exits import CannotRun, InputError
from harness.record import document

if TYPE_CHECKING:
    from rich.table import Table

LIMIT = 1.05
"""What ``harness legs run`` may cost, as a ratio to lm-eval's own command line."""

ARGUMENTS: Mapping[str, tuple[float, float, str]] = {
    "questions": (1, 10_000, "questions"),
    "latency": (0, 60, "seconds a reply takes"),
    "concurrency": (1, 256, "requests at a time"),
    "repeats": (1, 100, "runs of each"),
    "probe": (0, 100, "prompts of the determinism probe, which lm-eval does not ask"),
}
"""Fields of `Setting`: least, most, what it is."""


@dataclass(frozen=True)
class Run:
    """Seconds of one process: until its first request, until the last reply, until its end; ``cpu``: of all
    processors, the processes included that it started and waited for."""

    start: float
    asking: float
    after: float
    cpu: float = 0.0

    @property
    def whole(self) -> float:
        return self.start + self.asking + self.after


PARTS = ("whole", "start", "asking", "after", "cpu")
LIMITED = ("whole", "asking")
"""Parts that the limit holds for: all of it, and what grows with the number of questions."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``harness bench legs``."""
    for name, (least, most, about) in ARGUMENTS.items():
        default = getattr(Setting, name)
        said = f"{about}, {least} to {most} (default {default})"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=said)
    parser.add_argument(
        "--json", type=named_path, metavar="F", default=argparse.SUPPRESS, help="write figures to F"
    )


def check(arguments: argparse.Namespace) -> Setting:
    """Raises `InputError` naming the argument that is out of range."""
    found = {name: getattr(arguments, name) for name in ARGUMENTS}
    for name, (least, most, _) in ARGUMENTS.items():
        if not least <= found[name] <= most:
            raise InputError(f"--{name} is {found[name]}, allowed are {least} to {most}")
    document.check_output("--json", arguments.json)
    return Setting(**found)


def main(arguments: argparse.Namespace) -> int:
    """Print the table, write the JSON; exit code 1 when a ratio is above `LIMIT`."""
    from rich.console import Console

    setting = check(arguments)
    figures = figured(setting, measure(setting))
    console = Console()
    console.print(shown(setting, figures))
    word = "within" if figures["within"] else "above"
    console.print(f"{word} the limit of {LIMIT} ({' and '.join(LIMITED)})")
    if arguments.json is not None:
        document.write_text(arguments.json, json.dumps(figures, indent=1) + "\n")
    return exits.AGREE if figures["within"] else exits.DIFFER


def shown(setting: Setting, figures: Mapping[str, Any]) -> Table:
    """Medians in seconds by part of a run, least and most of the whole, and their ratios."""
    from rich.table import Table

    probe = f", probe of {setting.probe} prompts" if setting.probe else ""
    title = (
        f"{setting.questions} questions, {setting.latency:g} s a reply, {setting.concurrency} at a time, "
        f"{setting.repeats} runs each{probe}; medians in seconds"
    )
    heads = ["CPU" if part == "cpu" else part for part in PARTS]
    table = Table("command", *heads, "least to most", title=title)
    for name in (PLAIN, OURS):
        cells = [f"{figures['seconds'][name][part]:.2f}" for part in PARTS]
        whole = [run["start"] + run["asking"] + run["after"] for run in figures["runs"][name]]
        table.add_row(name, *cells, f"{min(whole):.2f} to {max(whole):.2f}")
    ratios = [figures["ratios"][part] for part in PARTS]
    table.add_row("ratio", *("undefined" if one is None else f"{one:.3f}" for one in ratios))
    return table


def figured(setting: Setting, runs: Mapping[str, list[Run]]) -> dict[str, Any]:
    """All figures; ratios are those of the medians."""
    seconds = {
        name: {part: statistics.median(getattr(run, part) for run in found) for part in PARTS}
        for name, found in runs.items()
    }
    ratios = {
        part: seconds[OURS][part] / seconds[PLAIN][part] if seconds[PLAIN][part] else None for part in PARTS
    }
    return {
        "setting": asdict(setting),
        "runs": {name: [asdict(run) for run in found] for name, found in runs.items()},
        "seconds": seconds,
        "ratios": ratios,
        "limit": LIMIT,
        "within": all((ratios[part] or 0.0) <= LIMIT for part in LIMITED),
    }


def measure(setting: Setting) -> dict[str, list[Run]]:
    """Both commands in turn, turned round each time; the first run of each, which fills caches, not counted.

    Raises `CannotRun` for a run that fails or asks another number of questions.
    """
    with tempfile.TemporaryDirectory() as name, serving(setting.latency) as server:
        commands = prepare(setting, Path(name), server.url)
        runs: dict[str, list[Run]] = {one: [] for one in commands}
        for number in range(setting.repeats + 1):
            for one in list(commands) if number % 2 else reversed(commands):
                found = timed(commands[one], Path(name), number, server)
                if server.count != setting.requests(one):
                    raise CannotRun(f"{one} sent {server.count} requests, not {setting.requests(one)}")
                if number:
                    runs[one].append(found)
    return runs


def timed(command: list[str], folder: Path, number: int, server: Adding) -> Run:
    """A process from its start to its end. Raises `CannotRun` when it fails."""
    words = [word.format(number=number) for word in command]
    offline = {"HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    server.begin()
    before = _used()
    began = time.perf_counter()
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **offline}, stdin=subprocess.DEVNULL, capture_output=True
    )
    ended = time.perf_counter()
    if done.returncode:
        said = (done.stderr + done.stdout).decode("utf-8", "replace").strip().splitlines()
        last = said[-1] if said else "nothing"
        raise CannotRun(f"{' '.join(words[1:4])} ended with exit code {done.returncode} and said: {last}")
    return Run(server.first - began, server.last - server.first, ended - server.last, _used() - before)


def _used() -> float:
    """CPU seconds, in user and system, of all children that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
