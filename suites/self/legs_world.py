"""A small world for driving legs: sums as a data set, campaigns over stub servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from harness.legs import campaign, drive, journal
from suites.self import stub_server
from suites.self.stub_server import Script

N = 6


def sums(count: int, start: int = 0) -> str:
    rows = [
        {"question": f"What is {i} plus {i + 1}?", "answer": f"{i} + {i + 1} = {2 * i + 1}\n#### {2 * i + 1}"}
        for i in range(start, start + count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def data(folder: Path, count: int = N) -> Path:
    """A data set in GSM8K's format: question i of the test is 'What is 100+i plus 101+i?'."""
    place = folder / "data"
    place.mkdir(exist_ok=True)
    (place / "train.jsonl").write_text(sums(8), encoding="utf-8")
    (place / "test.jsonl").write_text(sums(count, 100), encoding="utf-8")
    return place


def asked(folder: Path, legs: dict[str, dict[str, Any]], **more: Any) -> campaign.Campaign:
    """A campaign over ``legs``: fast retries, no probe, one sample each unless ``more`` says otherwise."""
    found: dict[str, Any] = {
        "name": "sums",
        "base": next(iter(legs)),
        "repeats": 1,
        "task": {"data": str(data(folder)), "shots": 2, "max_tokens": 32, "max_length": 512},
        "client": {"concurrency": 2, "retries": 2, "backoff": 0.0, "timeout": 20.0},
        "server": {"start_timeout": 30.0, "stop_timeout": 5.0},
        "certify": {"probe": 0},
        "legs": {name: {"model": "stub", **leg} for name, leg in legs.items()},
    }
    for name, value in more.items():
        found[name] = {**found[name], **value} if isinstance(found.get(name), dict) else value
    return campaign.parse(found, str(folder / "campaign.toml"))


def process(folder: Path, name: str, script: Script) -> dict[str, Any]:
    """A leg whose server is a stub in a process of its own."""
    port = stub_server.free_port()
    file = folder / f"{name}.json"
    file.write_text(json.dumps(vars(script)), encoding="utf-8")
    return {
        "base_url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, stub_server.__file__, str(port), str(file)],
    }


class Told(drive.Display):
    """Keeps what was told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def driven(
    folder: Path, found: campaign.Campaign, told: drive.Display | None = None, **more: Any
) -> dict[str, str]:
    """Run it; 'leg/sample' to status."""
    with drive.locked(folder / "out"):
        made = drive.plan(found, folder / "out")
        ended = drive.run(made, told or drive.Display(), **more)
    return {f"{where.leg}/{where.sample}": status for where, status in ended.items()}


def records(folder: Path, leg: str = "a", sample: int = 1) -> dict[int, dict[str, Any]]:
    found = journal.read(journal.place(folder / "out", leg, sample).samples)[0]
    return {int(record["question"]): record for record in found}
