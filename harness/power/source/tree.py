"""A copy of a source tree in which one file can be replaced: links to everything else.

The user's tree is never written to. Contract: folders on the way to the file are real and hold links, the
file is real while it is replaced and a link before and after, so that processes started with the copy on
their path see the replacement too.
"""

from __future__ import annotations

from pathlib import Path

SKIPPED = {".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".power", "results"}


class Copy:
    """Links in ``target`` to ``root``; ``file`` (relative) is the one that may be replaced."""

    def __init__(self, root: Path, target: Path, file: str) -> None:
        self._source, self._file = root / file, target / file
        target.mkdir(parents=True, exist_ok=True)
        there, here, parts = root, target, Path(file).parts
        for depth, part in enumerate(parts):
            for one in there.iterdir():
                if one.name not in SKIPPED and one.name != part:
                    (here / one.name).symlink_to(one)
            there, here = there / part, here / part
            if depth + 1 < len(parts):
                here.mkdir()
        self.restore()

    def replace(self, text: str) -> None:
        """Put ``text`` in the file's place."""
        self._file.unlink()
        self._file.write_text(text, encoding="utf-8")

    def restore(self) -> None:
        """The file as it is in the tree."""
        self._file.unlink(missing_ok=True)
        self._file.symlink_to(self._source)
