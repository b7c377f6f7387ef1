"""Was the intended path taken? Lines that the server's log must have, and lines that it must not.

Contract: each required pattern is in the log of every sample, a forbidden one in none; a campaign that asks
for neither shows no path, which is said wherever the leg is named. The failure to fear is a forbidden line
that was never looked for: without a log, or where one attempt left nothing in it, nobody can tell. Counts are
those taken when the sample ended; patterns that the campaign asks only since then, and the log of an attempt
that was killed, are counted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.legs import logs
from harness.legs.certify.certificate import Point, Verdict
from harness.legs.certify.measured import Leg, Sample, several

NAME = "path"
KINDS = ("required", "forbidden")
NOTHING = "no line of a log is required or forbidden: nothing shows which path ran"


def point(leg: Leg) -> Point:
    """The point of ``leg``."""
    asked = {"required": leg.asked.required, "forbidden": leg.asked.forbidden}
    if not any(asked.values()):
        return Point(NAME, Verdict.NOT_SHOWN, NOTHING)
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
    """``required`` and ``forbidden`` pattern to its lines in the sample's log; None where nobody can tell.

    A forbidden line that was seen is told though another part of the log cannot be read.
    """
    segments = sample.manifest.get("log_segments") or []
    patterns = sample.manifest.get("patterns") or {}
    asked = {"required": leg.asked.required, "forbidden": leg.asked.forbidden}
    stored = all(set(asked[kind]) <= set(patterns.get(kind) or ()) for kind in KINDS)
    if not stored or (segments and segments[-1]["to"] is None):  # what was written since then was not counted
        patterns = _again(leg, sample, segments)
    if not patterns.get("log"):
        return None
    found = {kind: {one: int(patterns[kind][one]) for one in asked[kind]} for kind in KINDS}
    return found if _written(leg, sample, segments) or any(found["forbidden"].values()) else None


def _again(leg: Leg, sample: Sample, segments: Sequence[logs.Segment]) -> dict[str, Any]:
    """The patterns of the campaign counted in the log as it is now."""
    campaign = leg.asked.campaign
    if campaign is None or leg.name not in campaign.legs or not segments:
        return {}
    return dict(logs.looked(campaign, sample.where, segments)["patterns"])


def _written(leg: Leg, sample: Sample, segments: Sequence[logs.Segment]) -> bool:
    """Whether the log has a byte of every attempt; one that a kill left open ends where the next begins."""
    if not segments:
        return False
    last, campaign = segments[-1]["to"], leg.asked.campaign
    if last is None:
        if campaign is None or leg.name not in campaign.legs:
            return False
        try:
            last = logs.log_of(campaign, sample.where).stat().st_size
        except OSError:
            return False
    ends = [*(following["from"] for following in segments[1:]), last]
    ends = [end if one["to"] is None else one["to"] for one, end in zip(segments, ends, strict=True)]
    return all(end > one["from"] for one, end in zip(segments, ends, strict=True))


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
