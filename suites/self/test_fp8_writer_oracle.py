"""The oracle of the fused FP8 writer, in both modes of subnormals: its scalar twin, and outside opinions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from harness.checks.writer import inputs as writer_inputs
from oracles import eightbit_pages, eightbit_subnormals, eightbit_writer, normalise, prepare
from oracles.eightbit import FORMATS
from oracles.eightbit_subnormals import FUSED, MODES
from oracles.eightbit_writer import Writer8
from oracles.normalise import Range, ordered
from oracles.scalar import eightbit_writer as scalar
from oracles.scalar.eightbit_writer import Arithmetic

PAIRINGS = pytest.mark.parametrize("pairing", prepare.PAIRINGS)
BORDER = 2.0**-126
STEP = 2.0**-133
SPECIAL = (
    0.0,
    -0.0,
    BORDER,
    -BORDER,
    BORDER - STEP,
    STEP - BORDER,
    BORDER + STEP,
    STEP,
    -STEP,
    2.0**-120,
    3e-5,
)
"""Zeros, the border, one bfloat16 step to either side of it, the least number, and numbers well above."""
POSITIONS = torch.tensor([0, 1, 4095])
ORDERS = (scalar.chain, scalar.halves)


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def special(seed: int, *shape: int) -> Tensor:
    """`SPECIAL` in any order, bfloat16."""
    drawn = torch.randint(len(SPECIAL), shape, generator=torch.Generator().manual_seed(seed))
    return torch.tensor(SPECIAL)[drawn].bfloat16()


FILLS = {
    "gaussian": noise(1, 3, 128).bfloat16(),
    "spread": (noise(2, 3, 128) * torch.exp2(torch.arange(128) % 24 - 12.0)).bfloat16(),
    "special": special(3, 3, 128),
    "quiet": (noise(4, 3, 128) * 2.0**-124).bfloat16(),
}
FILLED = pytest.mark.parametrize("fill", FILLS)


def writer(**more: object) -> Writer8:
    cos, sin = writer_inputs.tables()
    plain = Writer8(
        1 + 0.1 * noise(5, 128), 0.1 * noise(6, 128), cos, sin, "neox", FORMATS["fn"], True, "flat", 0.011
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def table_rows(made: Writer8, row: int) -> tuple[list[float], list[float]]:
    place = int(POSITIONS[row])
    return made.cos[place].tolist(), made.sin[place].tolist()


def arithmetic(mode: str, fused: str) -> Arithmetic:
    return Arithmetic(mode == "flushed", fused)


def same_bits(got: list[float], want: Tensor) -> bool:
    return torch.equal(torch.tensor(got).view(torch.int32), want.float().view(torch.int32))


@PAIRINGS
@FILLED
@pytest.mark.parametrize(("mode", "fused"), list(itertools.product(MODES, FUSED)))
def test_rotation_is_the_scalar_twins(pairing: str, fill: str, mode: str, fused: str) -> None:
    """Bit for bit, signs of zeros too, in every arithmetic that a compiler may make of it."""
    made = writer()
    turned = eightbit_subnormals.rope(
        FILLS[fill], made.cos, made.sin, POSITIONS, pairing=pairing, mode=mode, fused=fused
    )
    for row in range(3):
        want = scalar.rope(
            FILLS[fill][row].tolist(),
            *table_rows(made, row),
            pairing=pairing,
            arithmetic=arithmetic(mode, fused),
        )
        assert same_bits(want, turned[row])


@PAIRINGS
@FILLED
def test_what_is_kept_is_the_rotation_of_the_definition(pairing: str, fill: str) -> None:
    """Without flushing and fusing it is `oracles.prepare.rope`."""
    made = writer()
    got = eightbit_subnormals.rope(
        FILLS[fill], made.cos, made.sin, POSITIONS, pairing=pairing, mode="kept", fused="none"
    )
    want = prepare.rope(FILLS[fill], made.cos, made.sin, POSITIONS, pairing=pairing)
    assert torch.equal(got.view(torch.int16), want.view(torch.int16))


@PAIRINGS
@FILLED
@pytest.mark.parametrize(("fmt", "power"), [("fn", True), ("fnuz", False)])
def test_queries_are_the_scalar_twins(pairing: str, fill: str, fmt: str, power: bool) -> None:
    """Codes and folded weights, and in each mode the scalar twin's answer is a right one."""
    made = writer(pairing=pairing, fmt=FORMATS[fmt], power_of_two=power)
    q, weights = FILLS[fill][:, None], torch.tensor([[1.5], [-(2.0**-100)], [2.0**-84]]).bfloat16()
    codes, folded = eightbit_writer.queries(made, q, weights, POSITIONS)
    for row, mode, fused in itertools.product((1, 2), MODES, FUSED):
        own = arithmetic(mode, fused)
        turned = scalar.rope(q[row, 0].tolist(), *table_rows(made, row), pairing=pairing, arithmetic=own)
        wanted = scalar.query(turned, float(weights[row]), 0.011, FORMATS[fmt], power=power, arithmetic=own)
        found = torch.tensor(wanted[0], dtype=torch.uint8).expand(3, 1, 128)
        right = eightbit_writer.settle_queries(made, q, weights, POSITIONS, found, mode=mode)
        assert right[0][row, 0].tolist() == wanted[0]
        assert same_bits([wanted[1]], right[1][row])
        if (mode, fused) == ("kept", "none"):
            assert codes[row, 0].tolist() == wanted[0] and same_bits([wanted[1]], folded[row])


@pytest.mark.parametrize("fill", ["gaussian", "spread"])
def test_without_a_subnormal_the_modes_are_one(fill: str) -> None:
    """No code, weight or key is opened by the rule where nothing is below 2^-126."""
    made, q = writer(), FILLS[fill][:, None]
    weights = noise(7, 3, 1).bfloat16()
    codes, folded = eightbit_writer.queries(made, q, weights, POSITIONS)
    for mode in MODES:
        wrong = eightbit_writer.settle_queries(made, q, weights, POSITIONS, codes ^ 128, mode=mode)
        assert torch.equal(wrong[0], codes) and torch.equal(wrong[1], folded)
    kept, flushed = (eightbit_writer.key_range(made, FILLS[fill], POSITIONS, mode=mode) for mode in MODES)
    for one, other in ((kept.low, flushed.low), (kept.high, flushed.high)):
        assert torch.equal(one.view(torch.int16), other.view(torch.int16))


def inside(values: list[float], held: Range, row: int) -> bool:
    order = ordered(torch.tensor(values).bfloat16())
    return bool(((ordered(held.low[row]) <= order) & (order <= ordered(held.high[row]))).all())


WEIGHTS = {
    "natural": (1 + 0.1 * noise(5, 128), 0.1 * noise(6, 128)),
    "tiny": (
        torch.tensor((BORDER, 2 * BORDER, 7e-6, -BORDER)).repeat(32),
        torch.tensor((0.0, -0.0)).repeat(64),
    ),
    "subnormal": (noise(8, 128), torch.tensor((BORDER - 2.0**-149, -(2.0**-149))).repeat(64)),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@FILLED
@pytest.mark.parametrize("mode", MODES)
def test_every_evaluation_of_a_key_is_in_the_range(weights: str, fill: str, mode: str) -> None:
    """Any order of summation, fused or not, subnormals as the mode says; after the rotation too."""
    weight, bias = WEIGHTS[weights]
    made = writer(norm_weight=weight, norm_bias=bias)
    normal = (
        eightbit_subnormals.layer_norm_range(FILLS[fill], weight, bias)
        if mode == "flushed"
        else normalise.layer_norm_range(FILLS[fill], weight, bias)
    )
    turned = eightbit_writer.key_range(made, FILLS[fill], POSITIONS, mode=mode)
    for row, order, fused in itertools.product((1,), ORDERS, FUSED[:2]):
        own = arithmetic(mode, fused)
        values = scalar.layer_norm(
            FILLS[fill][row].tolist(), weight.tolist(), bias.tolist(), eps=1e-6, arithmetic=own, total=order
        )
        assert inside(values, normal, row)
        rotated = scalar.rope(values, *table_rows(made, row), pairing="neox", arithmetic=own)
        assert inside(rotated, turned, row)


@pytest.mark.parametrize(
    ("weight", "bias", "kept", "flushed"),
    [
        (2 * BORDER, 0.0, {-1: "-", 1: "+"}, {-1: "-", 1: "+"}),
        (BORDER, 0.0, {-1: "-", 1: "+"}, {-1: "+-", 1: "+"}),
        (BORDER, -0.0, {-1: "-", 1: "+"}, {-1: "-", 1: "+"}),
        (-BORDER, 0.0, {-1: "+", 1: "-"}, {-1: "+", 1: "+-"}),
        (BORDER / 2, 0.0, {-1: "-", 1: "+"}, {-1: "+", 1: "+"}),
        (BORDER, 2 * BORDER, {-1: "+", 1: "+"}, {-1: "+", 1: "+"}),
        (BORDER, -2 * BORDER, {-1: "-", 1: "-"}, {-1: "-", 1: "-"}),
    ],
)
def test_only_a_subnormal_opens_a_sign(
    weight: float, bias: float, kept: dict[int, str], flushed: dict[int, str]
) -> None:
    """Keys of +1 and -1 normalise to nearly that, so the weight decides on which side of the border they are.

    By hand: a negative product that is flushed before +0 is added is +0, one that is fused stays -0; a
    positive one has one outcome, and so has a weight that is itself flushed.
    """
    k = torch.tensor([1.0, -1.0]).repeat(64)[None].bfloat16()
    made = writer(norm_weight=torch.full((128,), weight), norm_bias=torch.full((128,), bias))
    for mode, wanted in (("kept", kept), ("flushed", flushed)):
        values = eightbit_writer.key_range(made, k, torch.zeros(1, dtype=torch.int64), mode=mode)
        for column, sign in ((100, 1), (101, -1)):  # not rotated
            found = {bit: torch.full((1, 128), bit, dtype=torch.uint8) for bit in (0, 128)}
            right = "".join(
                name
                for name, bit in (("+", 0), ("-", 128))
                if eightbit_writer.settle(made, values, found[bit], torch.full((1,), 2.0**-22)).codes[
                    0, column
                ]
                == bit
            )
            assert right == wanted[sign], (mode, sign)


@pytest.mark.parametrize("order", eightbit_pages.ORDERS)
def test_pages_are_the_scalar_twins(order: str) -> None:
    """Keys land where the words of the specification put them, scales behind; the rest stays."""
    made = writer(order=order, norm_weight=torch.ones(128), norm_bias=torch.zeros(128))
    k = torch.tensor([1.0, -1.0]).repeat(64)[None].expand(3, 128).bfloat16()
    slots, cache = torch.tensor([64 + 17, -1, 5]), torch.full((2, 64, 132), 7, dtype=torch.uint8)
    outs = torch.zeros(3, 1, 128, dtype=torch.uint8), torch.zeros(3, 1)
    q, weights = FILLS["gaussian"][:, None], torch.ones(3, 1).bfloat16()
    eightbit_writer.write_tokens(made, q, k, weights, POSITIONS, slots, *outs, cache)
    pages = [bytearray([7] * 64 * 132) for _ in range(2)]
    for row in (0, 2):
        own = Arithmetic()
        normal = scalar.layer_norm(
            k[row].tolist(), [1.0] * 128, [0.0] * 128, eps=1e-6, arithmetic=own, total=scalar.chain
        )
        turned = scalar.rope(normal, *table_rows(made, row), pairing="neox", arithmetic=own)
        codes, scale = scalar.key(turned, FORMATS["fn"], power=True)
        slot = int(slots[row])
        scalar.put(pages[slot // 64], slot % 64, codes, scale, order)
    assert bytes(cache.flatten().tolist()) == bytes(pages[0] + pages[1])
    assert not outs[0][1].any() and outs[0][0].any()


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize(
    ("fmt", "outside"), [("fn", ml_dtypes.float8_e4m3fn), ("fnuz", ml_dtypes.float8_e4m3fnuz)]
)
def test_codes_are_those_of_ml_dtypes(fmt: str, outside: type, power: bool) -> None:
    """Rotated values over their scale, rounded to the format by another library."""
    made = writer(fmt=FORMATS[fmt], power_of_two=power)
    q = torch.cat([*FILLS.values()])[:, None]
    place, weights = POSITIONS.repeat(4), torch.ones(12, 1).bfloat16()
    codes, scales = eightbit_writer.queries(replace(made, weights_scale=1.0), q, weights, place)
    turned = prepare.rope(q, made.cos, made.sin, place, pairing="neox").float()
    scaled = (turned * (1.0 / scales)[..., None]).numpy()
    top = float(ml_dtypes.finfo(outside).max)
    want = np.clip(scaled, -top, top).astype(outside).view(np.uint8)
    assert np.array_equal(codes.numpy(), want)


def test_bad_modes_and_eps_are_refused() -> None:
    """By name."""
    with pytest.raises(ValueError, match="mode is 'ignored', allowed are kept, flushed"):
        eightbit_subnormals.in_mode(torch.zeros(1), "ignored")
    with pytest.raises(ValueError, match="allowed is 2"):
        eightbit_subnormals.layer_norm_range(FILLS["gaussian"], torch.ones(128), torch.zeros(128), eps=0.0)
