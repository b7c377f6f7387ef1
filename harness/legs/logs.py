"""What a server's log says of a sample: lines that match patterns, and acceptance lengths.

Contract: only the sample's own segments of the log are read, as a stream; each line counts once for each
pattern that it matches. A line ends at a newline or a carriage return, since a progress bar would else hide
what follows it. The failure to fear is a warning that was in the log and is counted as absent: a log that is
shorter than a segment's start, or whose bytes before the start have changed, was begun anew meanwhile, and
its counts are none (``log`` is false).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.legs import journal
from harness.legs.campaign import Campaign

LONGEST = 4096
"""Bytes of a line that a pattern sees at once; a longer line is looked at in pieces of this length. It
bounds what a pattern whose time grows faster than a line's length can cost."""

OVERLAP = 256
"""Bytes that two pieces of a line share, so that a match of up to this length is in one of them."""

MARK = 4096
"""Bytes before a segment of which the digest is kept."""

Segment = Mapping[str, Any]
"""``from`` and ``to`` in bytes (``to`` is None after a kill), ``mark``: digest of what lies before."""


def log_of(campaign: Campaign, where: journal.Place) -> Path:
    """The log to look into: the file the leg names, else what was captured."""
    own = campaign.legs[where.leg].log
    return campaign.path(own) if own else where.folder / "server.log"


def segment(log: Path) -> dict[str, Any]:
    """A segment that begins where ``log`` ends now."""
    size = log.stat().st_size if log.is_file() else 0
    return {"from": size, "to": None, "mark": mark(log, size)}


def mark(log: Path, place: int) -> str | None:
    """Digest of the bytes just before ``place``; None at the beginning, or where they cannot be read."""
    start = max(0, place - MARK)
    try:
        with open(log, "rb") as stream:
            stream.seek(start)
            found = stream.read(place - start)
    except OSError:
        return None
    return hashlib.sha256(found).hexdigest() if found and len(found) == place - start else None


def looked(campaign: Campaign, where: journal.Place, segments: Sequence[Segment]) -> dict[str, Any]:
    """``patterns`` and ``acceptance`` of a manifest: counts of what the campaign asks over ``segments``."""
    required, forbidden = campaign.required(where.leg), campaign.forbidden(where.leg)
    wanted = campaign.legs[where.leg].acceptance
    found = read(log_of(campaign, where), segments, (*required, *forbidden), wanted)
    counts, lengths = found or ({}, [])
    return {
        "patterns": {
            "required": {one: counts.get(one, 0) for one in required},
            "forbidden": {one: counts.get(one, 0) for one in forbidden},
            "log": found is not None,
        },
        "acceptance": math.fsum(lengths) / len(lengths) if lengths else None,
    }


def read(
    log: Path, segments: Sequence[Segment], patterns: Sequence[str], acceptance: str | None = None
) -> tuple[dict[str, int], list[float]] | None:
    """(lines that match each pattern, values that ``acceptance``'s group has); None where nobody can tell."""
    counts = dict.fromkeys(patterns, 0)
    compiled = [(one, re.compile(one)) for one in counts]
    length = re.compile(acceptance) if acceptance else None
    lengths: list[float] = []
    try:
        with open(log, "rb") as stream:
            for start, end in spans(log, segments):
                for pieces in lines(stream, start, end):
                    for one, pattern in compiled:
                        counts[one] += any(map(pattern.search, pieces))
                    if length is not None:
                        lengths += value(length, pieces)
    except OSError:
        return None
    return counts, lengths


def spans(log: Path, segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """(start, end) in bytes; a segment that a kill left open ends where the next begins.

    Raises OSError for a log that is not the one whose segments these are.
    """
    size = log.stat().st_size
    after = [one["from"] for one in segments[1:]] + [size]
    made = [
        (int(one["from"]), int(limit if one["to"] is None else one["to"]))
        for one, limit in zip(segments, after, strict=True)
    ]
    for (start, end), one in zip(made, segments, strict=True):
        if not start <= end <= size or mark(log, start) != one.get("mark"):
            raise OSError(f"{log} was begun anew")
    return made


def lines(stream: IO[bytes], start: int, end: int) -> Iterator[list[str]]:
    """Each line from ``start`` to ``end`` as the pieces of it that are looked at."""
    stream.seek(start)
    pieces: list[bytes] = []
    while start < end:
        block = stream.readline(min(LONGEST - OVERLAP, end - start))
        if not block:
            break
        start += len(block)
        ended = block.endswith(b"\n")
        first, *others = re.split(rb"[\r\n]", block.removesuffix(b"\n"))
        pieces.append((pieces[-1][-OVERLAP:] if pieces else b"") + first)
        for other in others:
            yield _texts(pieces)
            pieces = [other]
        if ended:
            yield _texts(pieces)
            pieces = []
    if pieces:
        yield _texts(pieces)


def _texts(pieces: list[bytes]) -> list[str]:
    return [piece.decode("utf-8", "replace") for piece in pieces]


def value(pattern: re.Pattern[str], pieces: Sequence[str]) -> list[float]:
    """The number in the group of a line's first match; none where that is no finite number."""
    match = next(filter(None, map(pattern.search, pieces)), None)
    try:
        found = float(match[1]) if match else math.nan
    except (TypeError, ValueError):
        return []
    return [found] if math.isfinite(found) else []


def acceptance(directory: Path) -> dict[str, float]:
    """Leg to its acceptance length: the mean over its samples, of those whose log told."""
    found: dict[str, list[float]] = {}
    for where in journal.places(directory):
        value = where.manifest().get("acceptance")
        if value is not None:
            found.setdefault(where.leg, []).append(float(value))
    return {leg: math.fsum(told) / len(told) for leg, told in found.items()}
