"""Number formats of the indexer: E2M1 (FP4), E8M0 scales, E4M3FN and E4M3FNUZ (FP8).

Contract: a code is a byte (E2M1 uses its low four bits), a value is a float32, and every
rule that two implementations could disagree on (tie, scale, divisor, floor, sign of zero)
is a named argument or a field of `QuantRule`. It fails silently when a rule slips into a
default: three FP4 quantisers near this project break ties in three ways, and all of them
look right on values that are off the midpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

TIES = ("even", "away", "zero", "down")
"""Where a value half way between two codes goes: to the even code, to the larger magnitude, to the
smaller magnitude, toward minus infinity."""

SCALE_RULES = ("ceil", "floor", "even")
"""ceil: smallest power of two >= amax/6 (production); floor: floor(log2 amax) - 2 (OCP);
even: as floor, and one more from 1.75 * 2^n up."""

DIVISORS = ("sixth", "six", "seventh")
"""What ``ceil`` does to amax first: times fl32(1/6) (production), divided by 6, times fl32(1/7)
(a known fault)."""

E8M0_BIAS = 127
E8M0_NAN = 255
GROUP = 32
"""Values that share one E8M0 scale."""


@dataclass(frozen=True)
class FloatFormat:
    """A sign, ``exponent_bits`` and ``mantissa_bits``.

    ``nan`` lists the NaN codes, ``top`` is the largest finite code.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    top: int
    nan: tuple[int, ...]
    negative_zero: bool

    @property
    def sign(self) -> int:
        """The code bit that carries the sign."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def codes(self) -> int:
        return 2 * self.sign


E2M1 = FloatFormat("e2m1", 2, 1, bias=1, top=7, nan=(), negative_zero=True)
E4M3FN = FloatFormat("e4m3fn", 4, 3, bias=7, top=0x7E, nan=(0x7F, 0xFF), negative_zero=True)
E4M3FNUZ = FloatFormat("e4m3fnuz", 4, 3, bias=8, top=0x7F, nan=(0x80,), negative_zero=False)


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}, allowed are {', '.join(allowed)}")


@dataclass(frozen=True)
class QuantRule:
    """Every choice of the FP4 quantiser.

    ``amax_floor`` is a float32 value below which a group's amax is raised; ``keep_negative_zero``
    false turns code 8 into 0 (the fault neg-zero-drop).
    """

    ties: str
    scale: str
    divisor: str = "sixth"
    amax_floor: float = 0.0
    keep_negative_zero: bool = True

    def __post_init__(self) -> None:
        _one_of("ties", self.ties, TIES)
        _one_of("scale", self.scale, SCALE_RULES)
        _one_of("divisor", self.divisor, DIVISORS)


PRODUCTION = QuantRule(ties="even", scale="ceil", divisor="sixth", amax_floor=6 * 2.0**-126)
"""The rule of the production writer (spec indexer.md 1)."""


def power_of_two(exponents: Tensor) -> Tensor:
    """2^``exponents`` as float64 [...], exponents int64 [...] in -1022 to 1023 (unchecked).

    Built from bits because torch.ldexp goes through a float32 power and loses the range.
    """
    return ((exponents.long() + 1023) << 52).view(torch.float64)


def decode(fmt: FloatFormat, codes: Tensor) -> Tensor:
    """Values float32 [...] of ``codes`` uint8 [...]; bits above the format's width are ignored."""
    return _values(fmt).to(codes.device)[(codes & (fmt.codes - 1)).long()]


@lru_cache
def _values(fmt: FloatFormat) -> Tensor:
    """Value of every code, float32 [codes]: (-1)^s 2^(max(e,1)-bias) (m/2^M + [e > 0])."""
    code = torch.arange(fmt.codes)
    mantissa = code & ((1 << fmt.mantissa_bits) - 1)
    exponent = (code & (fmt.sign - 1)) >> fmt.mantissa_bits
    significand = mantissa + ((exponent > 0).long() << fmt.mantissa_bits)
    power = exponent.clamp(min=1) - fmt.bias - fmt.mantissa_bits
    magnitude = significand.double() * power_of_two(power)
    value = torch.where(code >= fmt.sign, -magnitude, magnitude)
    value[list(fmt.nan)] = torch.nan
    return value.float()


def encode(fmt: FloatFormat, values: Tensor, *, ties: str) -> Tensor:
    """Nearest codes uint8 [...] of ``values`` float32 or float64 [...], saturating; ``ties`` one of `TIES`.

    NaN becomes the format's first NaN code; raises ValueError for a NaN where there is none (E2M1).
    """
    _one_of("ties", ties, TIES)
    nan = values.isnan()
    if not fmt.nan and bool(nan.any()):
        raise ValueError(f"values has a NaN, {fmt.name} has none; allowed are numbers and infinities")
    wide = values.double()
    negative = torch.signbit(wide)
    code = _nearest(fmt, wide.abs(), negative, ties)
    signed = negative if fmt.negative_zero else negative & (code > 0)
    code = torch.where(signed, code + fmt.sign, code)
    if fmt.nan:
        code = torch.where(nan, fmt.nan[0], code)
    return code.to(torch.uint8)


def _nearest(fmt: FloatFormat, magnitude: Tensor, negative: Tensor, ties: str) -> Tensor:
    """Code int64 [...] of the value nearest to ``magnitude`` float64 [...] (sign not included)."""
    grid = _values(fmt)[: fmt.top + 1].double().to(magnitude.device)
    midpoint = (grid[1:] + grid[:-1]) / 2
    lower = torch.searchsorted(midpoint, magnitude)  # midpoints strictly below: a tie counts as below
    tie = (lower < fmt.top) & (magnitude == midpoint[lower.clamp(max=fmt.top - 1)])
    up = {
        "even": lower % 2 == 1,
        "away": torch.ones_like(tie),
        "zero": torch.zeros_like(tie),
        "down": negative,
    }[ties]
    return lower + (tie & up).long()


def decode_e8m0(scales: Tensor) -> Tensor:
    """2^(e-127) as float32 [...] of ``scales`` uint8 [...]; 0 is the subnormal 2^-127, 255 is NaN."""
    power = scales.long() - E8M0_BIAS
    return power_of_two(power).masked_fill(scales == E8M0_NAN, torch.nan).float()


def encode_e8m0(exponents: Tensor) -> Tensor:
    """Scale bytes uint8 [...] of powers of two 2^``exponents`` (int [...], else ValueError)."""
    if bool(((exponents < -E8M0_BIAS) | (exponents > E8M0_BIAS)).any()):
        raise ValueError(f"exponents has a value outside the allowed -{E8M0_BIAS} to {E8M0_BIAS}")
    return (exponents + E8M0_BIAS).to(torch.uint8)


def scale_byte(amax: Tensor, rule: QuantRule) -> Tensor:
    """E8M0 byte uint8 [...] for groups whose largest magnitude is ``amax`` float32 [...] (spec indexer.md 1).

    NaN and infinity give 255. Under ``floor`` and ``even`` bytes below 0 are clamped to 0.
    """
    amax = amax.float()
    raised = torch.maximum(amax, torch.tensor(rule.amax_floor, dtype=torch.float32, device=amax.device))
    if rule.scale == "ceil":
        exponent = _ceil_exponent(_divided(raised, rule.divisor))
    else:
        exponent = _floor_exponent(raised, bump=rule.scale == "even") - 2
    byte = (exponent + E8M0_BIAS).clamp(0, E8M0_NAN - 1)
    return byte.masked_fill(~amax.isfinite(), E8M0_NAN).to(torch.uint8)


def _divided(amax: Tensor, divisor: str) -> Tensor:
    if divisor == "six":
        return amax / 6.0
    one = torch.ones((), dtype=torch.float32, device=amax.device)
    return amax * (one / (6.0 if divisor == "sixth" else 7.0))


def _ceil_exponent(value: Tensor) -> Tensor:
    """Exponent of the smallest power of two >= ``value`` float32 [...], at least 2^-127."""
    mantissa, exponent = torch.frexp(value.double())  # mantissa in [0.5, 1)
    return torch.where(mantissa == 0.5, exponent - 1, exponent).masked_fill(value == 0, -E8M0_BIAS)


def _floor_exponent(value: Tensor, *, bump: bool) -> Tensor:
    """floor(log2 value), one more when ``bump`` and the significand is 1.75 or above."""
    mantissa, exponent = torch.frexp(value.double())
    exponent = exponent - 1 + (mantissa >= 0.875).int() * int(bump)
    return exponent.masked_fill(value == 0, -E8M0_BIAS)


def quantise(x: Tensor, rule: QuantRule, *, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """Codes uint8 [..., D] and scale bytes uint8 [..., D/group] of ``x`` float32 or bfloat16 [..., D].

    Codes are x / 2^(e-127) (an exact quotient) rounded by ``rule.ties``. A group with a NaN or
    an infinity has scale 255, which makes every value NaN; its codes are 0 here, and undefined
    in the specification. Raises ValueError when D is not a multiple of ``group``.
    """
    if x.shape[-1] % group:
        raise ValueError(f"x has {x.shape[-1]} columns, allowed are multiples of {group}")
    groups = x.float().unflatten(-1, (-1, group))  # [..., G, group]
    scales = scale_byte(groups.abs().amax(-1), rule)  # [..., G]
    lost = (scales == E8M0_NAN).unsqueeze(-1)
    inverse = power_of_two(E8M0_BIAS - scales.long().unsqueeze(-1))
    exact = groups.double().masked_fill(lost, 0.0) * inverse
    codes = encode(E2M1, exact, ties=rule.ties)
    if not rule.keep_negative_zero:
        codes = codes.masked_fill(codes == E2M1.sign, 0)
    return codes.flatten(-2), scales
