"""What is true of the number formats, of both the vectorised functions and their scalar twins."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from oracles import formats
from oracles.formats import E2M1, E4M3FN, E4M3FNUZ, PRODUCTION, SCALE_RULES, TIES, FloatFormat, QuantRule
from oracles.scalar import formats as scalar

FORMATS = (E2M1, E4M3FN, E4M3FNUZ)
OUTSIDE = {
    "e2m1": (ml_dtypes.float4_e2m1fn, gfloat.formats.format_info_ocp_e2m1),
    "e4m3fn": (ml_dtypes.float8_e4m3fn, gfloat.formats.format_info_ocp_e4m3),
    "e4m3fnuz": (
        ml_dtypes.float8_e4m3fnuz,
        gfloat.formats.format_info_p3109(8, 4, domain=gfloat.Domain.Finite),
    ),
}
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def bits(values: Tensor) -> list[int]:
    """float32 bit patterns, every NaN the same, so that -0 and 0 differ."""
    values = torch.where(values.isnan(), torch.nan, values)
    return values.float().contiguous().view(torch.int32).tolist()


def each(function: Callable[..., float], values: Tensor) -> Tensor:
    return torch.tensor([function(value) for value in values.tolist()], dtype=torch.float64)


def decode_both(fmt: FloatFormat, codes: Tensor) -> Tensor:
    fast = formats.decode(fmt, codes)
    assert bits(fast) == bits(each(lambda code: scalar.decode(fmt, code), codes))
    return fast


def encode_both(fmt: FloatFormat, values: Tensor, ties: str) -> Tensor:
    fast = formats.encode(fmt, values, ties=ties)
    assert fast.tolist() == [scalar.encode(fmt, value, ties=ties) for value in values.tolist()]
    return fast


def scales_both(amax: Tensor, rule: QuantRule) -> list[int]:
    fast = formats.scale_byte(amax, rule).tolist()
    assert fast == [scalar.scale_byte(value, rule) for value in amax.tolist()]
    return fast


def quantise_both(x: Tensor, rule: QuantRule) -> tuple[Tensor, Tensor]:
    codes, scales = formats.quantise(x, rule)
    pairs = [scalar.quantise(row, rule) for row in x.float().tolist()]
    assert codes.tolist() == [pair[0] for pair in pairs]
    assert scales.tolist() == [pair[1] for pair in pairs]
    return codes, scales


def near_grid(fmt: FloatFormat) -> Tensor:
    """Every value, every midpoint, one float32 step either side, both signs, zeros, infinities, random."""
    grid = formats.decode(fmt, torch.arange(fmt.top + 1, dtype=torch.uint8))
    points = torch.cat([grid, (grid[1:] + grid[:-1]) / 2, grid[-1:] * 1.03, grid[-1:] * 1e9])
    up = torch.nextafter(points, torch.tensor(torch.inf))
    down = torch.nextafter(points, torch.tensor(-torch.inf)).clamp(min=0)
    noise = torch.randn(300, generator=torch.Generator().manual_seed(5)) * grid[-1] / 3
    points = torch.cat([points, up, down, noise.abs(), torch.tensor([torch.inf, 1e-40])])
    return torch.cat([points, -points])


def test_e2m1_codes_have_the_specified_values() -> None:
    """Codes 0-7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; 8+c is the negative; 8 is -0."""
    magnitudes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = decode_both(E2M1, torch.arange(16, dtype=torch.uint8))
    assert bits(values) == bits(torch.cat([magnitudes, -magnitudes]))


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_every_code_decodes_as_ml_dtypes_and_gfloat_say(fmt: FloatFormat) -> None:
    """All codes, bit for bit, NaN and the sign of zero included."""
    codes = torch.arange(fmt.codes, dtype=torch.uint8)
    values = decode_both(fmt, codes)
    dtype, info = OUTSIDE[fmt.name]
    assert bits(values) == bits(torch.from_numpy(codes.numpy().view(dtype).astype(np.float32)))
    assert bits(values) == bits(
        torch.tensor([gfloat.decode_float(info, code).fval for code in range(fmt.codes)])
    )


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("ties", TIES)
def test_every_code_survives_decode_and_encode(fmt: FloatFormat, ties: str) -> None:
    codes = torch.tensor([code for code in range(fmt.codes) if code not in fmt.nan], dtype=torch.uint8)
    assert encode_both(fmt, decode_both(fmt, codes), ties).tolist() == codes.tolist()


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
def test_half_to_even_is_what_ml_dtypes_and_gfloat_do(fmt: FloatFormat) -> None:
    """On and beside every value and midpoint; ml_dtypes within the range, gfloat saturating."""
    values = near_grid(fmt)
    codes = encode_both(fmt, values, "even").tolist()
    dtype, info = OUTSIDE[fmt.name]
    rounded = [
        gfloat.round_float(info, value, gfloat.RoundMode.TiesToEven, sat=True) for value in values.tolist()
    ]
    assert codes == [gfloat.encode_float(info, value) for value in rounded]
    inside = values.abs() <= formats.decode(fmt, torch.tensor([fmt.top], dtype=torch.uint8))
    theirs = values[inside].numpy().astype(dtype).view(np.uint8)
    assert [code for code, keep in zip(codes, inside.tolist(), strict=True) if keep] == theirs.tolist()


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("ties", TIES)
def test_scalar_and_vectorised_encoding_agree_near_every_midpoint(fmt: FloatFormat, ties: str) -> None:
    encode_both(fmt, near_grid(fmt), ties)


@pytest.mark.parametrize(
    ("ties", "positive", "negative"),
    [
        ("even", [0, 1, 1, 2, 2, 4, 4], [0, 1, 1, 2, 2, 4, 4]),
        ("away", [0.5, 1, 1.5, 2, 3, 4, 6], [0.5, 1, 1.5, 2, 3, 4, 6]),
        ("zero", [0, 0.5, 1, 1.5, 2, 3, 4], [0, 0.5, 1, 1.5, 2, 3, 4]),
        ("down", [0, 0.5, 1, 1.5, 2, 3, 4], [0.5, 1, 1.5, 2, 3, 4, 6]),
    ],
)
def test_the_seven_midpoints(ties: str, positive: list[float], negative: list[float]) -> None:
    """Field report B02 for even; the other rules are the named faults. -0.25 keeps its sign."""
    values = torch.tensor(MIDPOINTS)
    assert decode_both(E2M1, encode_both(E2M1, values, ties)).tolist() == positive
    below = decode_both(E2M1, encode_both(E2M1, -values, ties))
    assert bits(below) == bits(-torch.tensor(negative, dtype=torch.float32))


def test_e2m1_refuses_nan() -> None:
    with pytest.raises(ValueError, match="values has a NaN"):
        formats.encode(E2M1, torch.tensor([math.nan]), ties="even")
    with pytest.raises(ValueError, match="NaN"):
        scalar.encode(E2M1, math.nan, ties="even")


@pytest.mark.parametrize("fmt", (E4M3FN, E4M3FNUZ), ids=lambda fmt: fmt.name)
def test_fp8_keeps_nan(fmt: FloatFormat) -> None:
    assert decode_both(fmt, encode_both(fmt, torch.tensor([math.nan, -math.nan]), "even")).isnan().all()


def test_fp8_maxima() -> None:
    """448 on gfx950, 240 on gfx942."""
    for fmt, top in ((E4M3FN, 448.0), (E4M3FNUZ, 240.0)):
        assert decode_both(fmt, encode_both(fmt, torch.tensor([1e30]), "even")).item() == top


def test_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ties is 'up', allowed are even, away, zero, down"):
        formats.encode(E2M1, torch.zeros(1), ties="up")
    with pytest.raises(ValueError, match="scale is 'round', allowed are ceil, floor, even"):
        QuantRule(ties="even", scale="round")


def test_every_scale_byte_decodes_as_specified() -> None:
    """2^(e-127), byte 0 is subnormal and not zero, 255 is NaN; ml_dtypes and gfloat agree on all 256."""
    codes = torch.arange(256, dtype=torch.uint8)
    values = formats.decode_e8m0(codes)
    assert bits(values) == bits(each(scalar.decode_e8m0, codes))
    powers = [2.0 ** (code - 127) for code in range(255)] + [math.nan]
    assert bits(values) == bits(torch.tensor(powers, dtype=torch.float64))
    theirs = codes.numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert bits(values) == bits(torch.from_numpy(theirs))
    info = gfloat.formats.format_info_ocp_e8m0
    assert bits(values) == bits(torch.tensor([gfloat.decode_float(info, code).fval for code in range(256)]))
    assert values[0].item() == 2.0**-127 and values[254].item() == 2.0**127 and values[255].isnan()


def test_scale_exponents_round_trip_and_are_bounded() -> None:
    exponents = torch.arange(-127, 128)
    codes = formats.encode_e8m0(exponents)
    assert codes.tolist() == [scalar.encode_e8m0(value) for value in exponents.tolist()] == list(range(255))
    for value in (-128, 128):
        with pytest.raises(ValueError, match="exponent"):
            formats.encode_e8m0(torch.tensor([value]))
        with pytest.raises(ValueError, match="exponent"):
            scalar.encode_e8m0(value)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("ceil", [127, 128, 128, 128, 128, 128, 129]),
        ("floor", [127, 127, 127, 127, 128, 128, 128]),
        ("even", [127, 127, 127, 128, 128, 128, 128]),
    ],
)
def test_scale_rules_on_the_reported_maxima(rule: str, expected: list[int]) -> None:
    """Field report B01."""
    amax = torch.tensor([6.0, 6.03125, 6.5, 7.0, 8.0, 12.0, 13.0])
    assert scales_both(amax, QuantRule(ties="even", scale=rule)) == expected


def test_production_scale_of_quiet_groups() -> None:
    """Zero gives 1; 7e-6 gives 2^-19 and code 4; a floor of 1e-4 would give 2^-15 and code 0 (B03)."""
    assert scales_both(torch.tensor([0.0, 2.0**-126, 7e-6]), PRODUCTION) == [1, 1, 127 - 19]
    quiet = torch.full((1, 32), 7e-6)
    assert quantise_both(quiet, PRODUCTION)[0].unique().tolist() == [6]
    loud = QuantRule(ties="even", scale="ceil", amax_floor=float(torch.tensor(1e-4)))
    codes, scales = quantise_both(quiet, loud)
    assert (codes.unique().tolist(), scales.tolist()) == ([0], [[127 - 15]])


def test_scale_of_what_is_not_finite_is_nan() -> None:
    for rule in SCALE_RULES:
        values = torch.tensor([torch.inf, torch.nan])
        assert scales_both(values, QuantRule(ties="even", scale=rule)) == [255, 255]


@pytest.mark.parametrize("rule", SCALE_RULES)
@pytest.mark.parametrize("divisor", formats.DIVISORS)
def test_scales_agree_with_the_twin_at_every_boundary(rule: str, divisor: str) -> None:
    """6*2^k, 7*2^k, 8*2^k and one float32 step either side, over the whole range."""
    points = torch.tensor([6.0, 7.0, 8.0]) * 2.0 ** torch.arange(-125.0, 125.0, 5).unsqueeze(-1)
    points = points.flatten()
    up = torch.nextafter(points, torch.tensor(torch.inf))
    down = torch.nextafter(points, torch.tensor(0.0))
    tiny = torch.tensor([0.0, 1e-45, 2.0**-149, 2.0**-127, 3.4028234663852886e38])
    for floor in (0.0, PRODUCTION.amax_floor):
        scales_both(torch.cat([points, up, down, tiny]), QuantRule("even", rule, divisor, floor))


def test_multiplying_by_a_sixth_keeps_powers_of_two() -> None:
    """fl32(1/6) is above 1/6, yet 6*2^k times it rounds to 2^k, which must not be bumped."""
    powers = torch.arange(-120, 120)
    amax = 6.0 * formats.decode_e8m0(formats.encode_e8m0(powers))
    assert scales_both(amax, PRODUCTION) == (powers + 127).tolist()
    above = torch.nextafter(amax, torch.tensor(torch.inf))
    assert scales_both(above, PRODUCTION) == (powers + 128).tolist()


def test_floor_rule_is_gfloats_mx_rule() -> None:
    amax = torch.rand(200, generator=torch.Generator().manual_seed(2)) * 40 + 1e-3
    theirs = [gfloat.compute_scale_amax(2.0, np.array([value])) for value in amax.tolist()]
    assert [2.0 ** (byte - 127) for byte in scales_both(amax, QuantRule("even", "floor"))] == theirs


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("ties", TIES)
def test_quantise_agrees_with_its_twin(ties: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(11)
    spread = 2.0 ** torch.randint(-130, 120, (6, 4, 1), generator=generator).float()
    x = (torch.randn(6, 4, 32, generator=generator) * spread).flatten(1).to(dtype)
    quantise_both(x, QuantRule(ties=ties, scale="ceil", amax_floor=PRODUCTION.amax_floor))


def test_production_never_saturates_and_reaches_the_upper_half() -> None:
    """Round-up scales put every group maximum in (3, 6]: code 5, 6 or 7 (5 only by rounding down to 3)."""
    x = torch.randn(200, 32, generator=torch.Generator().manual_seed(3))
    codes, scales = quantise_both(x, PRODUCTION)
    scaled = x.double().abs().amax(-1) / formats.decode_e8m0(scales).double().squeeze(-1)
    assert bool(((scaled > 3) & (scaled <= 6)).all())
    assert int((codes & 7).amax(-1).min()) >= 5


def test_sign_of_a_negative_that_rounds_to_zero_is_kept_unless_dropped_by_name() -> None:
    x = torch.tensor([[6.0, -0.1, -0.0] + [0.0] * 29])
    assert quantise_both(x, PRODUCTION)[0][0, :4].tolist() == [7, 8, 8, 0]
    dropped = QuantRule("even", "ceil", amax_floor=PRODUCTION.amax_floor, keep_negative_zero=False)
    assert quantise_both(x, dropped)[0][0, :4].tolist() == [7, 0, 0, 0]


def test_a_group_with_nan_or_infinity_is_lost_alone() -> None:
    x = torch.ones(2, 64)
    x[0, 3], x[1, 40] = torch.nan, -torch.inf
    codes, scales = quantise_both(x, PRODUCTION)
    assert scales.tolist() == [[255, 125], [125, 255]]
    assert codes[0, 32:].unique().tolist() == [6]


def test_quantise_refuses_a_broken_group() -> None:
    with pytest.raises(ValueError, match="x has 33 columns, allowed are multiples of 32"):
        formats.quantise(torch.zeros(1, 33), PRODUCTION)


def test_the_sixth_is_the_float32_nearest_to_a_sixth() -> None:
    assert struct.unpack("I", struct.pack("f", 1 / 6))[0] == 0x3E2AAAAB
