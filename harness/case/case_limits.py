"""What a case may ask for: ranges of single fields, and bounds on fields taken together.

The bounds on products come from memory: a case that cannot be held must be refused with a
sentence while it is still an id. Without them an id with one digit too many takes the
machine down, which looks like a crash of the path under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.case.cases import Case


class CaseError(ValueError):
    """A case that cannot be; the message is one sentence naming the field and its allowed range."""


LIMITS = {
    "r": (1, 1 << 16),
    "n": (1, 8),
    "h": (16, 128),
    "d": (128, 256),
    "ctx": (0, 1 << 20),
    "q": (0, 1 << 12),
    "p": (0, 1 << 12),
    "c": (0, 1 << 16),
    "u": (0, 1 << 16),
    "l": (0, 1 << 20),
    "k": (1, 1 << 12),
    "stable": (0, 1),
    "all": (0, 1),
    "world": (1, 8),
    "inter": (1, 1 << 10),
    "bucket": (1, 1 << 8),
    "steps": (1, 16),
    "ub": (1, 8),
    "ue": (0, 1),
    "layers": (1, 1 << 10),
    "page": (16, 1 << 10),
    "blocks": (1, 1 << 24),
    "kpool": (0, 1 << 10),
    "s": (0, (1 << 31) - 1),
}
"""Field to the smallest and largest value of it (of each member, for lists)."""

LAST = {"ctx": 1 << 12, "q": 1 << 12, "w": 1 << 16, "c": 64, "u": 64, "v": 64}
"""Field to the largest number of members of its list."""

LISTS = ("ctx", "q", "c", "u")
"""Fields that are lists of numbers."""

SINGLE = ("c", "u")
"""Of these, the ones with one member where a suite does not say `Suite.many`."""

MAX_CELLS = 1 << 30
"""Cells of the score matrix, rows times max_seq_len: 4 GiB of float32."""

MAX_KEYS = 1 << 22
"""Keys of all sequences together: 1 GiB of unpacked codes at head dim 256."""

MAX_LAYOUT = 1 << 12
"""Keys of a layout case, which plants and checks single codes one by one."""

MAX_QUERY = 1 << 29
"""Query elements, rows times heads times head dim: 256 MiB of codes, 2 GiB as float32."""

MAX_TABLE = 1 << 24
"""Block-table entries, sequences times pages of the longest."""


def check_limits(case: Case) -> None:
    """Every field by itself. Raises `CaseError`."""
    for name in case.names:
        value = getattr(case, name)
        if name not in LIMITS or (name in ("h", "d") and case.declared.geometry):
            continue
        low, high = case.declared.limits.get(name, LIMITS[name])
        for member in value if isinstance(value, tuple) else (value,):
            if isinstance(member, bool) or not isinstance(member, int) or not low <= member <= high:
                raise CaseError(f"field {name} is {member}, allowed are {low} to {high}")
    for name in set(LAST) & set(case.names):
        _check_count(case, name)
    for vector in case.v:
        if not 1 <= len(vector) <= LAST["ctx"]:
            raise CaseError(f"field v has a vector of {len(vector)} lengths, allowed are 1 to {LAST['ctx']}")


def _check_count(case: Case, name: str) -> None:
    count, most = len(getattr(case, name)), LAST[name]
    if name in SINGLE and name not in case.declared.many:
        most = 1
    if not 1 <= count <= most:
        raise CaseError(f"field {name} has {count} members, allowed in suite {case.suite} are 1 to {most}")


def check_geometry(case: Case) -> None:
    """Heads and head dim, and the size of what they multiply."""
    if not case.declared.geometry:
        return
    if "h" in case.names and (case.h % 16 or not 16 <= case.h <= 128):
        raise CaseError(f"field h is {case.h}, allowed are multiples of 16 from 16 to 128")
    if "d" in case.names and case.d not in (128, 256):
        raise CaseError(f"field d is {case.d}, allowed are 128 and 256")
    size = case.rows * max(case.h, 1) * case.d
    if size > MAX_QUERY:
        raise CaseError(f"rows * h * d is {size}, allowed are at most {MAX_QUERY}")


def check_lengths(case: Case) -> None:
    """Lengths against each other, against max_seq_len and against memory."""
    if case.kind == "varqlen" and len(case.q) != len(case.ctx):
        raise CaseError(
            f"field q has {len(case.q)} members, allowed is one a sequence, {len(case.ctx)} as in ctx"
        )
    if case.kind == "varqlen" and not case.rows:
        raise CaseError("fields q and p ask for no row, allowed is at least one together")
    _check_windows(case)
    if case.suite == "layout" and not any(case.ctx):
        raise CaseError("field ctx has no key, allowed in suite layout is at least one length from 1")
    if case.l and case.l < case.longest:
        raise CaseError(
            f"field l is {case.l}, allowed are 0 and {case.longest} (the largest length) to {1 << 20}"
        )
    if case.kind and case.suite != "schedule" and case.rows * case.width > MAX_CELLS:
        raise CaseError(
            f"rows * max_seq_len is {case.rows * case.width}, allowed are at most {MAX_CELLS} cells"
        )
    if case.suite == "layout" and sum(case.ctx) > MAX_LAYOUT:
        raise CaseError(
            f"field ctx sums to {sum(case.ctx)} keys, allowed in suite layout are at most {MAX_LAYOUT}"
        )
    if sum(case.ctx) > MAX_KEYS and case.suite != "schedule":
        raise CaseError(f"field ctx sums to {sum(case.ctx)} keys, allowed are at most {MAX_KEYS}")
    table = len(case.ctx) * -(-case.longest // 64)
    if table > MAX_TABLE and "t" in case.names:
        raise CaseError(f"field ctx needs {table} block-table entries, allowed are at most {MAX_TABLE}")


def _check_windows(case: Case) -> None:
    last = 0
    for row, (seq, start, end) in enumerate(case.w):
        if case.ctx and seq >= len(case.ctx):
            raise CaseError(
                f"field w names sequence {seq} in row {row}, allowed are 0 to {len(case.ctx) - 1}"
            )
        most = len(case.ctx) - 1 if case.ctx else LAST["ctx"]
        if not last <= seq <= most:
            raise CaseError(
                f"field w names sequence {seq} in row {row}, allowed are {last} to {most} (in order)"
            )
        limit = case.ctx[seq] if case.ctx else LIMITS["ctx"][1]
        if not 0 <= start <= end <= limit:
            raise CaseError(
                f"field w is {start}:{end} in row {row}, allowed are 0 <= start <= end <= {limit}"
            )
        last = seq


def check_units(case: Case) -> None:
    """Schedule units large enough for the rows. Zero is left to the path."""
    for units in case.u:
        if units == 0:
            continue
        if case.kind == "decode" and (units % case.n or units < case.n * case.batch):
            low = case.n * case.batch
            raise CaseError(
                f"field u is {units}, allowed are 0 and multiples of n = {case.n} from {low} (n * sequences)"
            )
        if case.kind != "decode" and units < case.rows:
            raise CaseError(
                f"field u is {units}, allowed are 0 and {case.rows} (one a row) to {LIMITS['u'][1]}"
            )
