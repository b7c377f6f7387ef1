"""What ran, on what: versions, commits, dirty flags, machine, and the arguments in effect.

A record without this cannot be compared with a later one. How it would fail silently: an
installed copy that lies inside some other git work tree would be given that tree's commit, so a
commit counts only when git tracks the file it is asked about; everything else is ``unknown``.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.judge.verdict import faulty

if TYPE_CHECKING:
    from harness.paths.registry import Choice

PROJECT = "fp4-indexer-harness"
UNKNOWN = "unknown"


def collect(
    paths: Sequence[Choice], arguments: Mapping[str, Any], *, faults: Sequence[str] = ()
) -> dict[str, Any]:
    """Everything known before a run starts, for a run on ``paths`` with ``faults`` planted on purpose."""
    trees: dict[str, Path] = {}
    for choice in paths:
        trees |= choice.trees.given()
    return {
        "project": {"version": version(PROJECT), **commit_of(Path(__file__))},
        "aiter": _aiter(trees.get("aiter")),
        "atom": _tree(trees["atom"]) if "atom" in trees else {"version": UNKNOWN},
        "flydsl": {"version": version("flydsl"), **_package_commit("flydsl")},
        "triton": {"version": version("triton"), **_package_commit("triton")},
        "torch": {"version": version("torch"), **_torch_commit()},
        "python": platform.python_version(),
        "machine": machine(),
        "path": ", ".join(faulty(choice.name, faults) for choice in paths),
        **({"faults": list(faults)} if faults else {}),
        "arguments": dict(arguments),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def version(distribution: str) -> str:
    """Version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def commit_of(file: Path) -> dict[str, Any]:
    """Commit and dirty flag of the git work tree that tracks ``file`` (or, for a folder, is rooted there)."""
    folder = file if file.is_dir() else file.parent
    tracked = _git(folder, "ls-files", "--error-unmatch", "." if file.is_dir() else file.name)
    commit = _git(folder, "rev-parse", "HEAD") if tracked is not None else None
    if commit is None:
        return {"commit": UNKNOWN, "dirty": UNKNOWN}
    status = _git(folder, "status", "--porcelain")
    return {"commit": commit, "dirty": UNKNOWN if status is None else bool(status)}


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, and platform."""
    return {"cpu": _cpu_model(), "cores": cores(), "platform": platform.platform()}


def cores() -> int:
    """Cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _aiter(tree: Path | None) -> dict[str, Any]:
    if tree is not None:
        return _tree(tree)
    found = next((name for name in ("amd-aiter", "aiter") if version(name) != UNKNOWN), None)
    return {"version": version(found) if found else UNKNOWN, **_package_commit("aiter")}


def _tree(tree: Path) -> dict[str, Any]:
    return {"version": UNKNOWN, "tree": str(tree), **commit_of(tree)}


def _package_commit(module: str) -> dict[str, Any]:
    spec = util.find_spec(module)
    if spec is None or not spec.origin:
        return {"commit": UNKNOWN, "dirty": UNKNOWN}
    return commit_of(Path(spec.origin))


def torch_setting(name: str) -> str | None:
    """A text of torch's version file, such as ``git_version`` or ``hip``; None when it is not set.

    Read from the file, because importing torch for it would cost a second, and because ``hip`` must
    be known before triton is imported.
    """
    spec = util.find_spec("torch")
    try:
        text = (Path(str(spec.origin)).parent / "version.py").read_text(encoding="utf-8") if spec else ""
    except OSError:
        return None
    match = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return match[1] if match else None


def _torch_commit() -> dict[str, Any]:
    return {"commit": torch_setting("git_version") or UNKNOWN, "dirty": UNKNOWN}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine() or UNKNOWN)


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command, or None when git or the repository is absent."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
