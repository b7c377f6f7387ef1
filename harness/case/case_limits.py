"""What a case may ask for: ranges of single fields, and bounds on fields taken together.

The bounds on products come from memory: a case that cannot be held must be refused with a
sentence while it is still an id. Without them an id with one digit too many takes the
machine down, which looks like a crash of the path under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.case.cases import Case
    from harness.case.suite import Suite


class CaseError(ValueError):
    """A case that cannot be; the message is one sentence naming the field and its allowed range."""


Values = range | tuple[int, ...]
"""The values that a field may have: a range (with a step, multiples of it), or all of them."""

LIMITS: Mapping[str, Values] = {
    "r": range(1, (1 << 16) + 1),
    "n": range(1, 9),
    "h": range(16, 129, 16),
    "d": (128, 256),
    "ctx": range((1 << 20) + 1),
    "v": range(1 << 20),
    "q": range((1 << 12) + 1),
    "p": range((1 << 12) + 1),
    "c": range((1 << 16) + 1),
    "u": range((1 << 16) + 1),
    "l": range((1 << 20) + 1),
    "k": range(1, (1 << 12) + 1),
    "stable": (0, 1),
    "all": (0, 1),
    "world": range(1, 9),
    "inter": (1, 2, 4, 8, 16, 32, 64),
    "bucket": range(1, (1 << 8) + 1),
    "steps": range(1, 17),
    "ub": range(1, 9),
    "ue": (0, 1),
    "rope": range((1 << 10) + 1),
    "had": (0, 1),
    "g": (32, 64, 128),
    "shuf": (0, 1),
    "layers": range(1, (1 << 10) + 1),
    "page": range(16, (1 << 10) + 1, 16),
    "blocks": range(1, (1 << 24) + 1),
    "kpool": range((1 << 10) + 1),
    "s": range(1 << 31),
}
"""Field to the values of it (of each member, for lists), where a suite has no others (`Suite.limits`).

A page holds whole turns of every rank, so an interleave divides its 64 keys.
"""

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


def allowed(values: Values, where: str = "") -> str:
    """What may be, as the end of a sentence: ``allowed are 0 to 8``, ``allowed in suite writer is 128``."""
    verb = f"allowed{where} {'is' if len(values) == 1 else 'are'}"
    if isinstance(values, range) and len(values) > 2:
        span = f"{values[0]} to {values[-1]}"
        return f"{verb} multiples of {values.step} from {span}" if values.step > 1 else f"{verb} {span}"
    *first, last = map(str, values)
    return f"{verb} {', '.join(first)} and {last}" if first else f"{verb} {last}"


def allowed_of(declared: Suite, name: str) -> str:
    """The same of field ``name`` of a suite, which is named where it has values of its own."""
    own = declared.limits.get(name)
    return allowed(LIMITS[name]) if own is None else allowed(own, f" in suite {declared.name}")


def check_numbers(declared: Suite, name: str, value: object) -> None:
    """A number, or every number of a list or of several. Raises `CaseError`."""
    if isinstance(value, tuple):
        for member in value:
            check_numbers(declared, name, member)
        return
    values = declared.limits.get(name, LIMITS[name])
    if isinstance(value, bool) or not isinstance(value, int) or value not in values:
        raise CaseError(f"field {name} is {value}, {allowed_of(declared, name)}")


def check_counts(case: Case) -> None:
    """How many members lists have. Raises `CaseError`."""
    for name in case.names:
        if name in LAST:
            _check_count(case, name)
    for vector in case.v:
        if not 1 <= len(vector) <= LAST["ctx"]:
            raise CaseError(f"field v has a vector of {len(vector)} lengths, allowed are 1 to {LAST['ctx']}")


def _check_count(case: Case, name: str) -> None:
    count, most = len(getattr(case, name)), LAST[name]
    if name in SINGLE and name not in case.declared.many:
        most = 1
    if not 1 <= count <= most:
        counts = allowed(range(1, most + 1), f" in suite {case.suite}")
        raise CaseError(f"field {name} has {count} members, {counts}")


def check_geometry(case: Case) -> None:
    """The size of what rows, heads and head dim multiply."""
    size = case.rows * max(case.h, 1) * case.d
    if case.declared.geometry and size > MAX_QUERY:
        raise CaseError(f"rows * h * d is {size}, allowed are at most {MAX_QUERY}")


def check_lengths(case: Case) -> None:
    """Lengths against each other, against max_seq_len and against memory."""
    if case.kind == "varqlen" and len(case.q) != len(case.ctx):
        count = f"{len(case.q)} member{'s' * (len(case.q) != 1)}"
        raise CaseError(f"field q has {count}, allowed is one a sequence, {len(case.ctx)} as in ctx")
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
            places = allowed(range(len(case.ctx)))
            raise CaseError(f"field w names sequence {seq} in row {row}, {places}")
        most = len(case.ctx) - 1 if case.ctx else LAST["ctx"]
        if not last <= seq <= most:
            places = allowed(range(last, most + 1))
            raise CaseError(f"field w names sequence {seq} in row {row}, {places} (in order)")
        limit = case.ctx[seq] if case.ctx else LIMITS["ctx"][-1]
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
                f"field u is {units}, allowed are 0 and {case.rows} (one a row) to {LIMITS['u'][-1]}"
            )
