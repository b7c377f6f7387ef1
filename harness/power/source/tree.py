"""A copy of a source tree in which one file can be replaced.

The user's tree is never written to. Contract: the package that holds the file (the first folder of its path)
is copied; beside it are links. A link in the package would show the file at its old place: a finding of the
emulator then loses its folder, matches no entry of the ledger, and each case that meets it is red without any
fault. Processes started with the copy on their path see the replacement too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SKIPPED = (".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".power", "results")


class Copy:
    """``root`` again in ``target``; ``file`` (relative, in a folder) is the one that may be replaced."""

    def __init__(self, root: Path, target: Path, file: str) -> None:
        self._source, self._file = root / file, target / file
        target.mkdir(parents=True, exist_ok=True)
        package = Path(file).parts[0]
        for one in root.iterdir():
            if one.name not in (*SKIPPED, package):
                (target / one.name).symlink_to(one)
        shutil.copytree(root / package, target / package, ignore=shutil.ignore_patterns(*SKIPPED))

    def replace(self, text: str) -> None:
        """Put ``text`` in the file's place."""
        self._file.write_text(text, encoding="utf-8")

    def restore(self) -> None:
        """The file as it is in the tree."""
        shutil.copyfile(self._source, self._file)
