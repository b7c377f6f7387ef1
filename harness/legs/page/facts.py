"""What is on disk of a campaign beside its answers: dates, samples, settings, crashes.

Contract: a setting that differs between samples is shown for each leg, never hidden behind the first
sample's; samples that are cut short are listed with what they have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.legs import crash, drive, journal
from harness.report.page import flatten

HEADS = ("leg", "sample", "status", "began", "ended", "done", *journal.STATUSES, "retries")
"""Columns of the table of samples."""

COMMIT = "harness.commit"
VERSIONS = ("model_args.model", "harness", COMMIT, "lm_eval", "server.version")
"""Settings that are told at the top of the page."""


@dataclass(frozen=True)
class Facts:
    """``samples``: rows under `HEADS`. ``common``: settings that all samples share, name and value.
    ``own``: a row a leg of those that differ, under ``names``. ``crashes``: as the manifests have them.
    """

    name: str
    began: str
    ended: str
    samples: list[tuple[str, ...]]
    common: list[tuple[str, str]]
    names: list[str]
    own: list[tuple[str, ...]]
    crashes: list[dict[str, Any]]

    @property
    def versions(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.common if name in VERSIONS]


def of_folder(directory: Path) -> Facts:
    """Read the manifests and samples of ``directory``."""
    places, live = journal.places(directory), drive.busy(directory)
    manifests = [where.manifest() for where in places]
    asked = _asked(directory)
    dates = [str(asked.get("started") or ""), *(str(one.get("started") or "") for one in manifests)]
    ends = [str(one.get("finished") or "") for one in manifests]
    settings = [_settings(one) for one in manifests]
    legs = [where.leg for where in places]
    common, names = _split(settings)
    return Facts(
        str((asked.get("campaign") or {}).get("name") or directory.resolve().name),
        min(filter(None, dates), default="unknown"),
        max(filter(None, ends), default="not yet") if all(ends) else "not yet, or unknown for some sample",
        [_sample(where, live) for where in places],
        common,
        names,
        _own(legs, settings, names),
        [_crash(where, one) for where in places for one in crash.crashes(where)],
    )


def _settings(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The identity, name to value, and the commits of the harness that measured the sample, where known."""
    commits = {COMMIT: ", then ".join(map(str, manifest["harness"]))} if manifest.get("harness") else {}
    return dict(flatten(manifest["identity"])) | commits


def _asked(directory: Path) -> dict[str, Any]:
    """``campaign.json``; empty for imported runs."""
    try:
        return dict(json.loads((directory / drive.CAMPAIGN).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _sample(where: journal.Place, live: bool) -> tuple[str, ...]:
    manifest, records = where.manifest(), journal.read(where.samples)[0]
    counts, expected = Counter(str(one["status"]) for one in records), manifest.get("expected")
    return (
        where.leg,
        str(where.sample),
        drive.state(where, live),
        str(manifest.get("started") or "unknown"),
        str(manifest.get("finished") or "-"),
        f"{len(records)}/{'?' if expected is None else expected}",
        *(str(counts[status] or "-") for status in journal.STATUSES),
        str(sum(int(one["retries"] or 0) for one in records) or "-"),
    )


def _split(settings: Sequence[Mapping[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """(name and value of what all have alike, names of the rest)."""
    names = list(dict.fromkeys(name for one in settings for name in one))
    values = {name: {one.get(name) for one in settings} for name in names}
    common = [(name, str(settings[0][name])) for name in names if len(values[name]) == 1]
    return common, [name for name in names if len(values[name]) > 1]


def _own(
    legs: Sequence[str], settings: Sequence[Mapping[str, str]], names: Sequence[str]
) -> list[tuple[str, ...]]:
    found: dict[str, list[Mapping[str, str]]] = {}
    for leg, one in zip(legs, settings, strict=True):
        found.setdefault(leg, []).append(one)
    return [
        (leg, *(" | ".join(dict.fromkeys(one.get(name, "unknown") for one in members)) for name in names))
        for leg, members in found.items()
    ]


def _crash(where: journal.Place, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "leg": where.leg,
        "sample": where.sample,
        "ended": str(one.get("ended", "unknown")),
        "compared": str(one.get("compared", "")),
        "digest": str(one.get("digest", "unknown")),
        "time": str(one.get("time", "unknown")),
        "signature": "\n".join(map(str, one.get("signature") or ())),
        "lines": "\n".join(map(str, one.get("lines") or ())),
    }
