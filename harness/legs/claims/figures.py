"""Rules by which a reported figure must follow from others: bytes, blocks, units, points, sigmas.

Each rule states its formula in numbers of its own (spec indexer.md 3 and 5), so that the figure in
the report and the code that made it are both checked. A rule that took its constants from
the code under audit would agree with whatever that code says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from harness.legs.claims.arithmetic import sigmas
from harness.legs.claims.entries import ReportError
from harness.legs.claims.reported import Leg

Legs = Mapping[str, Leg]


def fp4_page(rows: int, dim: int) -> int:
    """Bytes of an FP4 page and layer: half a byte a value, one scale byte for 32 values."""
    return rows * dim // 2 + rows * dim // 32


def fp8_page(rows: int, dim: int) -> int:
    """Bytes of an FP8 page and layer: a row of dim bytes and a float32 scale, padded to 16."""
    return rows * -(-(dim + 4) // 16) * 16


def saved_bytes(given: Mapping[str, Any], legs: Legs) -> Fraction:
    rows, dim = given["rows"], given["dim"]
    return Fraction(given["layers"] * (fp8_page(rows, dim) - fp4_page(rows, dim)))


def byte_ratio(given: Mapping[str, Any], legs: Legs) -> Fraction:
    return Fraction(fp4_page(given["rows"], given["dim"]), fp8_page(given["rows"], given["dim"]))


def gain_percent(given: Mapping[str, Any], legs: Legs) -> Fraction:
    return Fraction(100 * (given["more"] - given["fewer"]), given["fewer"])


def units(given: Mapping[str, Any], legs: Legs) -> Fraction:
    """f(N) = N * max(ceil(512 / N), max_bs)."""
    return Fraction(given["next_n"] * max(math.ceil(512 / given["next_n"]), given["max_bs"]))


def points(given: Mapping[str, Any], legs: Legs) -> Fraction:
    (k, n), (j, m) = _pair(given, legs)
    return 100 * (Fraction(k, n) - Fraction(j, m))


def combined(given: Mapping[str, Any], legs: Legs) -> Fraction:
    """Difference over the square root of the sum of squared standard errors (unpaired)."""
    pair = _pair(given, legs)
    found = sigmas(*pair)
    if math.isnan(found):
        (k, n), (j, m) = pair
        raise ReportError(f"figure needs an error of {k}/{n} and {j}/{m}, which have none")
    return Fraction(found)


def distinct(given: Mapping[str, Any], legs: Legs) -> Fraction:
    """Most different texts that prompts * runs answers can be."""
    return Fraction(given["prompts"] * given["runs"])


TEXTS = ("first", "second", "filter")
"""Keys of ``from`` that hold a name; all others hold whole numbers."""

LARGEST = 10**12


def check(name: str, given: Mapping[str, Any]) -> None:
    """Raises `ReportError` where ``given`` of figure ``name`` holds what no rule can take."""
    for key, value in given.items():
        number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST
        if key in TEXTS and not isinstance(value, str):
            raise ReportError(f"figure {name} has from.{key} {value!r}, allowed is a name")
        if key not in TEXTS and not number:
            raise ReportError(f"figure {name} has from.{key} {value!r}, allowed are 1 to {LARGEST}")


RULES: Mapping[str, tuple[Callable[[Mapping[str, Any], Legs], Fraction], tuple[str, ...]]] = {
    "saved-bytes": (saved_bytes, ("layers", "rows", "dim")),
    "byte-ratio": (byte_ratio, ("rows", "dim")),
    "gain-percent": (gain_percent, ("more", "fewer")),
    "units": (units, ("next_n", "max_bs")),
    "points": (points, ("first", "second", "filter")),
    "sigmas": (combined, ("first", "second", "filter")),
    "distinct": (distinct, ("prompts", "runs", "hashes")),
}
"""Rule to (formula, the keys of ``from`` that it takes)."""


def _pair(given: Mapping[str, Any], legs: Legs) -> tuple[tuple[int, int], tuple[int, int]]:
    one, other = (_count(legs, given[name], given["filter"]) for name in ("first", "second"))
    return one, other


def _count(legs: Legs, name: str, which: str) -> tuple[int, int]:
    if name not in legs:
        raise ReportError(f"figure names leg {name!r}, allowed are {', '.join(legs)}")
    score = legs[name].scores.get(which)
    if score is None or score.k is None:
        raise ReportError(f"figure needs the {which} count of leg {name}, which is not given")
    if not 0 <= score.k <= legs[name].n:
        raise ReportError(f"figure needs the {which} count of leg {name}, which is {score.k}/{legs[name].n}")
    return score.k, legs[name].n
