"""A crash told by what does not change from one time to the next.

Contract: two crashes have the same digest when their error lines agree after addresses, ids, times and
process numbers are taken out. A digest that kept an address would call every crash new, and the one that
the base leg has too would be blamed on the leg under test. A crash whose log tells no error is like no other:
that both servers were killed does not say that both died of the same, and taking it so would clear the leg
under test of a fault of its own.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import deque
from pathlib import Path
from typing import Any

from harness.legs import journal

LAST = 40
"""Log lines that are kept of a crash."""

RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\x1b\[[0-9;]*m", ""),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
        (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "TIME"),
        (r"\b\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?", "TIME"),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "TIME"),
        (r"\b0x[0-9a-fA-F]+\b", "ADDRESS"),
        (r"/tmp/[^\s'\",:)]+", "/tmp/PATH"),
        (r"\b(?:cmpl|chatcmpl|req|request)[-_][0-9A-Za-z-]+", "ID"),
        (r"(?i)\b(pid|tid|process|thread|port|seq|request(?: id)?)(\s*[=:#]?\s*)\d+", r"\1\2N"),
        (r"(?i)\b(rank|node|gpu|device|worker|tp|dp|cuda:|hip:)([ _=#:-]?)\d+", r"\1\2N"),
        (r"(?<=[\[(])\d+(?=[\])])", "N"),
        (r"(\d{1,3}(?:\.\d{1,3}){3}):\d+", r"\1:N"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "ID"),
        (r"\b\d{5,}\b", "N"),
        (r"\s+", " "),
    )
)

ERROR = re.compile(
    r"(?i)error|exception|fault|abort|assert|fatal|panic|killed|out of memory|segmentation|core dumped"
    r"|traceback|cannot be started"
)


def normalise(line: str) -> str:
    """A log line without what differs from run to run."""
    for pattern, put in RULES:
        line = pattern.sub(put, line)
    return line.strip()


def tail(log: Path, start: int = 0) -> list[str]:
    """The last `LAST` lines of a log from byte ``start`` on; none where it cannot be read.

    One that is shorter by now was begun anew, and is looked at from its beginning.
    """
    try:
        with open(log, "rb") as stream:
            stream.seek(start if start <= log.stat().st_size else 0)
            lines = deque(stream, LAST)
    except OSError:
        return []
    return [line.decode("utf-8", "replace").rstrip() for line in lines]


def signature(ended: str, lines: list[str]) -> dict[str, Any]:
    """How the server ended, its error lines normalised (each once), and their digest.

    Without an error line the digest is one that no other crash has.
    """
    told = dict.fromkeys(normalise(line) for line in lines if ERROR.search(line))
    said = [normalise(ended), *told]
    digest = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    if not told:
        digest = f"unknown-{secrets.token_hex(4)}"
    return {"ended": ended, "lines": lines, "signature": said, "digest": digest}


def crashes(where: journal.Place) -> list[dict[str, Any]]:
    """Crashes of a sample so far."""
    return list(where.manifest().get("crashes") or [])


def compared(found: dict[str, Any], directory: Path, base: str, own: journal.Place) -> str:
    """One sentence: was this crash seen before in ``directory``, on the base leg above all?"""
    if len(found["signature"]) < 2:
        return "its log tells no error, so whether another crash is the same is not known"
    seen = [
        where
        for where in journal.places(directory)
        if where.folder != own.folder and any(one["digest"] == found["digest"] for one in crashes(where))
    ]
    on_base = [where for where in seen if where.leg == base]
    if on_base and own.leg != base:
        return f"the same crash happens on base ({base} sample {on_base[0].sample})"
    if seen:
        return f"the same crash was seen before ({seen[0].leg} sample {seen[0].sample})"
    if own.leg == base or any(where.leg == base for where in journal.places(directory)):
        return "no other sample has this crash"
    return f"base ({base}) has not run yet"
