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


def test_of_a_question_asked_twice_the_last_answer_counts(tmp_path: Path) -> None:
    """A failed one that was asked again; its place is that of the first."""
    where = journal.place(tmp_path, "a", 1)
    with journal.Writer(where) as writer:
        for question, reply in ((1, "old"), (2, "only"), (1, "new")):
            writer.add({**RECORD, "question": question, "reply": reply})
    records, torn = journal.read(where.samples)
    assert ([(one["question"], one["reply"]) for one in records], torn) == ([(1, "new"), (2, "only")], 0)


def test_what_is_written_after_a_torn_line_does_not_join_it(tmp_path: Path) -> None:
    """A kill left the beginning of a line; the next answer is whole, and only the torn one is lost."""
    where = journal.place(tmp_path, "a", 1)
    with journal.Writer(where) as writer:
        writer.add(RECORD)
    whole = where.samples.read_bytes()
    where.samples.write_bytes(whole + whole[:40])
    for question in (2, 3):
        with journal.Writer(where) as writer:
            writer.add({**RECORD, "question": question})
    records, torn = journal.read(where.samples)
    assert ([one["question"] for one in records], torn) == ([1, 2, 3], 1)
    assert where.samples.read_bytes().count(b"\n") == 4


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


@pytest.mark.parametrize(
    "text",
    [
        "[]", "5", "[" * 100_000, '{"identity": 5}', '{"status": []}', '{"expected": "6"}', '{"crashes": 5}',
        '{"crashes": [1]}', '{"log_segments": [1]}',
    ],
)  # fmt: skip
def test_a_manifest_of_wrong_types_is_that_of_a_sample_nobody_finished(text: str, tmp_path: Path) -> None:
    """It is never read in part: a status of a file whose identity is damaged would be believed."""
    where = journal.place(tmp_path, "a", 1)
    where.folder.mkdir(parents=True)
    (where.folder / journal.MANIFEST).write_text(text, encoding="utf-8")
    assert where.manifest() == {"status": "running", "identity": {}}


@pytest.mark.parametrize("line", ["[" * 100_000, '"x"', "5", '{"question": 5}'])
def test_a_line_that_is_no_answer_is_passed_over(line: str, tmp_path: Path) -> None:
    """It is counted as torn, and the others are read; so is one whose question is no number."""
    where = journal.place(tmp_path, "a", 1)
    with journal.Writer(where) as writer:
        writer.add(RECORD)
        writer.add({**RECORD, "question": "x"})
    with open(where.samples, "a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    records, torn = journal.read(where.samples)
    assert ([record["question"] for record in records], torn) == ([1], 2)
