"""A finding: something a kernel did that its result does not show.

An out-of-bounds load whose value is never used leaves every score right and still
faults on a machine whose allocator is less roomy. Findings carry such facts from the
emulator into the verdict. A finding that is dropped on the way would make a run look
cleaner than it was, so a finding is a value, is compared with the ledger, and is never
printed and forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

KINDS = (
    "out-of-bounds-load",
    "out-of-bounds-store",
    "undefined-load",
    "write-race",
    "missing-barrier",
    "overwritten-early",
    "unwritten",
    "address-wrap",
    "divergent-lanes",
    "input-changed",
)
"""Closed list of what can be found.

out-of-bounds-load/-store: a byte outside the tensor the address was derived from.
undefined-load: a byte inside the tensor that nobody ever wrote (declared by the case).
write-race: two lanes stored to one address in one launch (shared memory: between two barriers).
missing-barrier: a lane read shared memory that another wave stored since the last barrier.
overwritten-early: a lane stored to shared memory that another wave read since the last barrier.
unwritten: a cell the case expects and no lane stored.
address-wrap: 32-bit arithmetic that feeds an address left the range of its type.
divergent-lanes: a cross-lane operation while some lanes of the wave were switched off.
input-changed: a tensor the path was only to read holds something else after the call.
"""


@dataclass(frozen=True)
class Finding:
    """One kind of misbehaviour at one source line of one kernel, over a whole launch.

    ``operand`` names the tensor (the argument's label, or ``argN``), ``location`` is the
    source position, innermost call first, files relative to the package root. ``count``
    is the number of lanes (or cells) concerned; ``first`` describes one of them: ``cta``,
    ``lane``, byte ``offset`` into the tensor, ``extent`` of the tensor in bytes, ``value``.
    """

    kind: str
    kernel: str
    operand: str
    location: str
    count: int
    first: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, allowed are {', '.join(KINDS)}")

    @property
    def file(self) -> str:
        """Source file of the innermost position, without line numbers."""
        return self.location.split(" < ")[0].rsplit(":", 1)[0]

    @property
    def what(self) -> str:
        """Kind and operand; an address that wraps has no operand yet."""
        return f"{self.kind} of {self.operand}" if self.operand else self.kind

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        detail = ", ".join(f"{key} {value}" for key, value in self.first.items())
        return f"{self.what} at {self.location} ({self.kernel}): {self.count} times, first {detail}"
