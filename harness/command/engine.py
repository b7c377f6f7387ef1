"""Runs pytest on the comparison suites in a process of its own, and watches it.

A kernel that takes its process down must not take the summary with it, so the engine is a child
process with at least one worker of its own, and all it tells is what it wrote to disk. How this
would fail silently: a child that dies early looks like a short run, so its exit code is part of
what `run` returns and only 0 and 1 (pytest: all passed, some failed) count as a whole run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.command.progress import Display
from harness.record.store import Run

GRACE = 5.0
"""Seconds the engine gets to end by itself after an interrupt."""

WHOLE_RUN = (0, 1)


@dataclass(frozen=True)
class Ended:
    """How the engine ended. ``whole``: it got to its end by itself."""

    exit_code: int
    interrupted: bool = False

    @property
    def whole(self) -> bool:
        return not self.interrupted and self.exit_code in WHOLE_RUN


def suites_folder() -> Path:
    """Where the comparison suites lie: in the clone, or in the installed package."""
    import suites

    return Path(suites.__path__[0]).resolve()


def command(run: Run, workers: int, options: Sequence[str], *, junit: Path | None) -> list[str]:
    """The pytest command line. The configuration files around it are shut out: the same run everywhere."""
    folder = suites_folder()
    line = [
        sys.executable,
        "-m",
        "pytest",
        str(folder / "indexer"),
        "-c",
        os.devnull,
        "--rootdir",
        str(folder.parent),
    ]
    line += ["-p", "no:cacheprovider", "--strict-markers", "-q", "--tb=short", "--color=no"]
    line += ["-n", str(workers), "--maxschedchunk", "1", "--run-folder", str(run.folder.resolve()), *options]
    return line + ([f"--junitxml={junit.resolve()}"] if junit else [])


def run(line: Sequence[str], log: Path, display: Display, *, threads: int) -> Ended:
    """Start the engine and keep ``display`` fed until it ends or is interrupted."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with open(log, "wb") as stream:
            child = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment,
                start_new_session=True,
            )
            return _watch(child, display)
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(child: subprocess.Popen[bytes], display: Display) -> Ended:
    try:
        while child.poll() is None:
            display.update()
            time.sleep(0.2)
    except KeyboardInterrupt:
        _stop(child)
        return Ended(child.returncode, interrupted=True)
    finally:
        display.update()
        display.close()
        if child.poll() is None:
            _stop(child)
    return Ended(child.returncode)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask the engine to end, then end it and its workers. What had ended is on disk already."""
    child.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        child.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
