"""What a suite is: its fields, its fills, what it may be asked, and the cases it lists.

A suite with several kinds tells them apart by the first field that no other kind has, so two kinds
must each have one. How this would fail silently: two suites that share a name would run one check
for both, so the registry refuses that when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.case.case_limits import Values

if TYPE_CHECKING:
    from harness.case.cases import Case

TABLES: Mapping[str, str] = {
    "shuffled": "pages permuted, table padded to 4 pages with entries that point at a poison page",
    "tight": "table ends at the last page in use, so that any prefetch reads past it",
    "wide": "shuffled, but the table is many pages wider than any sequence",
    "strided": "planes and rows are slices of larger poisoned tensors, the output has gaps",
    "far": "shuffled, and the caller's output rows lie so far apart that the last starts past 2^31 bytes",
    "vast": "as far, but past 2^31 elements: 8 GiB of address space, hardly any memory",
    "identity": "page i of the pool is page i of the sequences (proves little: mistrusted)",
}
NEAR = ("shuffled", "tight", "wide", "strided", "identity")
"""Of these, those of suites whose scores go to no caller's buffer that could lie far away."""

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
    meaning. ``tables``: styles of field t. ``limits``: field to its values where they are not the
    general ones. ``many``: list fields that may have several members here though they have one
    elsewhere. ``geometry``: rows, heads and dim make a query. ``check`` raises `CaseError`.
    """

    name: str
    about: str
    kinds: Mapping[str, tuple[str, ...]]
    smoke: tuple[str, ...]
    full: Callable[[], Iterable[str]]
    fills: Mapping[str, str] = field(default_factory=lambda: FILLS)
    tables: tuple[str, ...] = tuple(TABLES)
    limits: Mapping[str, Values] = field(default_factory=dict)
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
