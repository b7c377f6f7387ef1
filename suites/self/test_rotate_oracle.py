"""The oracle of V4's rotate-and-quantise: its scalar twin, SciPy's Hadamard matrix, ml_dtypes' codes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from oracles import formats, layout, prepare, rotate, rotate_codes
from oracles.eightbit_subnormals import FUSED, MODES
from oracles.normalise import Range
from oracles.rotate import Turn
from oracles.rotate_codes import Rule
from oracles.scalar import eightbit_writer
from oracles.scalar import rotate as scalar
from oracles.scalar.eightbit_writer import Arithmetic
from oracles.scalar.formats import quantise

DIMS = (128, 256, 512, 1024)
ORDERS = (eightbit_writer.chain, eightbit_writer.halves)
POSITIONS = torch.tensor([0, 1, 4095])
QUIET = 2.0**-126


def noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def quiet(seed: int, *shape: int) -> Tensor:
    """Normal bfloat16 numbers at the border, of which sums and products fall below it."""
    drawn = noise(seed, *shape)
    return (torch.copysign(1 + drawn.abs(), drawn) * QUIET).bfloat16()


def same(got: Tensor, want: list[float]) -> bool:
    return torch.equal(got.view(torch.int32), torch.tensor(want).view(torch.int32))


def turn(dims: int = 64, *, hadamard: bool = True) -> Turn:
    cos, sin = prepare.rope_tables(4096, dims=dims)
    return Turn(cos, sin, hadamard)


def inside(values: Range, one: list[float], row: int) -> bool:
    """Whether ``one`` lies in the intervals of ``row``, -0 below 0."""
    low, got, high = (rotate.order_of(x) for x in (values.low[row], torch.tensor(one), values.high[row]))
    return bool(((low <= got) & (got <= high)).all())


@pytest.mark.parametrize("dim", DIMS)
def test_the_transform_is_scipy_s_matrix(dim: int) -> None:
    """On whole numbers, where nothing is rounded but the product with fl32(D^-0.5)."""
    x = torch.randint(-99, 100, (5, dim), generator=torch.Generator().manual_seed(dim)).float()
    sums = x.double() @ torch.from_numpy(scipy.linalg.hadamard(dim)).double()
    want = sums.float() * torch.tensor(dim**-0.5, dtype=torch.float32)
    assert torch.equal(rotate.hadamard(x), want)


def test_the_transform_is_its_definition() -> None:
    x = noise(1, 16).mul(64).round()
    assert [float(value) for value in scalar.defined(x.tolist())] == scalar.transform(
        x.tolist(), Arithmetic()
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dim", [128, 512])
def test_sums_are_in_the_declared_order(dim: int, mode: str) -> None:
    """Bit for bit the twin's; far columns first gives other bits, so the order is seen."""
    rows = torch.stack((noise(dim, dim), quiet(dim, dim).float()))
    got = rotate.hadamard(rows, mode=mode)
    for row in range(2):
        assert same(got[row], scalar.hadamard(rows[row].tolist(), Arithmetic(mode == "flushed")))
    bits = dim.bit_length() - 1
    turned = torch.tensor([int(f"{i:0{bits}b}"[::-1], 2) for i in range(dim)])
    assert not torch.equal(rotate.hadamard(rows[:, turned], mode=mode)[:, turned], got)


def test_modes_part_on_quiet_rows() -> None:
    kept, flushed = (rotate.hadamard(quiet(3, 4, 128).float(), mode=mode) for mode in MODES)
    assert not torch.equal(kept, flushed)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dims", [16, 64, 128])
def test_rope_turns_the_last_columns_in_pairs(dims: int, mode: str) -> None:
    """Bfloat16 rows have one outcome however products are fused, but where those are subnormal."""
    made = turn(dims, hadamard=False)
    assert made.cos is not None and made.sin is not None
    for x, small in ((noise(4, 3, 128).bfloat16(), False), (quiet(5, 3, 128), True)):
        got = rotate.turned(made, rotate.plain(x), POSITIONS, mode=mode)
        for row, fused in itertools.product(range(3), FUSED):
            place = int(POSITIONS[row])
            cos, sin = made.cos[place].tolist(), made.sin[place].tolist()
            one = scalar.rope(x[row].tolist(), cos, sin, Arithmetic(mode == "flushed", fused))
            assert inside(got, one, row)
            assert same(got.low[row], one) or small
        assert torch.equal(got.low[:, : 128 - dims], x[:, : 128 - dims].float())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("hadamard", [False, True])
def test_every_evaluation_of_a_key_lies_in_its_interval(mode: str, hadamard: bool) -> None:
    """Both orders of summation, every way of fusing; no interval is over 2^-12 of the largest value."""
    x, weight, made = (
        noise(6, 3, 128).bfloat16(),
        (1 + 0.1 * noise(7, 128)).bfloat16(),
        turn(hadamard=hadamard),
    )
    assert made.cos is not None and made.sin is not None
    got = rotate.turned(made, rotate.normal(x, weight, 1e-6, mode=mode), POSITIONS, mode=mode)
    assert float((got.high - got.low).max()) < 2.0**-12 * float(got.high.max())
    for row, total, fused in itertools.product(range(3), ORDERS, FUSED):
        arithmetic, place = Arithmetic(mode == "flushed", fused), int(POSITIONS[row])
        one = scalar.rms_norm(x[row].tolist(), weight.tolist(), eps=1e-6, arithmetic=arithmetic, total=total)
        one = scalar.rope(one, made.cos[place].tolist(), made.sin[place].tolist(), arithmetic)
        assert inside(got, scalar.hadamard(one, arithmetic) if hadamard else one, row)


@pytest.mark.parametrize("group", [32, 64, 128])
def test_four_bit_codes_are_the_twin_s_and_ml_dtypes(group: int) -> None:
    values = rotate.hadamard(noise(8, 4, 256) * torch.exp2(torch.arange(4)[:, None] * 20.0 - 40))
    made = rotate_codes.quantise(Rule("fp4", group), Range(values, values))
    scaled = values * torch.exp2(127 - made.scales.float()).repeat_interleave(group, -1)
    outside = scaled.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    assert np.array_equal(made.codes.numpy(), outside) and made.open_bytes == 0
    for row in range(4):
        codes, scales = quantise(values[row].tolist(), formats.PRODUCTION, group=group)
        assert made.codes[row].tolist() == codes and made.scales[row].tolist() == scales


def test_eight_bit_codes_are_those_of_ml_dtypes() -> None:
    """The scale by its three float32 steps; a silent group has that of 1e-10."""
    values = noise(9, 4, 256) * torch.exp2(torch.arange(4)[:, None] * 9.0 - 20)
    values[1, 32:64] = 0.0
    made = rotate_codes.quantise(Rule("fp8", 32), Range(values, values))
    parts = values.numpy().reshape(4, 8, 32)
    scales = np.maximum(np.abs(parts).max(-1), np.float32(1e-10)) * (np.float32(1) / np.float32(448))
    codes = (parts * (np.float32(1) / scales)[..., None]).clip(-448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(made.scales.numpy(), scales)
    assert np.array_equal(made.codes.numpy(), codes.view(np.uint8).reshape(4, 256))


@pytest.mark.parametrize("to", ["fp4", "fp8"])
def test_what_is_found_is_kept_inside_the_interval_only(to: str) -> None:
    """Codes of both ends are right and the next one is not; of scales likewise."""
    low = torch.full((1, 32), 1.0)
    low[0, 0] = 5.99
    values, rule = Range(low, low + 0.3), Rule(to, 32)
    first = rotate_codes.quantise(rule, values)
    assert first.open_bytes > 0
    upper = rotate_codes.quantise(rule, Range(values.high, values.high))
    assert torch.equal(rotate_codes.settle(rule, values, upper.codes, upper.scales).scales, upper.scales)
    beyond = upper.scales + 1 if to == "fp4" else upper.scales * 1.01
    assert torch.equal(rotate_codes.settle(rule, values, upper.codes, beyond).scales, first.scales)
    wrong = first.codes.clone()
    wrong[0, 3] ^= 64 if to == "fp8" else 4
    assert torch.equal(rotate_codes.settle(rule, values, wrong, first.scales).codes, first.codes)


@pytest.mark.parametrize("page", [16, 64, 128])
def test_shuffled_pages_are_those_of_the_layout(page: int) -> None:
    """Each code and scale where `layout`'s offsets put it; reading takes it back, other rows stay."""
    codes = torch.randint(16, (5, 256), generator=torch.Generator().manual_seed(page)).to(torch.uint8)
    scales = torch.arange(40, dtype=torch.uint8).view(5, 8)
    slots = torch.tensor([3, page + 1, 2 * page - 1, -1, 9])
    planes = torch.full((2, 2, 4, page, 16), 7, dtype=torch.uint8), torch.full((2, 2, 4, page), 7)
    held = planes[0], planes[1].to(torch.uint8)
    rotate_codes.write_keys(*held, codes, scales, slots, shuffled=True)
    for row, slot in enumerate(slots.tolist()):
        for column in range(0, 256, 2) if slot >= 0 else ():
            place = slot // page, column // 128, column // 32 % 4, slot % page
            at = layout.packed_offset(*place, column // 2 % 16, page_rows=page, k_tiles=2)
            assert held[0].flatten()[at] == codes[row, column] | codes[row, column + 1] << 4
            at = layout.scale_offset(*place, page_rows=page, k_tiles=2)
            assert held[1].flatten()[at] == scales[row, column // 32]
    assert int((held[1] != 7).sum()) <= 32
    kept = slots >= 0
    back = rotate_codes.read_keys(*held, slots[kept], shuffled=True)
    assert torch.equal(back[0], codes[kept]) and torch.equal(back[1], scales[kept])


def test_plain_rows_lie_at_their_slots() -> None:
    codes = torch.randint(16, (2, 128), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    scales, slots = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8), torch.tensor([5, -1])
    held = torch.zeros(8, 64, dtype=torch.uint8), torch.zeros(8, 2, dtype=torch.uint8)
    rotate_codes.write_keys(*held, codes, scales, slots, shuffled=False)
    assert torch.equal(held[0][5], layout.pack_nibbles(codes)[0]) and held[1][5].tolist() == [1, 2]
    assert int((held[1] != 0).sum()) == 2


def test_rows_are_exact_where_no_sum_rounds() -> None:
    rows = torch.stack((torch.full((128,), 2.0**17), torch.full((128,), 2.0**17 + 1), noise(1, 128)))
    assert rotate.exactly(Range(rows, rows)).tolist() == [True, False, False]
    rows[1, 1:] = 0
    assert rotate.exactly(Range(rows, rows)).tolist() == [True, True, False]
    assert not bool(rotate.exactly(Range(rows, rows + 1)).any())


def test_what_cannot_be_is_refused() -> None:
    x, weight = noise(1, 2, 128).bfloat16(), torch.ones(128).bfloat16()
    with pytest.raises(ValueError, match="eps is 0, allowed is"):
        rotate.normal(x, weight, 0)
    with pytest.raises(ValueError, match=r"x has a magnitude above 2\^62 or a NaN"):
        rotate.normal(x * torch.nan, weight, 1e-6)
    with pytest.raises(ValueError, match="positions has a value outside 0 to 4095"):
        rotate.turned(turn(), rotate.plain(x), torch.tensor([0, 4096]))
    with pytest.raises(ValueError, match="difference is 'both', allowed are"):
        replace(turn(), difference="both")
    with pytest.raises(ValueError, match="place is 'middle', allowed are"):
        replace(turn(), place="middle")
