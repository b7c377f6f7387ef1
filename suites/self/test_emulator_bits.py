"""Opcodes of the second front end against plain Python: bits of integers, neighbours of results, lanes."""

from __future__ import annotations

import math

import pytest
import torch

from harness.emulator import conversions, nearly
from harness.emulator.program import Type
from harness.emulator.wave import dpp_source
from suites.self.emulator_builder import F32, I1, I8, I16, I32, I64, Builder, apply, run, vector

NUMBERS = [0, 1, -1, 2, 3, 255, 256, -256, 0x12345678, -(2**31), 2**31 - 1, 0x0F0F0F0F]


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def signed(value: int, bits: int) -> int:
    value = unsigned(value, bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def text(value: int, bits: int) -> str:
    return format(unsigned(value, bits), f"0{bits}b")


BITS = {
    "count_ones": lambda value, bits: text(value, bits).count("1"),
    "leading_zeros": lambda value, bits: bits - unsigned(value, bits).bit_length(),
    "trailing_zeros": lambda value, bits: len(text(value, bits)) - len(text(value, bits).rstrip("0")),
    "reverse_bits": lambda value, bits: int(text(value, bits)[::-1], 2),
    "swap_bytes": lambda value, bits: int.from_bytes(
        unsigned(value, bits).to_bytes(bits // 8, "little"), "big"
    ),
}


@pytest.mark.parametrize("kind", (I16, I32, I64), ids=str)
@pytest.mark.parametrize("code", BITS)
def test_bits_of_integers(code: str, kind: Type) -> None:
    numbers = [signed(number, kind.bits) for number in NUMBERS]
    got = apply(code, kind, [(kind, numbers)]).tolist()
    assert got == [signed(BITS[code](number, kind.bits), kind.bits) for number in numbers]


@pytest.mark.parametrize("left", (True, False))
def test_funnel_shifts(left: bool) -> None:
    a, b, steps = NUMBERS, NUMBERS[::-1], [0, 1, 5, 16, 31, 32, 33, 63, 8, 24, 2, 30]
    got = apply("funnel_left" if left else "funnel_right", I32, [(I32, a), (I32, b), (I32, steps)]).tolist()
    want = []
    for high, low, step in zip(a, b, steps, strict=True):
        pair = unsigned(high, 32) << 32 | unsigned(low, 32)
        want.append(signed((pair << step % 32) >> 32 if left else pair >> step % 32, 32))
    assert got == want


def test_bytes_are_permuted_as_the_instruction_does() -> None:
    high, low = 0x8899AABB, 0x70112233
    cases = {0x07060504: high, 0x03020100: low, 0x0C0D0004: 0x00FF33BB, 0x0A0B0908: 0x00FF0000 | 0x00}
    for selector, want in cases.items():
        args = [(I32, [signed(one, 32)]) for one in (high, low, selector)]
        got = unsigned(apply("permute_bytes", I32, args).tolist()[0], 32)
        if selector == 0x0A0B0908:  # signs: of half-words 2, 3, 1, 0 of the pair, from the top
            want = 0xFFFF0000
        assert got == want, hex(got)


def test_saturating_arithmetic() -> None:
    a, b = [0, 5, -1, 2**31 - 1], [1, 5, -1, 1]
    below = [max(0, unsigned(x, 32) - unsigned(y, 32)) for x, y in zip(a, b, strict=True)]
    above = [min(2**32 - 1, unsigned(x, 32) + unsigned(y, 32)) for x, y in zip(a, b, strict=True)]
    for code, want in (("usub_saturate", below), ("uadd_saturate", above)):
        assert apply(code, I32, [(I32, a), (I32, b)]).tolist() == [signed(one, 32) for one in want]


def test_conversions_to_unsigned_saturate() -> None:
    got = apply("float_to_uint", I8, [(F32, [-3.0, 0.9, 254.5, 255.0, 300.0, math.nan])]).tolist()
    assert [unsigned(one, 8) for one in got] == [0, 0, 254, 255, 255, 0]


def test_the_middle_of_three() -> None:
    triples = [(1.0, 2.0, 3.0), (3.0, 1.0, 2.0), (2.0, 2.0, 1.0), (math.nan, 5.0, 4.0)]
    a, b, c = ([triple[place] for triple in triples] for place in range(3))
    assert apply("fmedian", F32, [(F32, a), (F32, b), (F32, c)]).tolist() == [2.0, 2.0, 2.0, 4.0]


# results that hardware only promises to be near

EXACT = {
    "rsq_near": (0.25, 2.0),
    "rcp_near": (8.0, 0.125),
    "sqrt_near": (9.0, 3.0),
    "exp2_near": (-3.0, 0.125),
}
EXACT["log2_near"] = (1024.0, 10.0)


@pytest.mark.parametrize("code", EXACT)
def test_what_is_exact_is_given_whichever_neighbour_is_asked_for(code: str) -> None:
    argument, want = EXACT[code]
    for choice in nearly.CHOICES:
        with nearly.choosing(choice):
            assert apply(code, F32, [(F32, [argument])]).tolist() == [want]


@pytest.mark.parametrize("code", EXACT)
def test_other_results_have_three_members(code: str) -> None:
    found = []
    for choice in nearly.CHOICES:
        with nearly.choosing(choice):
            found.append(apply(code, F32, [(F32, [0.3])]))
    nearest, below, above = (one.item() for one in found)
    assert below < nearest < above
    assert torch.nextafter(torch.tensor(below), torch.tensor(torch.inf)).item() == nearest
    exact = {
        "rsq_near": 0.30000001192092896**-0.5,
        "rcp_near": 1 / 0.30000001192092896,
        "sqrt_near": 0.30000001192092896**0.5,
        "exp2_near": 2**0.30000001192092896,
        "log2_near": math.log2(0.30000001192092896),
    }[code]
    assert below < exact < above


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are nearest, below, above"), nearly.choosing("best"):
        pass


# conversions


def test_the_other_half_is_kept() -> None:
    old = torch.tensor([0x11223344], dtype=torch.int32)
    one = torch.tensor([1.0])
    assert unsigned(int(conversions.pair_to_fp8(old, one, -one, 0, "fp8").item()), 32) == 0x1122B838
    assert unsigned(int(conversions.pair_to_fp8(old, one, -one, 1, "fp8").item()), 32) == 0xB8383344


# lanes of a wave

NEIGHBOURS = {
    0xB1: lambda lane: lane ^ 1,  # quad_perm 1 0 3 2
    0x4E: lambda lane: lane ^ 2,  # quad_perm 2 3 0 1
    0x104: lambda lane: lane + 4 if lane % 16 < 12 else None,  # row_shl:4
    0x114: lambda lane: lane - 4 if lane % 16 >= 4 else None,  # row_shr:4
    0x124: lambda lane: lane - lane % 16 + (lane - 4) % 16,  # row_ror:4
    0x140: lambda lane: lane ^ 15,  # row_mirror
    0x141: lambda lane: lane ^ 7,  # row_half_mirror
    0x142: lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,  # row_bcast:15
    0x143: lambda lane: 31 if lane >= 32 else None,  # row_bcast:31
    0x138: lambda lane: lane - 1 if lane else None,  # wave_shr:1
    0x153: lambda lane: lane // 16 * 16 + 3,  # row_newbcast:3
}


@pytest.mark.parametrize("control", NEIGHBOURS, ids=hex)
def test_neighbours_are_those_of_the_instruction_set(control: int) -> None:
    source, there = dpp_source(control)
    for lane in range(64):
        want = NEIGHBOURS[control](lane)
        assert there[lane] == (want is not None)
        assert want is None or source[lane] == want


@pytest.mark.parametrize("bound", (0, 1))
def test_a_lane_without_a_source_keeps_the_old_value_or_gets_zero(bound: int) -> None:
    """Row 1 is masked; lanes above 40 are switched off, and are no source either."""
    b = Builder()
    out, lane = b.argument(), b.lane(kind=I32)
    on = b.compare("slt", lane, b.const(40))

    def inside() -> tuple[int, ...]:
        old = b.op("isub", I32, b.const(0), lane)
        moved = b.op("dpp", I32, old, lane, control=0x104, rows=0b1101, banks=0xF, bound=bound)
        b.store(moved, b.at(out, lane, 4))
        return ()

    b.branch(on, inside)
    got = torch.zeros(64, dtype=torch.int32)
    run(b, (got,))
    for lane_, value in enumerate(got[:40].tolist()):
        source = lane_ + 4 if lane_ % 16 < 12 and lane_ + 4 < 40 else None
        missing = 0 if bound else -lane_
        assert value == (-lane_ if lane_ // 16 == 1 else missing if source is None else source)


def test_ballot_and_the_lanes_below() -> None:
    """The mask holds the active lanes only; counting it gives each lane its place among them."""
    b = Builder()
    out, lane = b.argument(), b.lane(kind=I32)
    third = b.compare("eq", b.op("irem", I32, lane, b.const(3)), b.const(0))
    mask = b.op("ballot", I64, third)
    low = b.op("truncate", I32, mask)
    high = b.op("truncate", I32, b.op("shr_unsigned", I64, mask, b.const(32, I64)))
    first = b.op("lanes_below", I32, low, b.const(0), half=0)
    place = b.op("lanes_below", I32, high, first, half=1)
    b.store(place, b.at(out, lane, 4))
    got = torch.zeros(64, dtype=torch.int32)
    run(b, (got,))
    assert got.tolist() == [sum(other % 3 == 0 for other in range(lane_)) for lane_ in range(64)]


def test_a_computed_element_of_a_vector() -> None:
    four = vector(I32, 4)
    rows = [(1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12)]
    assert apply("extract_at", I32, [(four, rows), (I32, [2, 0, 3])]).tolist() == [3, 5, 12]
    got = apply("insert_at", four, [(I32, [7, 7, 7]), (four, rows), (I32, [2, 0, 3])])
    assert got.tolist() == [[1, 2, 7, 4], [7, 6, 7, 8], [9, 10, 11, 7]]


def test_classes_of_floats() -> None:
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
    for classes, want in ((0x3, [1, 0, 0, 0, 0, 0]), (0x204, [0, 1, 1, 0, 0, 0]), (0x60, [0, 0, 0, 1, 1, 0])):
        assert apply("fclass", I1, [(F32, values)], classes=classes).tolist() == [bool(one) for one in want]
