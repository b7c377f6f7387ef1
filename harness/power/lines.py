"""One line of JSON for each mutant tried, on disk; several files of one sweep are one.

Contract: a line is on disk before its worker begins the next mutant; a torn last line counts for nothing; of
two lines about one mutant that which explains it counts, so that parts of a sweep made on several machines
are merged by laying their files into one folder. Lines belong to one program, whose digest is in the files'
names, so that a changed kernel never inherits somebody else's figures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from harness.record import store

PENDING = "not yet explained"
"""``why`` of a mutant that no case saw and that was not held against the enumeration yet."""
Record = dict[str, Any]


def read(directory: Path, stem: str) -> dict[str, Record]:
    """Records of all files of one sweep, by mutant."""
    found: dict[str, Record] = {}
    for file in sorted(directory.glob(f"{stem}*.jsonl")):
        for record in _records(file):
            before = found.get(record["mutant"])
            if before is None or before["why"] == PENDING:
                found[record["mutant"]] = record
    return found


def _records(file: Path) -> Iterator[Record]:
    for line in file.read_bytes().splitlines():
        try:
            record = json.loads(line)
            if {"mutant", "how", "why", "missed"} <= set(record):
                yield record
        except (ValueError, TypeError):
            continue


@contextmanager
def writer(file: Path) -> Iterator[Writer]:
    """Append records to ``file``."""
    store.check_directory("--dir", file.parent)
    with open(file, "ab") as stream:
        if stream.tell() and not _ends_line(file):
            stream.write(b"\n")
        yield Writer(stream)


class Writer:
    """Puts records on disk."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def put(self, records: Iterable[Record]) -> None:
        """Append; what is appended is on disk when this returns."""
        for record in records:
            self._stream.write(json.dumps(record).encode() + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())


def _ends_line(file: Path) -> bool:
    with open(file, "rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
