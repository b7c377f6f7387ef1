"""A repository made to order: each commit holds a tiny harness that says what its ``state`` has.

``state`` has lines ``CASE STATUS SECONDS``; the status may also be ``crash`` or ``hang``. Each evaluation
adds a line to the file named by ``ASKED_LOG``, so that a test can count them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import cli
from harness.bisect.subject import PACKAGES

CASE, OTHER = (f"decode-n1-h16-d128-ctx{length}-tshuffled-u0-l0-fbytes-s1" for length in (9, 10))
TINY = """
import json, os, pathlib, sys, time

words = sys.argv[1:]
if words[0] in ("diagnose", "reduce"):
    print("counting", "smallest  " + words[1] if words[0] == "reduce" else "fault X", sep="\\n")
    sys.exit(0)
lines = [line.split() for line in pathlib.Path("state").read_text().splitlines() if line[0] != "#"]
asked = lines if words[0] == "verify" else [line for line in lines if line[0] == words[1]]
with open(os.environ["ASKED_LOG"], "a") as log:
    log.write(" ".join(words[:2]) + "\\n")
if any(status == "hang" for _, status, _ in asked):
    time.sleep(60)
if any(status == "crash" for _, status, _ in asked):
    import no_such_module
records = [
    dict(case=case, suite="decode", path="flydsl", executor="emulated", status=status, grade="exact",
         reason="" if status == "agree" else "planted", layer="bits" if status == "differ" else "",
         where=dict(row=3) if status == "differ" else {}, got="0x1 one", want="0x2 two", ulps=None, count=1,
         total=9, pattern="", findings=[], notes=[], seconds=float(seconds), rerun="", heat=[], facts={})
    for case, status, seconds in asked
]
with open(words[words.index("--json") + 1], "w") as stream:
    json.dump(dict(provenance={}, complete=True, records=records), stream)
sys.exit(1)
"""


@dataclass
class History:
    """``folder``: the repository; its commits in order are in ``hashes``."""

    folder: Path
    hashes: list[str]

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
        line = ["git", *who, "-C", str(self.folder), *arguments]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, state: Mapping[str, str] | str, note: str = "") -> str:
        """Commit a state: case to status (and seconds), or one status of `CASE`."""
        states = {CASE: state} if isinstance(state, str) else state
        lines = [f"{case} {said}" + ("" if " " in said else " 1") for case, said in states.items()]
        number = len(self.hashes)
        (self.folder / "state").write_text("\n".join([f"#{number}", *lines]) + "\n", encoding="utf-8")
        if note:
            (self.folder / note).write_text(f"{number}\n", encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "-q", "-m", f"commit {number}")
        self.hashes.append(self.git("rev-parse", "HEAD"))
        return self.hashes[-1]

    @property
    def log(self) -> Path:
        return self.folder.parent / "asked.log"

    @property
    def asked(self) -> int:
        """Evaluations so far."""
        return len(self.log.read_text(encoding="utf-8").splitlines()) if self.log.exists() else 0

    def line(self, good: str, bad: str, *more: str, ask: Sequence[str] = ("--case", CASE)) -> list[str]:
        """The command line of a bisection whose answers are kept in ``kept`` beside the repository."""
        kept = str(self.folder.parent / "kept")
        return [
            "bisect",
            "--repo",
            str(self.folder),
            "--good",
            good,
            "--bad",
            bad,
            *ask,
            "--dir",
            kept,
            *more,
        ]

    def bisect(self, good: str, bad: str, *more: str, ask: Sequence[str] = ("--case", CASE)) -> int:
        return cli.main(self.line(good, bad, *more, ask=ask))


def new(folder: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """An empty history; its first commit will bring the tiny harness."""
    for package in PACKAGES:
        (folder / "tree" / package).mkdir(parents=True)
        (folder / "tree" / package / "__init__.py").touch()
    (folder / "tree" / "harness" / "__main__.py").write_text(TINY, encoding="utf-8")
    made = History(folder / "tree", [])
    monkeypatch.setenv("ASKED_LOG", str(made.log))
    made.git("init", "-q", "-b", "main")
    return made


def linear(made: History, states: Sequence[str]) -> History:
    """A commit for each of ``states``."""
    for state in states:
        made.commit(state)
    return made


def running(made: History, good: str, bad: str) -> subprocess.Popen[str]:
    """The same bisection as a process."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    line = [sys.executable, "-m", "harness", *made.line(good, bad)]
    return subprocess.Popen(
        line, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
