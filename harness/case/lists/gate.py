"""The cases of suite gate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from harness.case.case_limits import CaseError
from harness.case.suite import Suite
from oracles.gate import REFUSALS

if TYPE_CHECKING:
    from harness.case.cases import Case

CHIPS = ("gfx950", "gfx951", "gfx942", "gfx1250", "gfx90a")
"""No gfx951 has been built: it stands for the next of the family, taken by who looks at a name's start."""

RIGHT = {"ask": "fp4", "k": 2048, "d": 128, "h": 64, "kpool": 0, "chip": "gfx950"}
"""An indexer that FP4 is taken for."""

EDGES: tuple[dict[str, int | str], ...] = (
    {},
    {"h": 16},
    {"h": 32, "kpool": 1},
    {"h": 128, "k": 1},
    {"k": 0},
    {"d": 64},
    {"d": 192},
    {"d": 256},
    {"d": 0},
    {"h": 0},
    {"h": 8},
    {"h": 24},
    {"h": 72},
    {"kpool": 2},
    {"kpool": 3},
    {"kpool": 4},
    {"chip": "gfx951"},
    {"chip": "gfx942"},
    {"chip": "gfx1250"},
    {"chip": "gfx90a"},
    {"ask": "fp8"},
    {"ask": "bf16"},
    {"ask": "none"},
    {"ask": "fp8", "chip": "gfx942"},
    {"ask": "none", "d": 256, "chip": "gfx90a"},
    {"d": 256, "chip": "gfx942"},
)
"""One thing changed at a time, either side of every edge of the table; then two."""
V4_EDGES: tuple[dict[str, int | str], ...] = (
    {},
    {"chip": "gfx951"},
    {"chip": "gfx942"},
    {"chip": "gfx1250"},
    {"chip": "gfx90a"},
    {"ask": "fp8", "chip": "gfx942"},
    {"ask": "none"},
)
"""DeepSeek-V4's rule looks at the dtype and the chip."""


def _predicate(rule: str, changed: dict[str, int | str]) -> str:
    fields = "-".join(f"{name}{value}" for name, value in {**RIGHT, **changed}.items())
    return f"gate-rule{rule}-{fields}"


SMOKE: tuple[str, ...] = (
    *(_predicate("dsa", changed) for changed in EDGES),
    *(_predicate("v4", changed) for changed in V4_EDGES),
    *(f"gate-rule{rule}-by{by}" for rule, refusals in REFUSALS.items() for by in refusals),
)


def full() -> Iterator[str]:
    """The product of both tables; a case of the smoke list that it meets again is listed once."""
    values = {
        "ask": ("fp4", "fp8", "none"),
        "k": (2048, 0),
        "d": (128, 64, 256),
        "h": (64, 32, 24, 0),
        "kpool": (0, 1, 2),
        "chip": ("gfx950", "gfx942", "gfx1250"),
    }
    listed = set(SMOKE)
    for chosen in product(*values.values()):
        case = _predicate("dsa", dict(zip(values, chosen, strict=True)))
        if case not in listed:
            yield case
    for ask, chip in product(("fp4", "fp8", "bf16", "none"), CHIPS):
        case = _predicate("v4", {"ask": ask, "chip": chip})
        if case not in listed:
            yield case


def check(case: Case) -> None:
    """A family refuses what is its own."""
    if case.by and case.by not in REFUSALS[case.rule]:
        raise CaseError(
            f"field by is {case.by!r}, allowed with rule {case.rule} are {', '.join(REFUSALS[case.rule])}"
        )


SUITE = Suite(
    name="gate",
    about="when FP4 is taken, and what is refused",
    kinds={"predicate": ("rule", "ask", "k", "d", "h", "kpool", "chip"), "refusal": ("rule", "by")},
    smoke=SMOKE,
    full=full,
    fills={},
    limits={"k": range((1 << 17) + 1), "d": range((1 << 12) + 1), "h": range((1 << 12) + 1)},
    geometry=False,
    check=check,
)
