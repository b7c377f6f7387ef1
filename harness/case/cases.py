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
from itertools import takewhile

from harness.case import lists
from harness.case.case_limits import (
    LIMITS,
    CaseError,
    allowed_of,
    check_counts,
    check_geometry,
    check_lengths,
    check_numbers,
    check_units,
)
from harness.case.case_text import Window, read, short, spell
from harness.case.suite import Suite

SUITES = tuple(lists.SUITES)

WORDS: dict[str, tuple[str, ...]] = {
    "pair": ("neox", "interleaved"),
    "ex": ("ids", "scores"),
    "fmt": ("fn", "fnuz"),
    "tile": ("flat", "tiled"),
    "rule": ("dsa", "v4"),
    "to": ("fp4", "fp8"),
    "ask": ("fp4", "fp8", "bf16", "none"),
    "chip": lists.gate.CHIPS,
    "by": ("nowriter", "prefillcp", "ubatch", "transfer", "page", "split"),
}
"""Fields that are one of a few words. ``t`` is a table style of the suite, ``f`` one of its fills."""


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
    k: int = 0
    stable: int = 0
    pair: str = ""
    all: int = 0
    world: int = 0
    inter: int = 0
    ex: str = ""
    bucket: int = 0
    v: tuple[tuple[int, ...], ...] = ()
    steps: int = 0
    ub: int = 0
    fmt: str = ""
    ue: int = 0
    tile: str = ""
    rope: int = 0
    had: int = 0
    to: str = ""
    layers: int = 0
    page: int = 0
    g: int = 0
    shuf: int = 0
    blocks: int = 0
    rule: str = ""
    ask: str = ""
    kpool: int = 0
    chip: str = ""
    by: str = ""
    f: str = ""
    s: int = 0

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            raise CaseError(f"suite is {self.suite!r}, allowed are {', '.join(SUITES)}")
        _check_kind(self)
        for name in self.names:
            _check_value(self.declared, name, getattr(self, name))
        check_counts(self)
        check_geometry(self)
        check_lengths(self)
        check_units(self)
        self.declared.check(self)

    @property
    def declared(self) -> Suite:
        """What its suite says of itself."""
        return lists.SUITES[self.suite]

    @property
    def kind(self) -> str:
        """``decode``, ``prefill``, ``varqlen`` ..., or empty for suites without windows."""
        marks = self.declared.marks
        if len(marks) == 1:
            return next(iter(marks))
        return next((kind for kind, field in marks.items() if getattr(self, field)), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The fields this case has, in id order."""
        return self.declared.kinds[self.kind]

    @cached_property
    def id(self) -> str:
        return "-".join([self.suite, *(name + spell(name, getattr(self, name)) for name in self.names)])

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.ctx) if self.ctx else 1 + max((seq for seq, _, _ in self.w), default=0)

    @property
    def rows(self) -> int:
        """Number of query rows T, padding included."""
        by_kind = {
            "decode": len(self.ctx) * self.n,
            "fp8": len(self.ctx) * self.n,
            "prefill": len(self.w),
            "varqlen": sum(self.q) + self.p,
            "replay": self.bucket * self.n,
        }
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
    "pair": "RoPE pairing: neox (i, i+32) or interleaved (2i, 2i+1)",
    "all": "compute_all_q_rope: 1 computes q and weights of rows without a slot too",
    "ctx": "context length of each sequence",
    "q": "query rows of each sequence",
    "p": "padding rows after the last query row",
    "w": "window of each query row, SEQ@START:END or SEQ@START:END+COUNT",
    "c": "rows a chunk when the rows are scored chunk by chunk, 0: all in one (a list in identity)",
    "world": "ranks that share the keys (DCP world size)",
    "inter": "positions in a row that one rank holds (DCP interleave size)",
    "ex": "what ranks exchange: ids (scores with ids) or scores (ids follow from the place)",
    "bucket": "sequences the step was captured for",
    "v": "context lengths of each replay, replays by underscore: 255,256_256,257_3",
    "steps": "draft steps after the verify step",
    "ub": "micro-batches",
    "k": "keys a row selects (index_topk; 0: not set, in gate)",
    "stable": "1: equal scores go to the smallest position",
    "fmt": "FP8 format: fn (E4M3FN) or fnuz (E4M3FNUZ)",
    "ue": "1: scales are powers of two (ue8m0)",
    "tile": "order of an FP8 page: flat, or tiled 16 x 16",
    "t": "table style",
    "u": "schedule units, 0: chosen by the path (a list in schedule and identity)",
    "l": "max_seq_len, 0: the largest length rounded up to 256",
    "rope": "columns that RoPE turns, the last ones, 0: none",
    "had": "1: Hadamard transform",
    "to": "codes: fp4 (E2M1) or fp8 (E4M3FN)",
    "g": "columns that share a scale",
    "shuf": "1: scales (and key pages) in the scorer's order, 0: row after row",
    "layers": "layers with an indexer",
    "page": "indexer rows a page",
    "blocks": "pages of the pool",
    "rule": "whose gate: dsa (sparse indexers of the DeepSeek-V3.2 kind), v4 (DeepSeek-V4)",
    "ask": "index cache dtype that is asked for",
    "kpool": "index_kpool of the model, 0: none",
    "chip": "GPU",
    "by": "what blocks FP4",
    "f": "fill",
    "s": "seed",
}


def parse(text: str) -> Case:
    """The case named by ``text``. Raises `CaseError`, one sentence naming the field and its range."""
    suite, tokens = _suite_of(text.strip())
    found: dict[str, str] = {}
    name = ""
    for token in tokens:
        if name and token[:1].isdigit():  # a negative number, of which a value's text tells
            found[name] += f"-{token}"
            continue
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
    declared = lists.SUITES[suite]
    values: dict[str, object] = {}
    for name in wanted:
        values[name] = read(name, found[name], allowed_of(declared, name) if name in LIMITS else "")
        _check_value(declared, name, values[name])
    return Case(suite, **values)  # type: ignore[arg-type]


def _suite_of(text: str) -> tuple[str, list[str]]:
    """The suite that ``text`` starts with, and the tokens after it. Raises `CaseError`."""
    tokens = text.split("-")
    for count in (2, 1):  # a suite's name may hold a dash
        name = "-".join(tokens[:count])
        if name in SUITES:
            return name, tokens[count:]
    named = "-".join(takewhile(str.isalpha, tokens[:2])) or tokens[0]
    raise CaseError(f"suite is {short(named)!r}, allowed are {', '.join(SUITES)}")


def _field_of(token: str, suite: str) -> str:
    kinds = lists.SUITES[suite].kinds
    allowed = dict.fromkeys(name for kind in kinds.values() for name in kind)
    name = next((name for name in sorted(allowed, key=len, reverse=True) if token.startswith(name)), None)
    if name is None:
        raise CaseError(f"field {short(token)!r} is unknown, suite {suite} has {', '.join(allowed)}")
    return name


def _wanted(suite: str, found: set[str]) -> tuple[str, ...]:
    declared = lists.SUITES[suite]
    if len(declared.kinds) == 1:
        return next(iter(declared.kinds.values()))
    told = [kind for kind, field in declared.marks.items() if field in found]
    if len(told) != 1:
        raise CaseError(_one_kind(declared))
    wanted = declared.kinds[told[0]]
    extra = sorted(found - set(wanted))
    if extra:
        raise CaseError(
            f"field {extra[0]} does not belong here, this form of {suite} has {', '.join(wanted)}"
        )
    return wanted


def _one_kind(declared: Suite) -> str:
    ways = " or ".join(f"field {field} ({kind})" for kind, field in declared.marks.items())
    return f"suite {declared.name} takes {ways}, exactly one of them"


def _check_kind(case: Case) -> None:
    declared = case.declared
    if len(declared.kinds) > 1 and sum(bool(getattr(case, name)) for name in declared.marks.values()) != 1:
        raise CaseError(_one_kind(declared))
    for field in fields(Case)[1:]:
        if field.name not in case.names and getattr(case, field.name) != field.default:
            raise CaseError(
                f"field {field.name} does not belong to {case.suite}, which has {', '.join(case.names)}"
            )


def _check_value(declared: Suite, name: str, value: object) -> None:
    """One field by itself. Raises `CaseError`."""
    if name in LIMITS:
        check_numbers(declared, name, value)
        return
    where, words = f" in suite {declared.name}", tuple(declared.fills)
    if name == "t":
        words = declared.tables
    elif name in WORDS:
        where, words = "", WORDS[name]
    elif name != "f":
        return  # windows, which are looked at together
    if value not in words:
        raise CaseError(f"field {name} is {short(str(value))!r}, allowed{where} are {', '.join(words)}")
