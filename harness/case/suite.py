"""What a suite is: its fields, its fills, what it may be asked, and the cases it lists.

A suite with several kinds tells them apart by the first field that no other kind has, so two kinds
must each have one. How this would fail silently: two suites that share a name would run one check
for both, so the registry refuses that when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.case.cases import Case

FILLS: Mapping[str, str] = {
    "bytes": "all 16 codes, scale bytes in a window that keeps the exact grade",
    "wide": "scale bytes over the whole range incl. 0, 254, 255: overflow, underflow, NaN",
    "natural": "Gaussian data through LayerNorm, RoPE and the quantiser; full bf16 weights",
    "address": "every key and group carries its own address, so a wrong one is named by the value",
    "ties": "few distinct keys, so that equal scores lie on both sides of any cut",
    "boundary": "group maxima at 6*2^k and one ulp either side, all midpoints, both signs, -0",
}
"""Fills of the suites that score FP4 planes; other suites name their own."""


def only(*names: str) -> dict[str, str]:
    """Some of `FILLS`."""
    return {name: FILLS[name] for name in names}


def nothing_more(case: Case) -> None:
    """No bounds but those of the fields."""


@dataclass(frozen=True)
class Suite:
    """One suite.

    ``kinds``: kind to its fields in id order; the empty kind has no windows. ``fills``: word to
    meaning. ``limits``: field to (smallest, largest) where they are not the general ones. ``many``:
    list fields that may have several members here though they have one elsewhere. ``geometry``: heads
    and dim are those of a scorer (multiples of 16, 128 or 256). ``check`` raises `CaseError`.
    """

    name: str
    about: str
    kinds: Mapping[str, tuple[str, ...]]
    smoke: tuple[str, ...]
    full: Callable[[], Iterable[str]]
    fills: Mapping[str, str] = field(default_factory=lambda: FILLS)
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    many: tuple[str, ...] = ()
    geometry: bool = True
    check: Callable[[Case], None] = nothing_more

    @property
    def marks(self) -> Mapping[str, str]:
        """Kind to the field that tells it: the first that no other kind has."""
        found = {}
        for kind, names in self.kinds.items():
            others = {name for other, theirs in self.kinds.items() if other != kind for name in theirs}
            found[kind] = next(name for name in names if name not in others)
        return found
