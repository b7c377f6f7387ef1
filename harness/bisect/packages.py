"""Versions of an installed package, each in a folder of its own that goes ahead of all others on the path.

Nothing of the environment in use is touched: ``pip install --no-deps --target`` into ``ROOT/NAME-VERSION``.
How this would fail silently: a version that does not install leaves the one in use to be asked in its name;
so a folder counts only when a process that has it ahead says that it imports this version from there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from harness.bisect.repository import Repository
from harness.exits import CannotRun, InputError

SECONDS = 1200
"""What an installation may take."""
PINS = ("requirements.txt",)
"""Files of a tree that say which version of a package it wants."""
ASK = """
import importlib, importlib.metadata, sys
module = importlib.import_module(sys.argv[1])
print(importlib.metadata.version(sys.argv[1]), module.__file__)
"""


def environment(ahead: Path, given: Mapping[str, str]) -> dict[str, str]:
    """``given`` with ``ahead`` in front of ``PYTHONPATH``."""
    path = [str(ahead), *([given["PYTHONPATH"]] if given.get("PYTHONPATH") else [])]
    return {**given, "PYTHONPATH": os.pathsep.join(path)}


@dataclass(frozen=True)
class Package:
    """Package ``name`` (that it is imported by, too); versions are kept in ``root``."""

    name: str
    root: Path

    def versions(self) -> list[str]:
        """All versions that the index has for this Python, oldest first. Raises `CannotRun`."""
        said = self._pip("index", "versions", self.name)
        found = re.search(r"^Available versions: (.+)$", said.stdout, re.MULTILINE)
        if said.returncode or found is None:
            raise CannotRun(f"--package {self.name}: the index tells no versions: {_last(said)}")
        return sorted((one.strip() for one in found[1].split(",")), key=Version)

    def between(self, good: str, bad: str) -> list[str]:
        """Versions from ``good`` to ``bad``, both included, oldest first.

        Raises `InputError`, or `CannotRun` where the index tells nothing.
        """
        ends = {"--good": good, "--bad": bad}
        for option, text in ends.items():
            try:
                Version(text)
            except InvalidVersion:
                raise InputError(f"{option} is {text!r}, allowed is a version of {self.name}") from None
        known = self.versions()
        for option, text in ends.items():
            if not any(Version(one) == Version(text) for one in known):
                raise InputError(f"{option} is {text}, allowed are {', '.join(known)}")
        if Version(good) >= Version(bad):
            raise InputError(f"--good {good} is not older than --bad {bad}, allowed is an older one")
        return [one for one in known if Version(good) <= Version(one) <= Version(bad)]

    def folder(self, version: str) -> Path:
        return self.root / f"{self.name}-{version}"

    def lacks(self, version: str) -> str:
        """Install ``version`` unless it is there; why it cannot be asked, or "" where it can."""
        kept = self.folder(version)
        if not kept.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix="install-", dir=self.root))
            try:
                where = ["--quiet", "--no-deps", "--target", str(fresh)]
                said = self._pip("install", *where, self._exact(version))
                if said.returncode:
                    return f"{self._exact(version)} cannot be installed: {_last(said)}"
                fresh.rename(kept)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return self._not_imported(version)

    def _not_imported(self, version: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", ASK, self.name],
            env=environment(self.folder(version), dict(os.environ)),
            cwd=self.root,
            capture_output=True,
            text=True,
        )
        words = done.stdout.split()
        if done.returncode or len(words) != 2:
            return f"{self._exact(version)} does not import: {_last(done)}"
        if Version(words[0]) != Version(version) or not Path(words[1]).is_relative_to(
            self.folder(version).resolve()
        ):
            return f"{self._exact(version)} was installed, but {self.name} {words[0]} is imported"
        return ""

    def pinned(self, repository: Repository, commit: str) -> str | None:
        """The version that the tree of ``commit`` asks for, exactly; None where it names none."""
        for file in PINS:
            text = repository.text(commit, file) if repository.has(commit, file) else ""
            found = re.search(rf"^\s*{re.escape(self.name)}\s*==\s*([\w.]+)", text, re.MULTILINE)
            if found:
                return found[1]
        return None

    def _exact(self, version: str) -> str:
        return f"{self.name}=={version}"

    def _pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
        try:
            return subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(line, 1, "", f"pip took longer than {SECONDS} s")


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that was said, errors first."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "pip took"))]
    return (errors or lines or ["nothing was said"])[-1].removeprefix("ERROR: ")
