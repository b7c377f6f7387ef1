"""The results store: one folder per run, append-only, readable after any crash.

    DIR/runs/<run id>/manifest.json       what was asked, on what; rewritten whole (temp + replace)
    DIR/runs/<run id>/journal-<worker>.jsonl   one line per event, verdicts flushed to disk as they end
    DIR/runs/<run id>/verdicts.parquet    all verdicts, once the run has ended

A verdict exists once its journal line is on disk: a kill loses at most the case in flight. How
this would fail silently: a reader that drops a torn line without a word would show a shorter run
as a whole one, so readers return what they had to skip, and a run is complete only when its
manifest says so.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from harness.exits import InputError
from harness.record import parquet

DEFAULT_DIRECTORY = "results"


def now() -> str:
    """UTC time in ISO form, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_atomically(path: Path, data: str) -> None:
    """Write ``data`` (UTF-8) so that a reader sees the old file or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_directory(field: str, directory: Path) -> None:
    """Raise `InputError` naming ``field`` unless files can be made in ``directory`` (created when absent)."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{field} {directory} is not a directory that can be written to: {reason}") from None


@dataclass(frozen=True)
class Run:
    """One run's folder."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def log(self) -> Path:
        """What the test engine printed."""
        return self.folder / "pytest.log"

    @property
    def parquet(self) -> Path:
        return self.folder / "verdicts.parquet"

    def manifest(self) -> dict[str, Any]:
        """The manifest; an unreadable one reads as an incomplete run with no provenance."""
        try:
            found = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"id": self.id, "complete": False, "provenance": {}}
        return dict(found)

    def update_manifest(self, **changes: Any) -> None:
        manifest = {**self.manifest(), **changes}
        write_atomically(self.folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")

    def journals(self) -> list[Path]:
        return sorted(self.folder.glob("journal-*.jsonl"))


class Journal:
    """Events of one worker, appended; a verdict's line is on disk when `verdict` returns."""

    def __init__(self, run: Run, worker: str) -> None:
        self._worker = worker
        self._stream: IO[str] = open(run.folder / f"journal-{worker}.jsonl", "a", encoding="utf-8")  # noqa: SIM115

    def plan(self, count: int) -> None:
        """Say how many cases were collected."""
        self._append({"event": "plan", "count": count})

    def start(self, case: str, path: str) -> None:
        self._append({"event": "start", "case": case, "path": path})

    def verdict(self, record: Mapping[str, Any]) -> None:
        self._append({"event": "verdict", "record": dict(record)})
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()

    def _append(self, event: dict[str, Any]) -> None:
        line = {**event, "time": now(), "worker": self._worker}
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()


@dataclass(frozen=True)
class Loaded:
    """What a run's files say: verdict records in the order they ended, cases that never ended, torn lines."""

    records: tuple[dict[str, Any], ...]
    unfinished: tuple[str, ...] = ()
    torn: int = 0
    planned: int | None = None


def new_id() -> str:
    """An id for a run: UTC time, so that ids sort by age, and four random digits."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def create(directory: Path, provenance: Mapping[str, Any], *, run_id: str | None = None) -> Run:
    """Make a new run's folder. Raises `InputError` when ``directory`` cannot be written to."""
    check_directory("--results", directory)
    name = run_id or new_id()
    folder = directory / "runs" / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"run {name} exists already in {directory}") from None
    except OSError as error:
        raise InputError(
            f"--results {directory} cannot be written to: {str(error.strerror).lower()}"
        ) from None
    run = Run(folder)
    run.update_manifest(id=name, complete=False, started=now(), finished=None, provenance=dict(provenance))
    return run


def runs(directory: Path) -> list[Run]:
    """All runs in ``directory``, oldest first."""
    folder = directory / "runs"
    return [Run(entry) for entry in sorted(folder.iterdir()) if entry.is_dir()] if folder.is_dir() else []


def find(directory: Path, name: str) -> Run:
    """The one run whose id starts with ``name`` (``last``: the newest). Raises `InputError`."""
    known = runs(directory)
    matching = known[-1:] if name == "last" else [run for run in known if run.id.startswith(name)]
    if len(matching) != 1:
        said = "no run" if not matching else f"{len(matching)} runs"
        raise InputError(f"RUN {name!r} matches {said} in {directory}; 'harness report' lists them")
    return matching[0]


EVENTS = {"plan": "count", "start": "case", "verdict": "record"}
"""Kind of event to the field that it must have."""


def read_event(line: str | bytes) -> dict[str, Any] | None:
    """The event of one journal line; None when the line is torn."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(event, dict) and EVENTS.get(event.get("event", "")) in event and "worker" in event
    return event if whole else None


def events(path: Path) -> Iterator[dict[str, Any] | None]:
    """Events of one journal; None for a line that is torn."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        yield from map(read_event, stream)


def load(run: Run) -> Loaded:
    """Everything known of a run, from its journals where they exist, else from its Parquet file."""
    if not run.journals():
        return Loaded(tuple(parquet.read(run.parquet)) if run.parquet.exists() else ())
    records: list[tuple[str, dict[str, Any]]] = []
    started: dict[tuple[str, str], None] = {}
    torn, planned = 0, None
    for journal in run.journals():
        for event in events(journal):
            if event is None:
                torn += 1
            elif event["event"] == "plan":
                planned = max(planned or 0, int(event["count"]))
            elif event["event"] == "start":
                started[str(event["case"]), str(event.get("path"))] = None
            else:
                records.append((str(event["time"]), dict(event["record"])))
    records.sort(key=lambda pair: pair[0])
    ended = {(str(record["case"]), str(record["path"])) for _, record in records}
    unfinished = tuple(f"{case} on {path}" for case, path in started if (case, path) not in ended)
    return Loaded(tuple(record for _, record in records), unfinished, torn, planned)


def finish(run: Run, *, complete: bool, exit_code: int) -> None:
    """Compile the journals to Parquet and close the manifest."""
    loaded = load(run)
    if loaded.records:
        parquet.write(run.parquet, loaded.records)
    run.update_manifest(complete=complete, finished=now(), exit_code=exit_code)
