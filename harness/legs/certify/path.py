"""Was the intended path taken? Lines that the server's log must have, and lines that it must not.

Contract: each required pattern is in the log of every sample, a forbidden one in none. The failure to fear
is a forbidden line that was never looked for: without a log, or with an empty one, nobody can tell. Counts
are those taken when the sample ended; patterns that the campaign asks only since then are counted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.legs import logs
from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several

NAME = "path"
KINDS = ("required", "forbidden")


def point(leg: Leg) -> Point:
    """The point of ``leg``."""
    asked = {"required": leg.asked.required, "forbidden": leg.asked.forbidden}
    if not any(asked.values()):
        return Point(NAME, Verdict.NOT_ASKED, "no pattern is asked: nothing proves which path ran")
    found = {sample.number: counts(leg, sample) for sample in leg.samples}
    figures = {"samples": {number: one for number, one in found.items() if one is not None}}
    wrong = [text for number, one in found.items() if one is not None for text in _wrong(number, one, asked)]
    if wrong:
        return Point(NAME, Verdict.FAILS, "; ".join(wrong), figures=figures)
    unread = [number for number, one in found.items() if one is None]
    if unread:
        said = f"the log of sample {_listed(unread)} cannot be read or is empty: nobody can tell the path"
        return Point(NAME, Verdict.UNKNOWN, said, figures=figures)
    return Point(NAME, Verdict.HOLDS, _holds(asked, len(found)), figures=figures)


def counts(leg: Leg, sample: Sample) -> dict[str, dict[str, int]] | None:
    """``required`` and ``forbidden`` pattern to its lines in the sample's log; None where nobody can tell."""
    segments = sample.manifest.get("log_segments")
    if segments is not None and not _written(segments):
        return None
    patterns = sample.manifest.get("patterns") or {}
    asked = {"required": leg.asked.required, "forbidden": leg.asked.forbidden}
    if any(not set(asked[kind]) <= set(patterns.get(kind) or ()) for kind in KINDS):
        patterns = _again(leg, sample, segments)
    if not patterns.get("log"):
        return None
    return {kind: {one: int(patterns[kind][one]) for one in asked[kind]} for kind in KINDS}


def _again(leg: Leg, sample: Sample, segments: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """The patterns of the campaign counted in the log as it is now."""
    campaign = leg.asked.campaign
    if campaign is None or leg.name not in campaign.legs or not segments:
        return {}
    return dict(logs.looked(campaign, sample.where, segments)["patterns"])


def _written(segments: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the log has a byte of the sample; a segment that a kill left open may have."""
    return any(one["to"] is None or one["to"] > one["from"] for one in segments)


def _wrong(
    number: int, found: Mapping[str, Mapping[str, int]], asked: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for pattern in asked["required"]:
        if not found["required"][pattern]:
            yield f"required {pattern!r} is not in the log of sample {number}"
    for pattern in asked["forbidden"]:
        seen = found["forbidden"][pattern]
        if seen:
            yield f"forbidden {pattern!r} is in {several(seen, 'line')} of the log of sample {number}"


def _holds(asked: Mapping[str, Sequence[str]], samples: int) -> str:
    required, forbidden = len(asked["required"]), len(asked["forbidden"])
    said = [f"{required} of {required} required patterns are in the log"] if required else []
    said += [f"0 of {forbidden} forbidden ones are"] if forbidden else []
    return f"{', '.join(said)} ({several(samples, 'sample')})"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
