"""A case: a frozen value whose id names everything and is all that is needed to rerun it.

An id is ``<suite>-<field><value>-<field><value>...`` with the fields of the suite in the
order of `FIELDS`. Lists are comma separated, ``VxK`` repeats V K times; a window is
``SEQ@START:END``, ``+COUNT`` after it means COUNT rows whose end grows by one each. Ids hold
no spaces, brackets or ``::``, so they pass through shells and pytest unchanged.
Two spellings of one case would run it twice and count it twice, so `Case.id` is canonical
and `parse` accepts any spelling but returns the value, not the text.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from harness.case.case_limits import (
    CaseError,
    check_geometry,
    check_lengths,
    check_limits,
    check_units,
)
from harness.case.case_text import Window, read, short, spell

SUITES = ("quantise", "layout", "write", "schedule", "decode", "prefill", "varqlen", "identity")

FILLS = {
    "bytes": "all 16 codes, scale bytes in a window that keeps the exact grade",
    "wide": "scale bytes over the whole range incl. 0, 254, 255: overflow, underflow, NaN",
    "natural": "Gaussian data through LayerNorm, RoPE and the quantiser; full bf16 weights",
    "address": "every key and group carries its own address, so a wrong one is named by the value",
    "ties": "few distinct keys, so that equal scores lie on both sides of any cut",
    "boundary": "group maxima at 6*2^k and one ulp either side, all midpoints, both signs, -0",
}

TABLES = {
    "shuffled": "pages permuted, table padded to 4 pages with entries that point at a poison page",
    "tight": "table ends at the last page in use, so that any prefetch reads past it",
    "wide": "shuffled, but the table is many pages wider than any sequence",
    "strided": "planes and rows are slices of larger poisoned tensors, the output has gaps",
    "far": "shuffled, and the caller's output rows lie so far apart that the last starts past 2^31 bytes",
    "vast": "as far, but past 2^31 elements: 8 GiB of address space, hardly any memory",
    "identity": "page i of the pool is page i of the sequences (proves little: mistrusted)",
}

FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "quantise": {"": ("r", "d", "f", "s")},
    "layout": {"": ("h", "d", "ctx", "t", "s")},
    "write": {"": ("r", "h", "d", "f", "s")},
    "schedule": {"decode": ("n", "ctx", "u", "l"), "prefill": ("w", "u", "l")},
    "decode": {"decode": ("n", "h", "d", "ctx", "t", "u", "l", "f", "s")},
    "prefill": {"prefill": ("h", "d", "ctx", "w", "c", "t", "u", "l", "f", "s")},
    "varqlen": {"varqlen": ("h", "d", "ctx", "q", "p", "t", "u", "l", "f", "s")},
    "identity": {
        "decode": ("n", "h", "d", "ctx", "t", "u", "l", "f", "s"),
        "prefill": ("h", "d", "ctx", "w", "c", "t", "u", "l", "f", "s"),
    },
}
"""Suite to kind to the fields of its ids; a suite with two kinds is told apart by ``n`` or ``w``."""

SUITE_FILLS = {
    "quantise": ("natural", "boundary", "bytes", "wide"),
    "write": ("natural", "boundary"),
}
"""Fills of the suites that do not take all of them: the writer sees values, not codes."""


@dataclass(frozen=True)
class Case:
    """What is asked, and nothing about how it is answered; see `HELP` for the fields."""

    suite: str
    r: int = 0
    n: int = 0
    h: int = 0
    d: int = 0
    ctx: tuple[int, ...] = ()
    q: tuple[int, ...] = ()
    p: int = 0
    w: tuple[Window, ...] = ()
    c: tuple[int, ...] = ()
    t: str = ""
    u: tuple[int, ...] = ()
    l: int = 0  # noqa: E741 - the letter of the id
    f: str = ""
    s: int = 0

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            raise CaseError(f"suite is {self.suite!r}, allowed are {', '.join(SUITES)}")
        _check_kind(self)
        _check_names(self)
        check_limits(self)
        check_geometry(self)
        check_lengths(self)
        check_units(self)

    @property
    def kind(self) -> str:
        """``decode``, ``prefill``, ``varqlen``, or empty for suites that score nothing by windows."""
        kinds = FIELDS[self.suite]
        if len(kinds) == 1:
            return next(iter(kinds))
        return "decode" if self.n else "prefill"

    @property
    def names(self) -> tuple[str, ...]:
        """The fields this case has, in id order."""
        return FIELDS[self.suite][self.kind]

    @cached_property
    def id(self) -> str:
        return "-".join([self.suite, *(name + spell(getattr(self, name)) for name in self.names)])

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.ctx) if self.ctx else 1 + max((seq for seq, _, _ in self.w), default=0)

    @property
    def rows(self) -> int:
        """Number of query rows T, padding included."""
        by_kind = {"decode": len(self.ctx) * self.n, "prefill": len(self.w), "varqlen": sum(self.q) + self.p}
        return by_kind.get(self.kind, 1 if self.suite == "layout" else self.r)

    @property
    def longest(self) -> int:
        """Largest length (window end where a case has no lengths)."""
        return max(self.ctx, default=max((end for _, _, end in self.w), default=0))

    @property
    def width(self) -> int:
        """max_seq_len in effect: the field, or the largest length rounded up to 256 when it is 0."""
        return self.l or max(256, -(-self.longest // 256) * 256)

    @property
    def units(self) -> int | None:
        """The first unit count; None when it is 0 and the path chooses."""
        return (self.u[0] or None) if self.u else None

    def but(self, **changes: object) -> Case:
        """A copy with ``changes``; raises `CaseError` like the constructor."""
        return replace(self, **changes)  # type: ignore[arg-type]


HELP = {
    "r": "rows to quantise or write",
    "n": "query rows a sequence in a decode step (1 + draft tokens)",
    "h": "index heads, a multiple of 16",
    "d": "head dim, 128 or 256",
    "ctx": "context length of each sequence",
    "q": "query rows of each sequence",
    "p": "padding rows after the last query row",
    "w": "window of each query row, SEQ@START:END or SEQ@START:END+COUNT",
    "c": "rows a chunk when the rows are scored chunk by chunk, 0: all in one (a list in identity)",
    "t": "table style",
    "u": "schedule units, 0: chosen by the path (a list in schedule and identity)",
    "l": "max_seq_len, 0: the largest length rounded up to 256",
    "f": "fill",
    "s": "seed",
}


def parse(text: str) -> Case:
    """The case named by ``text``. Raises `CaseError`, one sentence naming the field and its range."""
    suite, *tokens = text.strip().split("-")
    if suite not in SUITES:
        raise CaseError(f"suite is {suite!r}, allowed are {', '.join(SUITES)}")
    found: dict[str, str] = {}
    for token in tokens:
        name = _field_of(token, suite)
        if name in found:
            raise CaseError(f"field {name} occurs twice in {short(text)}, allowed once")
        found[name] = token[len(name) :]
    wanted = _wanted(suite, set(found))
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CaseError(
            f"field {missing[0]} ({HELP[missing[0]]}) is missing, suite {suite} has {', '.join(wanted)}"
        )
    return Case(suite, **{name: read(name, found[name]) for name in wanted})  # type: ignore[arg-type]


def _field_of(token: str, suite: str) -> str:
    names = sorted(HELP, key=len, reverse=True)
    name = next((name for name in names if token.startswith(name)), None)
    allowed = sorted({name for kind in FIELDS[suite].values() for name in kind}, key=list(HELP).index)
    if name is None or name not in allowed:
        raise CaseError(f"field {short(token)!r} is unknown, suite {suite} has {', '.join(allowed)}")
    return name


def _wanted(suite: str, found: set[str]) -> tuple[str, ...]:
    kinds = FIELDS[suite]
    if len(kinds) == 1:
        return next(iter(kinds.values()))
    if ("n" in found) == ("w" in found):
        raise CaseError(f"suite {suite} takes field n (decode) or field w (prefill), exactly one of them")
    wanted = kinds["decode" if "n" in found else "prefill"]
    extra = sorted(found - set(wanted))
    if extra:
        raise CaseError(
            f"field {extra[0]} does not belong here, this form of {suite} has {', '.join(wanted)}"
        )
    return wanted


def _check_kind(case: Case) -> None:
    if len(FIELDS[case.suite]) == 2 and bool(case.n) == bool(case.w):
        raise CaseError(
            f"suite {case.suite} takes field n (decode) or field w (prefill), exactly one of them"
        )
    for field in fields(Case)[1:]:
        if field.name not in case.names and getattr(case, field.name) != field.default:
            raise CaseError(
                f"field {field.name} does not belong to {case.suite}, which has {', '.join(case.names)}"
            )


def _check_names(case: Case) -> None:
    if "t" in case.names and case.t not in TABLES:
        raise CaseError(f"field t is {short(case.t)!r}, allowed are {', '.join(TABLES)}")
    allowed = SUITE_FILLS.get(case.suite, tuple(FILLS))
    if "f" in case.names and case.f not in allowed:
        raise CaseError(
            f"field f is {short(case.f)!r}, allowed in suite {case.suite} are {', '.join(allowed)}"
        )
