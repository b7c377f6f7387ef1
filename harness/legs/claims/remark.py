"""One finding of an audit: about what, by which check, a verdict of a closed list, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

HOLDS, FAILS, UNCLEAR = "holds", "cannot be", "cannot tell"
VERDICTS = (HOLDS, FAILS, UNCLEAR)


@dataclass(frozen=True)
class Remark:
    """One finding of the audit about ``claim``."""

    claim: str
    check: str
    verdict: str
    text: str

    def to_record(self) -> dict[str, Any]:
        return asdict(self)
