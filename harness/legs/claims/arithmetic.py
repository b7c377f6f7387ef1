"""What a printed figure can and cannot be, from its digits alone.

A figure is kept as the text that was printed, because its last digit says how far it may have been
rounded: 0.97 and 0.9700 are different claims. All comparisons are exact (`Fraction`); binary floats
would move a figure that lies on the edge of a rounding interval, which is where GRIM decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

LARGEST_N = 1_000_000


@dataclass(frozen=True)
class Printed:
    """A number as printed: its value, and half a unit of its last digit."""

    text: str
    value: Fraction
    half: Fraction

    @property
    def low(self) -> Fraction:
        return self.value - self.half

    @property
    def high(self) -> Fraction:
        return self.value + self.half

    def holds(self, exact: Fraction) -> bool:
        """Whether ``exact`` rounds to this figure (ties may go either way)."""
        return self.low <= exact <= self.high


def printed(text: str) -> Printed:
    """The figure ``text``: a plain decimal, or one with a percent sign. Raises ValueError."""
    shown = text.strip()
    percent = shown.endswith("%")
    digits = shown.removesuffix("%").strip()
    whole, _, decimals = digits.lstrip("+-").partition(".")
    if not (whole + decimals).isdigit() or not (whole + decimals).isascii():
        raise ValueError(f"{text!r} is no decimal number")
    scale = Fraction(1, 100) if percent else Fraction(1)
    return Printed(shown, Fraction(digits) * scale, Fraction(1, 2 * 10 ** len(decimals)) * scale)


def counts(figure: Printed, n: int) -> range:
    """Counts k with k/n printed as ``figure`` (GRIM; Brown and Heathers 2017). Raises ValueError on n.

    Empty: no count out of n gives this proportion.
    """
    if not 1 <= n <= LARGEST_N:
        raise ValueError(f"n is {n}, allowed are 1 to {LARGEST_N}")
    first, last = math.ceil(figure.low * n), math.floor(figure.high * n)
    return range(max(first, 0), min(last, n) + 1)


def standard_errors(k: int, n: int) -> tuple[float, float]:
    """(sqrt(p(1-p)/n), sqrt(p(1-p)/(n-1))) of k right answers out of n: the two conventions in use.

    lm-eval prints the second (sample standard deviation over sqrt(n)). Undefined (NaN) for n = 1.
    """
    spread = k * (n - k) / n**2
    return math.sqrt(spread / n), math.sqrt(spread / (n - 1)) if n > 1 else math.nan


def error_fits(figure: Printed, k: int, n: int) -> bool:
    """Whether ``figure`` is the standard error of k out of n under either convention.

    One unit in the last place is granted for a figure that was cut off instead of rounded.
    """
    slack = 2 * figure.half
    return any(
        not math.isnan(error) and abs(Fraction(error) - figure.value) <= slack
        for error in standard_errors(k, n)
    )


def sigmas(first: tuple[int, int], second: tuple[int, int]) -> float:
    """|p1 - p2| in combined standard errors, for two (k, n); NaN when neither varies."""
    (k, n), (j, m) = first, second
    combined = math.hypot(standard_errors(k, n)[0], standard_errors(j, m)[0])
    return abs(k / n - j / m) / combined if combined else math.nan
