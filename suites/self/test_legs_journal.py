"""A line outlives this process when `add` returns and the machine when the block is left, or it is told."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.legs import journal

RECORD: dict[str, Any] = {
    **dict.fromkeys(journal.KEYS),
    "question": 1, "status": "answered", "strict_correct": True, "flexible_correct": True,
}  # fmt: skip


def test_no_question_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines can be read by others while the disk still syncs; leaving the block waits for the last one."""
    disk, synced = threading.Event(), []
    sync, where = os.fsync, journal.place(tmp_path, "a", 1)

    def slow(number: int) -> None:
        size = where.samples.stat().st_size
        disk.wait(20)
        sync(number)
        synced.append(size)

    monkeypatch.setattr(os, "fsync", slow)
    with journal.Writer(where) as writer:
        for question in range(3):
            writer.add({**RECORD, "question": question})
        assert [record["question"] for record in journal.read(where.samples)[0]] == [0, 1, 2]
        assert synced == []
        disk.set()
    assert synced[-1] == where.samples.stat().st_size


@pytest.mark.parametrize("more", [0, 1])
def test_a_disk_that_refuses_is_told(more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next line, or when the block is left: no sample counts as kept that is not on disk."""
    failed = threading.Event()

    def full(number: int) -> None:
        failed.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused = pytest.raises(OSError, match="No space left on device")
    with refused, journal.Writer(journal.place(tmp_path, "a", 1)) as writer:
        writer.add(RECORD)
        assert failed.wait(20)
        for _ in range(more * 1000):
            writer.add(RECORD)
        assert not more
