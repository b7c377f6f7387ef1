"""Two float32 values to two E2M1 codes under a scale: nearest, ties to even, saturating, one byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
import torch

from harness.emulator.conversions import to_fp4
from suites.self.emulator_builder import F32, I32, apply

MAGNITUDES = tuple(Fraction(half, 2) for half in (0, 1, 2, 3, 4, 6, 8, 12))
ULP = 2.0**-23


def code(value: float) -> int:
    """The nearest E2M1 code by trying all eight magnitudes; of two equally near, the even one."""
    sign = 8 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value) or math.isinf(value):
        return sign | 7
    size = abs(Fraction(value))
    return sign | min(range(8), key=lambda c: (abs(MAGNITUDES[c] - size), c % 2))


def around_every_midpoint() -> list[float]:
    """All codes' values, all midpoints between them, and one float32 either side of each, of both signs."""
    points = [float(m) for m in MAGNITUDES]
    points += [(a + b) / 2 for a, b in pairwise(points)]
    points += [7.0, 6.0 + 2.0**-20, 2.0**-149, 2.0**-126, 1e30, (2 - ULP) * 2.0**127]
    near = [v for p in points for v in (p, p * (1 - ULP), p * (1 + ULP))]
    kept = torch.tensor(near).double().tolist()
    both = [*kept, *(-value for value in kept), math.inf, -math.inf, math.nan]
    return both


def test_codes_at_and_around_every_midpoint() -> None:
    values = around_every_midpoint()
    assert to_fp4(torch.tensor(values)).tolist() == [code(value) for value in values]


def test_zero_keeps_its_sign_and_so_does_what_rounds_to_it() -> None:
    assert to_fp4(torch.tensor([0.0, -0.0, 0.25, -0.25, 2.0**-149, -(2.0**-149)])).tolist() == [
        0,
        8,
        0,
        8,
        0,
        8,
    ]


def packed(old: int, low: int, high: int, select: int) -> int:
    """``old`` with byte ``select`` replaced by two codes, as a signed 32-bit number."""
    octets = bytearray((old % 2**32).to_bytes(4, "little"))
    octets[select] = low | high << 4
    return int.from_bytes(bytes(octets), "little", signed=True)


def convert(
    old: Sequence[int], low: Sequence[float], high: Sequence[float], scale: Sequence[float], select: int
) -> list[int]:
    operands = [(I32, old), (F32, low), (F32, high), (F32, scale)]
    listed: list[int] = apply("cvt_scale_pk_fp4", I32, operands, select=select).tolist()
    return listed


@pytest.mark.parametrize("select", range(4))
def test_the_chosen_byte_is_replaced_and_the_others_kept(select: int) -> None:
    """Low value in the low nibble, for every byte, also where operands are one number for all lanes."""
    values = around_every_midpoint()
    other = values[::-1]
    old = [(-1, 0, 0x12345678, -(2**31))[i % 4] for i in range(len(values))]
    got = convert(old, values, other, [1.0] * len(values), select)
    assert got == [packed(o, code(x), code(y), select) for o, x, y in zip(old, values, other, strict=True)]


@pytest.mark.parametrize("exponent", (-126, -20, -1, 1, 60, 127))
def test_the_scale_divides_before_the_one_rounding(exponent: int) -> None:
    """Also where the value itself, or the quotient, is no normal float32."""
    scale = 2.0**exponent
    wanted = [v for v in around_every_midpoint() if math.isfinite(v) and abs(v) <= 12]
    values = torch.tensor([v * scale for v in wanted], dtype=torch.float64).float().double().tolist()
    values += [2.0**-149, -(2.0**-149), 2.0**127, math.inf]
    quotients = [v if not math.isfinite(v) else Fraction(v) / Fraction(scale) for v in values]
    want = [
        (8 if v < 0 or math.copysign(1, v) < 0 else 0) | code_of(q)
        for v, q in zip(values, quotients, strict=True)
    ]
    got = convert([0] * len(values), values, [0.0] * len(values), [scale] * len(values), 0)
    assert got == want


def code_of(quotient: Fraction | float) -> int:
    if isinstance(quotient, float):
        return 7
    return min(range(8), key=lambda c: (abs(MAGNITUDES[c] - abs(quotient)), c % 2))


def test_only_the_exponent_of_the_scale_counts() -> None:
    """Mantissa and sign of the scale are ignored, as the instruction takes an E8M0 exponent."""
    for scale in (1.0, 1.5, -1.0, 2 - ULP):
        assert convert([0], [3.0], [-6.0], [scale], 0) == [0xF5]
    assert convert([0], [3.0], [-6.0], [2.0], 0) == [0xD3]


def test_a_scale_of_zero_is_the_smallest_exponent() -> None:
    """The register's exponent field 0 means 2**-127, not a division by zero."""
    assert convert([0], [2.0**-127], [-3 * 2.0**-128], [0.0], 0) == [0xB2]
