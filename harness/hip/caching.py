"""Compiled IR kept by the hash of everything it was made from, outside the repository.

Contract: the same content gives the same file, and another byte of source, header, shim, flag or compiler
version another one. A file appears whole or not at all, so that workers may compile one kernel at the same
time. What would fail silently is a key that leaves something out: then an old kernel is executed for a new
source.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def folder() -> Path:
    """Where compiled IR is kept: below ``$XDG_CACHE_HOME``, by default ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fp4-indexer-harness" / "hip"


def key(texts: Iterable[str], folders: Iterable[Path]) -> str:
    """Hash of ``texts`` and of the names and contents of all files below ``folders``."""
    digest = hashlib.sha256()
    for text in texts:
        _add(digest, text.encode())
    for base in folders:
        for path in sorted(path for path in base.rglob("*") if path.is_file()):
            _add(digest, path.relative_to(base).as_posix().encode())
            _add(digest, path.read_bytes())
    return digest.hexdigest()


def _add(digest: hashlib._Hash, content: bytes) -> None:
    digest.update(len(content).to_bytes(8, "little"))
    digest.update(content)


def load(name: str) -> str | None:
    """The IR kept under ``name``, or nothing."""
    path = folder() / f"{name}.ll"
    return path.read_text() if path.is_file() else None


def store(name: str, ir: str) -> None:
    """Keeps ``ir`` under ``name``. A folder that cannot be written only costs the next run a compilation."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder(), suffix=".part", delete=False) as part:
            part.write(ir)
        Path(part.name).replace(folder() / f"{name}.ll")
    except OSError:
        return
