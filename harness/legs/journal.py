"""Answers of accuracy legs on disk: one line a finished question, whole or not at all.

Contract: ``DIR/<leg>/<sample>/`` holds ``manifest.json`` (identity, status, times) and ``samples.jsonl``.
A line is handed to the system before the next question takes its place, so a kill loses at most the question
in flight; a torn last line is skipped when read and never counts as an answer. The failure to fear is
a line with keys missing that reads as an answer, so every key is always written and checked.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pandas as pd

from harness.exits import InputError
from harness.legs import names
from harness.legs.shown import short
from harness.record.store import write_atomically

STATUSES = ("answered", "empty", "truncated", "stopped", "failed")
"""answered: a whole reply. empty: a reply without text. truncated: cut at the token limit. stopped: ended
before any answer, on a stop string or without a finish reason. failed: no reply was had, which is
not a wrong answer."""

KEYS = (
    "question", "prompt_hash", "prompt_chars", "reply", "strict", "flexible", "strict_correct",
    "flexible_correct", "target", "status", "finish_reason", "prompt_tokens", "completion_tokens", "latency",
    "retries", "http_status", "error", "time", "attempt",
)  # fmt: skip
"""Keys of a line, all always there; null where nobody knows."""

FIELDS: Mapping[str, type] = {
    "status": str, "identity": dict, "expected": int, "attempts": int, "crashes": list, "log_segments": list,
    "harness": list, "patterns": dict, "started": str, "finished": str,
}  # fmt: skip
"""Fields of a manifest by what they hold; those of `OPTIONAL` may be null."""

OPTIONAL = ("expected", "started", "finished")
COLUMNS = ("leg", "sample", *KEYS)
MANIFEST, SAMPLES = "manifest.json", "samples.jsonl"


@dataclass(frozen=True)
class Place:
    """One sample of one leg: its folder."""

    folder: Path
    leg: str
    sample: int

    @property
    def samples(self) -> Path:
        return self.folder / SAMPLES

    def manifest(self) -> dict[str, Any]:
        """The manifest; an unreadable one is that of a sample nobody finished."""
        try:
            found = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            found = None
        return {"status": "running", "identity": {}, **(found if _is_manifest(found) else {})}

    def update(self, **changes: Any) -> None:
        """Change fields of the manifest, atomically."""
        manifest = {**self.manifest(), **changes}
        write_atomically(self.folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def place(directory: Path, leg: str, sample: int) -> Place:
    """Where sample ``sample`` of ``leg`` lies in ``directory``. Raises `InputError` on a bad name."""
    if not names.allowed(leg):
        raise InputError(f"leg is {short(leg)}, allowed is {names.ALLOWED}")
    if (directory / leg).exists() and not (directory / leg).is_dir():
        raise InputError(f"leg is {leg!r}, allowed is a name that no file in {directory} has")
    folder = directory / leg / str(sample)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, allowed is the folder of a sample")
    return Place(folder, leg, sample)


def places(directory: Path) -> list[Place]:
    """Every sample in ``directory``, by leg as its first sample started, then by number."""
    found = [
        Place(folder, folder.parent.name, int(folder.name))
        for folder in directory.glob("*/*")
        if folder.name.isdecimal() and folder.is_dir() and (folder / MANIFEST).is_file()
    ]
    first: dict[str, str] = {}
    for one in found:
        started = str(one.manifest().get("started") or "")
        first[one.leg] = min(first.get(one.leg, started), started)
    return sorted(found, key=lambda one: (first[one.leg], one.leg, one.sample))


class Writer:
    """Appends lines to a sample. A line outlives a kill of this process once `add` returns.

    It outlives the machine a moment later: syncing the disk takes milliseconds, which a thread waits for
    instead of the next question. Leaving the block waits for all of it.
    """

    def __init__(self, where: Place) -> None:
        where.folder.mkdir(parents=True, exist_ok=True)
        self._stream: IO[bytes] = open(where.samples, "ab")  # noqa: SIM115
        if where.samples.stat().st_size and not _ends_line(where.samples):
            self._stream.write(b"\n")  # a kill tore the last line: what follows must not join it
        self._due, self._closing = threading.Event(), False
        self._wrong: OSError | None = None
        self._thread = threading.Thread(target=self._sync, daemon=True)
        self._thread.start()

    def add(self, record: Mapping[str, Any]) -> None:
        """Append one line. Raises ValueError for keys or a status outside the closed lists.

        Raises OSError where the disk refuses this line, or refused an earlier one.
        """
        checked(record)
        if self._wrong is not None:
            raise self._wrong
        line = json.dumps({key: record[key] for key in KEYS}, ensure_ascii=False)
        self._stream.write(line.encode("utf-8") + b"\n")
        self._stream.flush()
        self._due.set()

    def _sync(self) -> None:
        last = False
        while not last:
            self._due.wait()
            self._due.clear()
            last = self._closing  # read before the sync, which then has every line
            try:
                os.fsync(self._stream.fileno())
            except OSError as error:
                self._wrong = error

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._due.set()
        self._thread.join()
        self._stream.close()
        if self._wrong is not None and error is None:
            raise self._wrong


def checked(record: Mapping[str, Any]) -> None:
    """Raises ValueError unless ``record`` has exactly `KEYS` and a known status."""
    wrong = set(record) ^ set(KEYS)
    if wrong:
        raise ValueError(f"sample record has or lacks {', '.join(sorted(wrong))}")
    if record["status"] not in STATUSES:
        raise ValueError(f"status is {record['status']!r}, allowed are {', '.join(STATUSES)}")
    judged = record["strict_correct"] is not None and record["flexible_correct"] is not None
    if judged == (record["status"] == "failed"):
        raise ValueError(f"question {record['question']} is {record['status']} and judged {judged}")


def read(file: Path) -> tuple[list[dict[str, Any]], int]:
    """(records, torn lines) of a sample; of a question asked twice the last answer counts."""
    records: dict[int, dict[str, Any]] = {}
    torn = 0
    for line in _lines(file):
        try:
            record = json.loads(line)
            checked(record)
            question = int(record["question"])
        except (ValueError, TypeError, RecursionError):
            torn += 1
            continue
        records[question] = record
    return list(records.values()), torn


def table(directory: Path) -> pd.DataFrame:
    """All answers in ``directory``: columns `COLUMNS`, a row a question. Empty where there is none."""
    rows = [
        {"leg": where.leg, "sample": where.sample, **record}
        for where in places(directory)
        for record in read(where.samples)[0]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _is_manifest(found: Any) -> bool:
    """Whether what is read by name has the type that it is written with."""
    if not isinstance(found, dict):
        return False
    known = all(
        isinstance(found[name], kind) or (found[name] is None and name in OPTIONAL)
        for name, kind in FIELDS.items()
        if name in found
    )
    return known and all(
        isinstance(one, dict) for name in ("crashes", "log_segments") for one in found.get(name) or ()
    )


def _lines(file: Path) -> Iterator[bytes]:
    if file.is_file():
        with open(file, "rb") as stream:
            yield from (line for line in stream if line.strip())


def _ends_line(file: Path) -> bool:
    with open(file, "rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"
