"""Reads a file of reported figures (TOML). What is said is kept as it was said.

Every field is checked when the file is read, one sentence an error, because a figure that is
misread here would be audited as something nobody claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.legs import toml
from harness.legs.claims import measurements
from harness.legs.claims.arithmetic import LARGEST_N, Printed
from harness.legs.claims.entries import ReportError, checked, figure_of, listed, standing
from harness.legs.claims.measurements import Measurement

FILE = Path(__file__).resolve().parents[3] / "results" / "reported.toml"
FILTERS = ("flexible", "strict")


@dataclass(frozen=True)
class Score:
    """A proportion as printed, the count claimed behind it, and its standard error as printed."""

    figure: Printed
    k: int | None = None
    error: Printed | None = None


@dataclass(frozen=True)
class Leg:
    """One reported leg. ``plus``: points above leg ``base``, where no proportion is given.

    ``but``: what the report itself says that the leg does not show.
    """

    id: str
    n: int
    source: str
    standing: str
    scores: Mapping[str, Score]
    why: str = ""
    indexer: str = ""
    shots: int | None = None
    topology: str = ""
    other_topology: str = ""
    prompts: int | None = None
    prompt_tokens: Mapping[str, int] = field(default_factory=dict)
    base: str = ""
    plus: Mapping[str, Printed] = field(default_factory=dict)
    but: str = ""
    superseded_by: str = ""


@dataclass(frozen=True)
class Figure:
    """One reported figure that must follow from ``given`` by ``rule``."""

    id: str
    rule: str
    given: Mapping[str, Any]
    shown: Printed
    says: str
    source: str
    standing: str = "stands"
    why: str = ""
    superseded_by: str = ""


@dataclass(frozen=True)
class Claim:
    """What was said about reported legs: ``leg`` minus ``base``, or two samples of ``leg``.

    ``kind``: difference (that of the legs' counts), spread (``points`` between two samples of ``leg``),
    detectable (differences below ``points`` cannot be seen).
    """

    id: str
    kind: str
    leg: str
    base: str
    says: str
    source: str
    points: Mapping[str, Printed] = field(default_factory=dict)
    standing: str = "stands"
    but: str = ""
    why: str = ""
    superseded_by: str = ""


@dataclass(frozen=True)
class Report:
    """All that a file reports. ``task``: lm-eval's name of what all its legs were asked."""

    legs: Mapping[str, Leg]
    figures: tuple[Figure, ...]
    index_topk: int
    claims: Mapping[str, Claim] = field(default_factory=dict)
    task: str = "gsm8k"
    measured: Mapping[str, Measurement] = field(default_factory=dict)


LEG = {
    "id": str, "indexer": str, "shots": int, "topology": str, "other_topology": str, "n": int, "prompts": int,
    "flexible": str, "strict": str, "k_flexible": int, "k_strict": int, "flexible_error": str,
    "strict_error": str, "prompt_tokens": dict, "standing": str, "why": str, "base": str,
    "plus_flexible": str, "plus_strict": str, "but": str, "superseded_by": str, "source": str,
}  # fmt: skip
AS_SAID = (
    "why", "indexer", "shots", "topology", "other_topology", "prompts", "prompt_tokens", "base", "but",
    "superseded_by",
)  # fmt: skip
CLAIM = {
    "id": str, "kind": str, "leg": str, "base": str, "says": str, "source": str,
    "flexible": str, "strict": str, "but": str, "standing": str, "why": str, "superseded_by": str,
}  # fmt: skip
TOKENS = ("min", "p50", "max")
KINDS = ("difference", "spread", "detectable")
FIGURE = {
    "id": str, "rule": str, "from": dict, "is": str, "says": str, "standing": str, "source": str,
    "why": str, "superseded_by": str,
}  # fmt: skip
TABLES = ("leg", "claim", "figure", "measured", "index_topk", "task")


def load(file: Path = FILE) -> Report:
    """Read ``file``. Raises `InputError`, of which `ReportError` is one."""
    content = toml.read(file)
    unknown = set(content) - set(TABLES)
    if unknown:
        raise ReportError(f"{file.name} has {sorted(unknown)[0]!r}, allowed are {', '.join(TABLES)}")
    legs = [_leg(one, number) for number, one in enumerate(listed(content, "leg"), 1)]
    figures = [_figure(one, number) for number, one in enumerate(listed(content, "figure"), 1)]
    claims = [_claim(one, number, legs) for number, one in enumerate(listed(content, "claim"), 1)]
    measured = measurements.read(listed(content, "measured"))
    entries: list[Leg | Figure | Claim | Measurement] = [*legs, *figures, *claims, *measured.values()]
    ids = [one.id for one in entries]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice:
        raise ReportError(f"{file.name} lists {twice} twice, allowed is once")
    for one in entries:
        if one.superseded_by and (one.superseded_by not in ids or one.superseded_by == one.id):
            raise ReportError(f"{one.id} has superseded_by {one.superseded_by!r}, allowed is another entry")
    topk = content.get("index_topk", 2048)
    if not isinstance(topk, int) or isinstance(topk, bool) or topk < 1:
        raise ReportError(f"{file.name} has index_topk {topk!r}, allowed is a positive whole number")
    task = content.get("task", "gsm8k")
    if not isinstance(task, str) or not task:
        raise ReportError(f"{file.name} has task {task!r}, allowed is the name of an lm-eval task")
    known = {leg.id: leg for leg in legs}
    for leg in legs:
        if leg.base and leg.base not in known:
            raise ReportError(f"leg {leg.id} has base {leg.base!r}, allowed are {', '.join(known)}")
    for one in measured.values():
        if one.around and one.around not in {figure.id for figure in figures}:
            raise ReportError(f"measured {one.id} has around {one.around!r}, allowed is a figure's id")
    return Report(known, tuple(figures), topk, {claim.id: claim for claim in claims}, task, measured)


def _leg(record: Any, number: int) -> Leg:
    found = checked(record, number, "leg", LEG)
    name, n = found["id"], found.get("n", 0)
    if not 1 <= n <= LARGEST_N:
        raise ReportError(f"leg {name} has n {n}, allowed are 1 to {LARGEST_N}")
    _check_counts(found)
    word = standing(found, "leg")
    for which in FILTERS:
        beside = next((key for key in (f"k_{which}", f"{which}_error") if key in found), None)
        if which not in found and beside:
            raise ReportError(f"leg {name} has {beside} and lacks field {which}, which it is about")
    scores = {which: _score(found, which) for which in FILTERS if which in found}
    plus = {
        which: figure_of(name, f"plus_{which}", found[f"plus_{which}"])
        for which in FILTERS
        if f"plus_{which}" in found
    }
    as_said = {key: found[key] for key in AS_SAID if key in found}
    return Leg(name, n, found["source"], word, scores, plus=plus, **as_said)


def _check_counts(found: Mapping[str, Any]) -> None:
    """Raises `ReportError` for a count that can be none."""
    name = found["id"]
    for entry, least in (("prompts", 1), ("shots", 0)):
        if entry in found and not least <= found[entry] <= LARGEST_N:
            raise ReportError(f"leg {name} has {entry} {found[entry]}, allowed are {least} to {LARGEST_N}")
    tokens = found.get("prompt_tokens", {})
    for which, count in tokens.items():
        if which not in TOKENS or not isinstance(count, int) or isinstance(count, bool) or count < 0:
            allowed = "whole numbers of 0 or more as min, p50 and max"
            raise ReportError(f"leg {name} has prompt_tokens.{which} {count!r}, allowed are {allowed}")
    if (rising := [tokens[which] for which in TOKENS if which in tokens]) != sorted(rising):
        raise ReportError(f"leg {name} has prompt_tokens {rising}, allowed are min <= p50 <= max")


def _claim(record: Any, number: int, legs: Sequence[Leg]) -> Claim:
    found = checked(record, number, "claim", CLAIM)
    name, known = found["id"], {leg.id: leg for leg in legs}
    kind, base = found.get("kind", ""), found.get("base", "")
    if kind not in KINDS:
        raise ReportError(f"claim {name} has kind {kind!r}, allowed are {', '.join(KINDS)}")
    if not found.get("says"):
        raise ReportError(f"claim {name} lacks field says")
    for role in ("leg",) if kind == "spread" else ("leg", "base"):
        if found.get(role) not in known:
            allowed = ", ".join(known)
            raise ReportError(f"claim {name} has {role} {found.get(role)!r}, allowed are {allowed}")
    points = {which: figure_of(name, which, found[which]) for which in FILTERS if which in found}
    if kind == "difference":
        both = set(known[found["leg"]].scores) & set(known[base].scores)
        if points or not both:
            raise ReportError(f"claim {name} is a difference, allowed are legs with scores, and no points")
    elif not points or any(one.value <= 0 for one in points.values()):
        raise ReportError(f"claim {name} is a {kind}, allowed are points above 0 under a filter")
    more = {key: found[key] for key in ("but", "why", "superseded_by") if key in found}
    word = standing(found, "claim")
    return Claim(name, kind, found["leg"], base, found["says"], found["source"], points, word, **more)


def _score(found: Mapping[str, Any], which: str) -> Score:
    name, error = found["id"], f"{which}_error"
    return Score(
        figure_of(name, which, found[which]),
        found.get(f"k_{which}"),
        figure_of(name, error, found[error]) if error in found else None,
    )


def _figure(record: Any, number: int) -> Figure:
    found = checked(record, number, "figure", FIGURE)
    for name in ("rule", "from", "is", "says"):
        if name not in found:
            raise ReportError(f"figure {found['id']} lacks field {name}")
    shown = figure_of(found["id"], "is", found["is"])
    more = {key: found[key] for key in ("why", "superseded_by") if key in found}
    word = standing(found, "figure")
    return Figure(
        found["id"], found["rule"], found["from"], shown, found["says"], found["source"], word, **more
    )
