"""The scaled matrix instruction equals its definition in exact arithmetic, and knows its own budget."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from harness.emulator.matrix import EXACT_SPREAD, MatrixUnit
from suites.self.emulator_builder import CPU, F32, I32, I64, Builder, Ran, Values, bits, run, vector
from suites.self.rational import rounded

HALVES = (0, 1, 2, 3, 4, 6, 8, 12)
E2M1 = [*HALVES, *(-half for half in HALVES)]
"""Twice the value of each code: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives."""

Side = list[list[int]]
SUBNORMAL = Fraction(2) ** -126


@dataclass
class Tile:
    """Operands of one wave: rows (columns) of 128 codes, four scale bytes each, and C by (row, column)."""

    a: Side
    b: Side
    scale_a: Side
    scale_b: Side
    c: list[list[float]] = field(default_factory=lambda: [[0.0] * 16 for _ in range(16)])
    halves: list[list[list[int]]] = field(default_factory=list)

    def results(self) -> tuple[list[list[float]], list[list[bool]]]:
        """Values by (row, column) and where they are beyond the budget, from the definition."""
        self.halves = [[[E2M1[code] for code in line] for line in side] for side in (self.a, self.b)]
        cells = [[self._cell(row, column) for column in range(16)] for row in range(16)]
        return [[value for value, _ in row] for row in cells], [[over for _, over in row] for row in cells]

    def _cell(self, row: int, column: int) -> tuple[float, bool]:
        scales = [(self.scale_a[row][g], self.scale_b[column][g]) for g in range(4)]
        if any(255 in pair for pair in scales):
            return math.nan, False
        terms = [self._group(row, column, g) * Fraction(2) ** (sum(scales[g]) - 254) for g in range(4)]
        exponents = [sum(pair) for pair in scales]
        dot, c = sum(terms, Fraction(0)), self.c[row][column]
        strained = max(exponents) - min(exponents) > EXACT_SPREAD or lost(dot)
        if not math.isfinite(c):
            return c, strained and math.isinf(rounded(dot))
        total = dot + Fraction(c)
        over = strained or lost(total) or 0 < abs(Fraction(c)) < SUBNORMAL
        return (rounded(total) if total else 0.0), over

    def _group(self, row: int, column: int, group: int) -> Fraction:
        span = slice(32 * group, 32 * group + 32)
        left, right = self.halves[0][row][span], self.halves[1][column][span]
        return Fraction(sum(x * y for x, y in zip(left, right, strict=True)), 4)


def lost(exact: Fraction) -> bool:
    """Not representable as a normal float32 (zero is)."""
    near = rounded(exact)
    return math.isinf(near) or Fraction(near) != exact or 0 < abs(exact) < SUBNORMAL


def codes_to_lanes(side: Side) -> Tensor:
    """int32 [4, 64]: lane l holds line l % 16, codes 32 * (l // 16) and on, low nibble first."""
    words = []
    for lane in range(64):
        own = side[lane % 16][32 * (lane // 16) : 32 * (lane // 16) + 32]
        packed = bytes(own[2 * i] | own[2 * i + 1] << 4 for i in range(16))
        words.append([int.from_bytes(packed[4 * w : 4 * w + 4], "little", signed=True) for w in range(4)])
    return torch.tensor(words, dtype=torch.int32).T.contiguous()


def scales_to_lanes(side: Side, opsel: int, noise: random.Random) -> Tensor:
    """int32 [64]: lane l's byte is line l % 16, group l // 16; the three bytes not chosen are noise."""
    words = []
    for lane in range(64):
        octets = [noise.randrange(256) for _ in range(4)]
        octets[opsel] = side[lane % 16][lane // 16]
        words.append(int.from_bytes(bytes(octets), "little", signed=True))
    return torch.tensor(words, dtype=torch.int32)


def c_to_lanes(c: Sequence[Sequence[float]]) -> Tensor:
    """float32 [4, 64]: element i of lane l is row 4 * (l // 16) + i, column l % 16."""
    return torch.tensor([[c[4 * (lane // 16) + i][lane % 16] for lane in range(64)] for i in range(4)])


def multiply(waves: Sequence[Sequence[Tile]], opsel: tuple[int, int] = (0, 0)) -> tuple[Tensor, MatrixUnit]:
    """Results ``(4, C, W, 64)`` for tiles by workgroup and wave."""
    unit, noise = MatrixUnit(CPU), random.Random(99)

    def stacked(part: Callable[[Tile], Tensor], axis: int) -> Tensor:
        return torch.stack([torch.stack([part(tile) for tile in cta], axis) for cta in waves], axis)

    a, b = stacked(lambda t: codes_to_lanes(t.a), 1), stacked(lambda t: codes_to_lanes(t.b), 1)
    scale_a = stacked(lambda t: scales_to_lanes(t.scale_a, opsel[0], noise), 0)
    scale_b = stacked(lambda t: scales_to_lanes(t.scale_b, opsel[1], noise), 0)
    c = stacked(lambda t: c_to_lanes(t.c), 1)
    shape = (len(waves), len(waves[0]), 64)
    return unit.multiply(a, b, c, scale_a, scale_b, opsel, shape), unit


def check(waves: Sequence[Sequence[Tile]], opsel: tuple[int, int] = (0, 0)) -> int:
    """Bit equality with the definition, and the count beyond the budget, which is returned."""
    got, unit = multiply(waves, opsel)
    over = 0
    for cta, row in enumerate(waves):
        for wave, tile in enumerate(row):
            values, beyond = tile.results()
            over += sum(map(sum, beyond))
            assert bits(got[:, cta, wave]) == bits(c_to_lanes(values)), f"workgroup {cta}, wave {wave}"
    assert unit.results == 256 * len(waves) * len(waves[0])
    assert unit.over_budget == over
    return over


def codes(draw: random.Random, among: Sequence[int] = range(16)) -> Side:
    return [[draw.choice(among) for _ in range(128)] for _ in range(16)]


def scales(draw: random.Random, low: int, high: int) -> Side:
    return [[draw.randint(low, high) for _ in range(4)] for _ in range(16)]


def tile(seed: int, low: int = 122, high: int = 127) -> Tile:
    draw = random.Random(seed)
    return Tile(codes(draw), codes(draw), scales(draw, low, high), scales(draw, low, high))


# codes and scales


def test_every_byte_of_codes_against_every_code() -> None:
    """All 256 pairs of nibbles, in A against each of the 16 codes in B, and the other way round."""
    pairs = [
        [code for byte in range(64 * part, 64 * part + 64) for code in (byte & 15, byte >> 4)]
        for part in range(4)
    ]
    lines = [pairs[line % 4] for line in range(16)]
    constant = [[code] * 128 for code in range(16)]
    ones = [[127] * 4 for _ in range(16)]
    assert check([[Tile(lines, constant, ones, ones)]]) == 0
    assert check([[Tile(constant, lines, ones, ones)]]) == 0


def test_each_code_at_each_position_lands_in_its_own_product() -> None:
    """A single non-zero code in A picks out one k of B, whose codes and scales are its own."""
    draw = random.Random(3)
    b, scale_b = codes(draw, range(1, 8)), [[124, 125, 126, 127]] * 16
    for first in range(0, 128, 16):
        a = [[2 if k == first + row else 0 for k in range(128)] for row in range(16)]
        check([[Tile(a, b, [[127] * 4] * 16, scale_b)]])


@pytest.mark.parametrize("opsel", [(i, j) for i in range(4) for j in range(4)], ids=str)
def test_each_scale_byte_of_the_dword(opsel: tuple[int, int]) -> None:
    """The chosen byte counts, the other three are noise (255 among them)."""
    assert check([[tile(4)]], opsel) == 0


@pytest.mark.parametrize("other", (0, 1, 60, 127, 200, 254))
def test_every_scale_byte(other: int) -> None:
    """All 256 bytes in A against one in B: from results that vanish to results that overflow, and NaN."""
    draw = random.Random(other)
    waves = []
    for first in range(0, 256, 16):
        even = [[first + row] * 4 for row in range(16)]
        waves.append(Tile(codes(draw), codes(draw), even, [[other] * 4] * 16))
    for start in range(0, 16, 4):
        check([waves[start : start + 4]])


def test_a_scale_of_255_makes_its_line_nan_and_no_other() -> None:
    """In one group of one row, one column, all of them, beside an infinite C. NaN is never over budget."""
    rows, columns, both, every = (tile(seed) for seed in range(10, 14))
    rows.scale_a[5][2] = 255
    columns.scale_b[9][0] = 255
    both.scale_a[0][3] = both.scale_b[15][1] = 255
    both.c[3][15] = math.inf
    every.scale_a = [[255] * 4 for _ in range(16)]
    far = tile(14)
    far.scale_a[7] = [255, 1, 250, 127]
    assert check([[rows, columns], [both, every], [far, far]]) == 0


def test_all_zero_codes_give_plus_zero_whatever_their_signs() -> None:
    """-0 against anything, in the fast path, and in the exact one (scales 0 and 254 side by side)."""
    draw = random.Random(8)
    plain = Tile(codes(draw, (0, 8)), codes(draw), scales(draw, 120, 127), scales(draw, 120, 127))
    far = Tile(codes(draw, (0, 8)), codes(draw), [[0, 254, 1, 127]] * 16, scales(draw, 0, 254))
    got, _ = multiply([[plain, far]])
    assert bits(got) == [[[[0] * 64] * 2]] * 4


# the budget


@pytest.mark.parametrize(("spread", "over"), [(9, 0), (10, 0), (11, 256)])
@pytest.mark.parametrize("base", (100, 20, 230), ids=("fast", "low", "high"))
def test_spreads_either_side_of_the_budget(spread: int, over: int, base: int) -> None:
    """Combined exponents, shared out between the sides; the exact path for extreme scales counts alike."""
    draw = random.Random(spread)
    left = [[base, base, base, base + spread // 2] for _ in range(16)]
    right = [[127, 127, 127, 127 + spread - spread // 2] for _ in range(16)]
    assert check([[Tile(codes(draw, range(1, 8)), codes(draw, range(1, 8)), left, right)]]) == over


def test_spreads_that_cancel_between_the_sides_are_no_spread() -> None:
    """A's exponents rise as B's fall: combined they are equal, though each side spreads over 40."""
    draw = random.Random(2)
    left, right = [[100, 110, 120, 140]] * 16, [[140, 130, 120, 100]] * 16
    assert check([[Tile(codes(draw), codes(draw), left, right)]]) == 0


def test_rows_in_and_out_of_budget_are_counted_one_by_one() -> None:
    """Odd rows spread too far, in one wave of four; results of all waves stay right."""
    mixed = tile(20)
    for row in range(1, 16, 2):
        mixed.scale_a[row] = [127, 127, 127, 100]
    waves = [[tile(21), mixed], [tile(22), tile(23)]]
    assert check(waves) == 8 * 16


def test_largest_dot_within_the_budget_is_exact() -> None:
    """128 products of 36, three groups at the top of the spread, one at its bottom: 24 bits just do."""
    six = [[7] * 128 for _ in range(16)]
    mixed = [[7] * 96 + [1] + [0] * 31 for _ in range(16)]
    small = [[7] * 96 + [1] + [0] * 31 for _ in range(16)]
    left = [[127 + 10] * 3 + [127]] * 16
    assert check([[Tile(six, six, left, [[127] * 4] * 16), Tile(mixed, small, left, [[127] * 4] * 16)]]) == 0


@pytest.mark.parametrize("seed", range(3))
def test_wide_random_tiles(seed: int) -> None:
    """Scales over the whole range: results that overflow, underflow, cancel, round."""
    check(
        [
            [tile(30 + seed, 0, 254), tile(40 + seed, 90, 160)],
            [tile(50 + seed, 0, 40), tile(60 + seed, 110, 140)],
        ]
    )


def test_rounding_to_subnormals_and_to_infinity() -> None:
    """Dots of 1/4 to 9/4 units at each exponent around both ends of the format."""
    draw = random.Random(6)
    small, large = [], []
    for step in range(4):
        few = [[draw.randrange(1, 3) if k < 2 else 0 for k in range(128)] for _ in range(16)]
        low = [[row // 2 + 4 * step] * 4 for row in range(16)]
        small.append(Tile(few, few, low, [[100 - 4 * step] * 4] * 16))
        high = [[238 + row] * 4 for row in range(16)]
        large.append(Tile(codes(draw), codes(draw), high, [[130 + step] * 4] * 16))
    assert check([small]) > 0
    assert check([large]) > 0


# the C operand


def with_c(base: Tile, value: Callable[[int, int], float]) -> Tile:
    rows = torch.tensor([[value(row, column) for column in range(16)] for row in range(16)])
    return Tile(base.a, base.b, base.scale_a, base.scale_b, rows.tolist())


def test_c_is_added_with_one_rounding() -> None:
    """C far above, near and far below the dots; exactly what is lost against it is over budget."""
    above = with_c(tile(70), lambda row, column: (1.0 + row * 2.0**-20) * 2.0**column)
    near = with_c(tile(71), lambda row, column: -1.5 * row + column / 4)
    below = with_c(tile(72), lambda row, column: 2.0 ** -(row + column))
    for case in (above, near, below):
        check([[case, Tile(case.a, case.b, [[20] * 4] * 16, [[100] * 4] * 16, case.c)]])
    assert check([[above]]) > 0
    whole = with_c(
        Tile(tile(73).a, tile(73).b, [[127] * 4] * 16, [[127] * 4] * 16), lambda row, column: 16.0 * row
    )
    assert check([[whole]]) == 0


@pytest.mark.parametrize("low", (122, 1), ids=("fast", "exact"))
def test_special_values_of_c(low: int) -> None:
    """Infinities and NaN pass through; -0 with a dot of zero gives +0; the largest and the smallest."""
    special = [math.inf, -math.inf, math.nan, -0.0, 0.0, (2 - 2.0**-23) * 2.0**127, 2.0**-149, -(2.0**-126)]
    base = tile(80, low, low + 5)
    base.a[3] = [0] * 128
    base.a[4] = [8] * 128
    case = with_c(base, lambda row, column: special[column % 8])
    check([[case, with_c(tile(81, 0, 254), lambda row, column: special[(row + column) % 8])]])


def test_c_that_cancels_the_dot_leaves_plus_zero() -> None:
    base = tile(82)
    values, _ = base.results()
    cancelled = with_c(base, lambda row, column: -values[row][column])
    got, unit = multiply([[cancelled]])
    assert bits(got) == [[[[0] * 64]]] * 4 and unit.over_budget == 0


def test_a_subnormal_c_is_beyond_the_budget_though_nothing_is_lost() -> None:
    """2**-120 plus 2**-127 is exact and normal; whether hardware reads a subnormal C is not published."""
    ones = [[2 if k == 0 else 0 for k in range(128)] for _ in range(16)]
    least = [[67] * 4 for _ in range(16)]
    assert check([[with_c(Tile(ones, ones, least, least), lambda row, column: 2.0**-127)]]) == 256
    assert check([[with_c(Tile(ones, ones, least, least), lambda row, column: 2.0**-126)]]) == 0


def test_overflow_against_c_is_beyond_the_budget() -> None:
    """Half a unit of the largest number: infinity where it rounds up, the largest where it rounds down."""
    largest = (2 - 2.0**-23) * 2.0**127
    ones = [[2 if k == 0 else 0 for k in range(128)] for _ in range(16)]
    up = with_c(Tile(ones, ones, [[127 + 103] * 4] * 16, [[127] * 4] * 16), lambda row, column: largest)
    down = with_c(Tile(ones, ones, [[127 + 102] * 4] * 16, [[127] * 4] * 16), lambda row, column: largest)
    assert check([[up, down]]) == 512


# broadcasting and masks


def lane_operands(one: Tile) -> list[Tensor]:
    """a, b ``(4, 1, 1, 64)``, c ``(4, 1, 1, 64)``, scales ``(1, 1, 64)``."""
    noise = random.Random(1)
    parts = [codes_to_lanes(one.a), codes_to_lanes(one.b), c_to_lanes(one.c)]
    parts = [part.view(4, 1, 1, 64) for part in parts]
    return [*parts, *(scales_to_lanes(s, 0, noise).view(1, 1, 64) for s in (one.scale_a, one.scale_b))]


@pytest.mark.parametrize("low", (122, 0), ids=("fast", "exact"))
@pytest.mark.parametrize("varying", range(5), ids=("a", "b", "c", "scale_a", "scale_b"))
def test_operands_that_are_uniform_stand_for_every_workgroup_and_wave(varying: int, low: int) -> None:
    """One operand varies over 3 workgroups and 2 waves: values and counts are as if all of them did."""
    rows = [[tile(6 * c + w + 100, low, low + 12) for w in range(2)] for c in range(3)]
    for c, row in enumerate(rows):
        for w, one in enumerate(row):
            one.c = [[r - k / 2 + 100.0 * c - 10.0 * w for k in range(16)] for r in range(16)]
    a, b, c_operand, scale_a, scale_b = (
        stacked_lanes(rows, place) if place == varying else lane_operands(rows[0][0])[place]
        for place in range(5)
    )
    unit, over = MatrixUnit(CPU), 0
    got = unit.multiply(a, b, c_operand, scale_a, scale_b, (0, 0), (3, 2, 64)).expand(4, 3, 2, 64)
    name = ("a", "b", "c", "scale_a", "scale_b")[varying]
    for c, row in enumerate(rows):
        for w, one in enumerate(row):
            values, beyond = replace(rows[0][0], **{name: getattr(one, name)}).results()
            over += sum(map(sum, beyond))
            assert bits(got[:, c, w]) == bits(c_to_lanes(values))
    assert (unit.results, unit.over_budget) == (6 * 256, over)


def stacked_lanes(rows: Sequence[Sequence[Tile]], place: int) -> Tensor:
    """Operand ``place`` of every tile, by workgroup and wave."""
    waves = [torch.cat([lane_operands(one)[place] for one in row], dim=-2) for row in rows]
    return torch.cat(waves, dim=-3)


def test_one_operand_for_all_lanes() -> None:
    """Codes, scales and C that are single numbers: every lane holds the same."""
    unit = MatrixUnit(CPU)
    a = torch.full((4, 1, 1, 1), 0x22222222, dtype=torch.int32).expand(4, 1, 1, 64)
    scale = torch.tensor(127 << 8, dtype=torch.int32).view(1, 1, 1)
    c = torch.full((4, 1, 1, 1), 5.0)
    got = unit.multiply(a, a, c, scale, scale, (1, 1), (2, 1, 64))
    assert bool((got == 133.0).all()) and unit.over_budget == 0


def test_results_beyond_the_budget_count_for_every_wave_they_stand_for() -> None:
    """All operands uniform, one tile for 3 workgroups of 2 waves."""
    far = tile(91)
    far.scale_a = [[127, 127, 127, 90] for _ in range(16)]
    a, b, c, scale_a, scale_b = lane_operands(far)
    unit = MatrixUnit(CPU)
    unit.multiply(a, b, c, scale_a, scale_b, (0, 0), (3, 2, 64))
    assert (unit.results, unit.over_budget) == (6 * 256, 6 * 256)


def test_operands_decoded_once_are_decoded_again_when_they_change() -> None:
    """The cache goes by the operand, the scale and opsel, and is dropped between slabs."""
    unit = MatrixUnit(CPU)
    a, b, c, scale_a, scale_b = lane_operands(tile(90))
    double = scale_a + 1
    first = unit.multiply(a, b, c, scale_a, scale_b, (0, 0), (1, 1, 64))
    assert torch.equal(unit.multiply(a, b, c, double, scale_b, (0, 0), (1, 1, 64)), first * 2)
    shifted = (scale_a << 8) | 0x7F
    assert torch.equal(unit.multiply(a, b, c, shifted, scale_b, (1, 0), (1, 1, 64)), first)
    for number in range(60):
        other = a ^ (number << 4)
        unit.multiply(other, b, c, scale_a, scale_b, (0, 0), (1, 1, 64))
    assert torch.equal(unit.multiply(a, b, c, scale_a, scale_b, (0, 0), (1, 1, 64)), first)
    unit.forget()
    assert torch.equal(unit.multiply(a, b, c, scale_a, scale_b, (0, 0), (1, 1, 64)), first)


# through the executor


def program(guard: Callable[[Builder, int], int] | None = None) -> Builder:
    """Loads a, b, c, scales by lane from arguments 0 to 4 and stores the result to argument 5."""
    build = Builder()
    pointers = [build.argument() for _ in range(6)]
    lane = build.global_lane(128)
    four = vector(I32, 4)

    def body() -> Values:
        a, b = (build.load(four, build.at(pointer, lane, 16)) for pointer in pointers[:2])
        c = build.load(vector(F32, 4), build.at(pointers[2], lane, 16))
        scale_a, scale_b = (build.load(I32, build.at(pointer, lane, 4)) for pointer in pointers[3:5])
        operands = (a, b, c, scale_a, scale_b)
        result = build.op(
            "mfma_scale_16x16x128", vector(F32, 4), *operands, at="k.py:5", opsel_a=2, opsel_b=3
        )
        build.store(result, build.at(pointers[5], lane, 16))
        return ()

    if guard is None:
        body()
    else:
        build.branch(guard(build, build.lane()), body)
    return build


def execute(build: Builder, tiles: Sequence[Tile], slab_lanes: int = 0) -> tuple[Tensor, Ran]:
    noise = random.Random(4)
    sides = [
        torch.cat([codes_to_lanes(s).T for s in side])
        for side in ([t.a for t in tiles], [t.b for t in tiles])
    ]
    c = torch.cat([c_to_lanes(t.c).T for t in tiles])
    scales_a = torch.cat([scales_to_lanes(t.scale_a, 2, noise) for t in tiles])
    scales_b = torch.cat([scales_to_lanes(t.scale_b, 3, noise) for t in tiles])
    out = torch.full((64 * len(tiles), 4), -7.0)
    arguments = [*(part.contiguous() for part in (*sides, c)), scales_a, scales_b, out]
    ran = run(build, arguments, (len(tiles) // 2, 1, 1), (128, 1, 1), slab_lanes)
    return out.view(len(tiles), 64, 4), ran


@pytest.mark.parametrize("slab_lanes", (64, 65536))
def test_the_instruction_in_a_program(slab_lanes: int) -> None:
    """Three workgroups of two waves, each its own tile; the unit's counts add up over slabs."""
    tiles = [tile(200 + number, 100 if number == 4 else 122, 127) for number in range(6)]
    out, ran = execute(program(), tiles, slab_lanes)
    over = 0
    for number, one in enumerate(tiles):
        values, beyond = one.results()
        over += sum(map(sum, beyond))
        assert bits(out[number].T) == bits(c_to_lanes(values))
    assert ran.findings == ()
    assert (ran.matrix.results, ran.matrix.over_budget) == (6 * 256, over)
    assert over > 0


def test_waves_that_are_off_are_not_counted() -> None:
    """Only the second wave of each workgroup runs; the first's operands, far over budget, do not count."""
    tiles = [tile(300 + number, 0 if number % 2 == 0 else 122, 127) for number in range(4)]
    out, ran = execute(program(lambda build, lane: build.compare("sge", lane, build.const(64, I64))), tiles)
    assert ran.findings == ()
    assert (ran.matrix.results, ran.matrix.over_budget) == (2 * 256, 0)
    assert bool((out[::2] == -7.0).all())
    assert bits(out[1].T) == bits(c_to_lanes(tiles[1].results()[0]))


def test_running_it_with_lanes_off_is_a_finding() -> None:
    """The instruction takes part of a row from every lane, on or off."""
    tiles = [tile(400), tile(401)]
    out, ran = execute(program(lambda build, lane: build.compare("ne", lane, build.const(70, I64))), tiles)
    assert (ran.only.kind, ran.only.location, ran.only.count) == ("divergent-lanes", "k.py:5", 1)
    assert ran.only.first == {"cta": 0, "lane": 70}
    assert bits(out[0].T) == bits(c_to_lanes(tiles[0].results()[0]))
