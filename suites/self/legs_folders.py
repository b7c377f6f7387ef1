"""Campaign folders made by hand: what a leg left on disk, without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.legs import campaign, drive, journal
from harness.legs.certify.certificate import Point
from harness.legs.certify.certifying import certify
from harness.legs.pool.answers import FILTERS

IDENTITY: dict[str, Any] = {
    "task": "sums", "prompts": "p", "shots": 20, "fewshot_seed": 1234, "stops": ["Question:"],
    "lm_eval": "0.4", "model_args": {"model": "m", "base_url": "http://127.0.0.1:1"},
    "server": {"command": ["serve"], "version": "1"}, "environment": {}, "indexer": "fp4",
}  # fmt: skip


def record(question: int, **changes: Any) -> dict[str, Any]:
    """A whole answer to a prompt of 3000 tokens: 1, which is right, or 2 where ``changes`` call it wrong."""
    said = {which: "2" if changes.get(f"{which}_correct") is False else "1" for which in FILTERS}
    known = {
        "question": question, "prompt_hash": f"hash {question}", "prompt_chars": 9000,
        "reply": f"It is {question}.", **said, "strict_correct": True,
        "flexible_correct": True, "target": "1", "status": "answered", "finish_reason": "stop",
        "prompt_tokens": 3000, "completion_tokens": 100, "retries": 0, "http_status": 200, "attempt": 1,
    }  # fmt: skip
    return dict.fromkeys(journal.KEYS) | known | changes


def failed(question: int) -> dict[str, Any]:
    """A request that had no reply."""
    unknown = (
        "reply", "strict", "flexible", "strict_correct", "flexible_correct", "finish_reason", "prompt_tokens",
        "completion_tokens",
    )  # fmt: skip
    return record(question, status="failed", error="HTTP 500", **dict.fromkeys(unknown))


def sample(
    directory: Path,
    leg: str = "a",
    number: int = 1,
    records: Sequence[dict[str, Any]] | None = None,
    **manifest: Any,
) -> journal.Place:
    """A finished sample of four right answers, unless told otherwise."""
    rows = [record(question) for question in range(4)] if records is None else records
    where = journal.place(directory, leg, number)
    with journal.Writer(where) as writer:
        for row in rows:
            writer.add(row)
    where.update(**{"status": "finished", "identity": IDENTITY, "expected": len(rows), **manifest})
    return where


def answers(rights: Sequence[int], **changes: Any) -> list[dict[str, Any]]:
    """A record for each of ``rights``: 1 right, 0 wrong, under both filters."""
    return [
        record(question, strict_correct=bool(right), flexible_correct=bool(right), **changes)
        for question, right in enumerate(rights)
    ]


def asks(
    directory: Path, legs: dict[str, dict[str, Any]] | None = None, repeats: int = 1, **certify: Any
) -> campaign.Campaign:
    """Write the ``campaign.json`` of a campaign over ``legs`` (default: one, a) that asks ``certify``."""
    found = campaign.parse(
        {
            "name": "c",
            "base": next(iter(legs or {"a": {}})),
            "repeats": repeats,
            "certify": {"probe": 0, **certify},
            "legs": {
                name: {"model": "m", "base_url": "http://127.0.0.1:1", **leg}
                for name, leg in (legs or {"a": {}}).items()
            },
        },
        str(directory / "campaign.toml"),
    )
    content = {"campaign": found.model_dump(mode="json"), "file": found.file}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / drive.CAMPAIGN).write_text(json.dumps(content), encoding="utf-8")
    return found


def point(directory: Path, name: str, leg: str = "a", **options: Any) -> Point:
    """The point ``name`` of ``leg``'s certificate."""
    return next(one for one in certify(directory, **options)[leg].points if one.name == name)
