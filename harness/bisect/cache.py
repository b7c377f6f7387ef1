"""Answers on disk: one JSON line for each commit, what was asked of it, and the surroundings.

A line is on disk before the next evaluation begins, so that a search that was killed repeats nothing. How
this would fail silently: an answer of other surroundings (a harness that judges otherwise, another torch,
another aiter beneath ATOM); so a digest of all of them is part of the key.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.bisect.judging import Answer
from harness.bisect.repository import git
from harness.bisect.subject import HOME, PACKAGES, SELF, Subject
from harness.exits import CannotRun
from harness.paths import registry
from harness.record import provenance

DEPENDENCIES = ("torch", "flydsl", "triton", "numpy")


def surroundings(subject: Subject, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Everything besides the commit that a verdict may depend on.

    ``versions``: those of packages that are imported instead of the installed ones.
    """
    return {
        "python": platform.python_version(),
        **{name: provenance.version(name) for name in DEPENDENCIES},
        **(versions or {}),
        "gfx950": registry.has_gfx950(),
        "kind": subject.kind,
        "path": subject.path,
        "harness": None if subject.kind == SELF else _files(HOME),
        **{option: _state(tree) for option, tree in subject.others.given().items()},
    }


def digest(content: Any) -> str:
    """Twelve hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _files(home: Path) -> str:
    """Digest of the sources of a harness."""
    found = hashlib.sha256()
    for folder in PACKAGES:
        for file in sorted((home / folder).rglob("*")):
            if file.suffix in (".py", ".toml") and file.is_file():
                found.update(f"{file.relative_to(home)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def _state(tree: Path) -> str:
    """The commit of a tree with its changes; a tree without git gets its path alone."""
    try:
        parts = [
            git(tree, "rev-parse", "HEAD"),
            git(tree, "diff", "HEAD"),
            git(tree, "status", "--porcelain"),
        ]
    except CannotRun:
        parts = [str(tree)]
    return digest(parts)


@dataclass
class Cache:
    """The answers in ``file`` that were given in the surroundings with digest ``key``."""

    file: Path
    key: str
    _known: dict[tuple[str, str], tuple[Answer, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = self.file.read_bytes().splitlines() if self.file.is_file() else []
        for line in lines:
            try:
                found = json.loads(line)
                about = (found["commit"], found["asked"])
                answer = Answer(
                    *about, tuple(found["records"]), found["failure"], found["seconds"], kept=True
                )
                if found["environment"] == self.key:
                    self._known[about] = answer, int(found["limit"])
            except (ValueError, KeyError, TypeError):  # a line that a kill has torn
                continue

    def get(self, commit: str, asked: str, limit: int) -> Answer | None:
        """The answer on disk; none where it has no verdict and was given less time than ``limit``."""
        answer, given = self._known.get((commit, asked), (None, 0))
        return answer if answer and (answer.records or given >= limit) else None

    def put(self, answer: Answer, limit: int) -> None:
        """Append a line, in one write, and have it on disk."""
        content = {
            "commit": answer.commit,
            "asked": answer.asked,
            "environment": self.key,
            "limit": limit,
            "seconds": round(answer.seconds, 3),
            "failure": answer.failure,
            "records": list(answer.records),
        }
        with open(self.file, "ab") as stream:
            torn = b"\n" if stream.tell() and not self.file.read_bytes().endswith(b"\n") else b""
            stream.write(torn + json.dumps(content).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
