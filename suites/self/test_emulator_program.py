"""Programs run as written: shapes, coordinates, control flow, cross-lane operations, at any slab width."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from harness.emulator import slab
from harness.emulator.atomics import ATOMICS
from harness.emulator.cross_lane import CROSS_LANE
from harness.emulator.executor import OTHERS
from harness.emulator.graph import TERMINATORS
from harness.emulator.meanings import EVALUATE
from harness.emulator.memory_ops import MEMORY
from harness.emulator.pointers import POINTERS
from harness.emulator.program import OPCODES, Type, UnsupportedOperation
from harness.emulator.wave import WAVES
from suites.self.emulator_builder import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    SHARED,
    Builder,
    Values,
    apply,
    bits,
    run,
    vector,
)
from suites.self.emulator_scalar import Lane, random_program

SLABS = (64, 128, 1024, 65536)


def test_every_opcode_has_one_meaning() -> None:
    """The closed table and the executor's tables name the same opcodes (launch belongs to the host)."""
    executed = {*EVALUATE, *MEMORY, *CROSS_LANE, *WAVES, *POINTERS, *ATOMICS, *OTHERS}
    executed |= {*slab.CONTROL, *TERMINATORS, "yield", "launch"}
    assert sorted(executed) == sorted(OPCODES)


# shapes


@pytest.mark.parametrize("kind", (I1, I8, I32, I64, F32, BF16), ids=str)
def test_select_takes_the_chosen_operand(kind: Type) -> None:
    conditions, a, b = [0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]
    got = apply("select", kind, [(I1, conditions), (kind, a), (kind, b)]).tolist()
    assert got == [y if c else x for c, x, y in zip(conditions, b, a, strict=True)]


def test_select_between_vectors_by_one_condition() -> None:
    four = vector(I32, 4)
    rows = [(1, 2, 3, 4), (5, 6, 7, 8)]
    got = apply("select", four, [(I1, [1, 0]), (four, rows), (four, rows[::-1])]).tolist()
    assert got == [[1, 2, 3, 4], [1, 2, 3, 4]]


BITCASTS = [
    (F32, I32, "<f", "<i", [0.0, -0.0, 1.5, -3.25e-39, float("inf")]),
    (I32, F32, "<i", "<f", [0, -(2**31), 0x3FC00000, 0x7F800000]),
    (I16, BF16, "<h", None, [0x3F80, -0x4080]),
    (I64, F64, "<q", "<d", [0x3FF8000000000000, -(2**63)]),
    (F16, I16, "<e", "<h", [1.0, -2.5, 65504.0]),
]


@pytest.mark.parametrize(("source", "target", "pack", "unpack", "values"), BITCASTS, ids=str)
def test_bitcast_keeps_the_bits(
    source: Type, target: Type, pack: str, unpack: str | None, values: list[float]
) -> None:
    got = apply("bitcast", target, [(source, values)])
    raw = [struct.pack(pack, value) for value in values]
    if unpack is None:
        assert bits(got) == values
    else:
        assert bits(got) == bits(torch.tensor([struct.unpack(unpack, b)[0] for b in raw], dtype=got.dtype))


def test_bitcast_between_vectors_is_little_endian() -> None:
    """Words to bytes, bytes to words, and a scalar to a vector."""
    words, octets = vector(I32, 2), vector(I8, 8)
    rows = [(0x04030201, 0x08070605), (-1, 0x7F80FF00)]
    want = [[*struct.pack("<ii", *row)] for row in rows]
    got = apply("bitcast", octets, [(words, rows)]).to(torch.uint8).tolist()
    assert got == want
    signed = [tuple(b - 256 if b > 127 else b for b in row) for row in want]
    assert apply("bitcast", words, [(octets, signed)]).tolist() == [list(row) for row in rows]
    assert apply("bitcast", vector(I16, 2), [(I32, [0x00020001, -1])]).tolist() == [[1, 2], [-1, -1]]
    assert apply("bitcast", I32, [(vector(I16, 2), [(1, 2), (-1, 0)])]).tolist() == [0x00020001, 0xFFFF]


@pytest.mark.parametrize(
    ("source", "target"),
    [(I32, I64), (vector(I32, 2), vector(I32, 3)), (vector(I1, 8), I8), (I8, vector(I1, 8))],
    ids=str,
)
def test_bitcast_to_another_width_or_of_packed_booleans_is_refused(source: Type, target: Type) -> None:
    build = Builder()
    value = (0,) * source.length if source.length else 0
    build.op("bitcast", target, build.const(value, source), at="kernel.py:4")
    with pytest.raises(UnsupportedOperation, match=r"bitcast of .* at kernel\.py:4"):
        run(build)


def test_vector_elements() -> None:
    """extract, insert, build, splat, shuffle, on constant and on loaded vectors."""
    four = vector(I32, 4)
    rows = [(1, 2, 3, 4), (-5, 6, -7, 8)]
    for index in range(4):
        assert apply("extract", I32, [(four, rows)], index=index).tolist() == [row[index] for row in rows]
        got = apply("insert", four, [(I32, [90, 91]), (four, rows)], index=index).tolist()
        assert got == [
            [*row[:index], new, *row[index + 1 :]] for row, new in zip(rows, (90, 91), strict=True)
        ]
    pair = vector(F32, 2)
    assert apply("build", pair, [(F32, [1.0, 2.0]), (F32, [-0.0, 4.0])]).tolist() == [[1.0, -0.0], [2.0, 4.0]]
    assert apply("splat", four, [(I32, [7, -8])]).tolist() == [[7] * 4, [-8] * 4]
    mixed = apply("shuffle", vector(I32, 3), [(four, rows), (four, rows[::-1])], indices=(5, 0, 7)).tolist()
    assert mixed == [[6, 1, 8], [2, -5, 4]]
    assert apply("shuffle", vector(I32, 2), [(four, rows)], indices=(3, 1)).tolist() == [[4, 2], [8, 6]]


def test_vector_arithmetic_works_element_by_element() -> None:
    four = vector(I32, 4)
    a, b = [(2**31 - 1, -1, 0, 5)], [(1, 1, -7, 3)]
    assert apply("iadd", four, [(four, a), (four, b)]).tolist() == [[-(2**31), 0, -7, 8]]
    assert apply("imul", four, [(four, a), (four, b)]).tolist() == [[2**31 - 1, -1, 0, 15]]


def test_inserting_leaves_the_old_vector_alone() -> None:
    build = Builder()
    out = build.argument()
    old = build.const((1, 2), vector(I32, 2))
    build.op("insert", vector(I32, 2), build.const(9), old, index=0)
    lane = build.lane()
    build.store(build.op("extract", I32, old, index=0), build.at(out, lane, 4))
    result = torch.zeros(64, dtype=torch.int32)
    run(build, [result])
    assert result.tolist() == [1] * 64


@pytest.mark.parametrize("kind", (I8, I32, I64, F32, vector(I32, 4), vector(F32, 2)), ids=str)
def test_poison_has_every_bit_set(kind: Type) -> None:
    build = Builder()
    out = build.argument()
    build.store(build.op("poison", kind), build.at(out, build.lane(), kind.total_bytes))
    result = torch.zeros(64 * kind.total_bytes, dtype=torch.uint8)
    run(build, [result])
    assert result.tolist() == [255] * result.numel()


# coordinates


@pytest.mark.parametrize("kind", (I64, I32), ids=str)
@pytest.mark.parametrize(
    ("grid", "block"), [((3, 2, 2), (4, 2, 8)), ((5, 1, 1), (96, 1, 1)), ((1, 1, 3), (2, 3, 4))]
)
def test_coordinates(kind: Type, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    """x runs fastest, in the workgroup as in the grid; dimensions are those of the launch."""
    build = Builder()
    out = build.argument()
    threads, ctas = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    codes = ("thread_id", "block_id", "block_dim", "grid_dim")
    found = [build.op(code, kind, axis=axis) for code in codes for axis in range(3)]
    tid, bid = (
        _flat(build, kind, found[first : first + 3], sizes) for first, sizes in ((0, block), (3, grid))
    )
    row = build.op("iadd", kind, build.op("imul", kind, bid, build.const(threads, kind)), tid)
    first = build.op("imul", kind, row, build.const(12, kind))
    for column, value in enumerate(found):
        build.store(value, build.at(out, first, kind.total_bytes, column))
    result = torch.full((ctas * threads, 12), -1, dtype=torch.int32 if kind is I32 else torch.int64)
    assert run(build, [result], grid, block).findings == ()
    want = []
    for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
        for c, b, a in product(range(block[2]), range(block[1]), range(block[0])):
            want.append([a, b, c, x, y, z, *block, *grid])
    assert result.tolist() == want


def _flat(build: Builder, kind: Type, axes: list[int], sizes: tuple[int, int, int]) -> int:
    x, y, z = axes
    rows = build.op("iadd", kind, build.op("imul", kind, z, build.const(sizes[1], kind)), y)
    return build.op("iadd", kind, build.op("imul", kind, rows, build.const(sizes[0], kind)), x)


def test_lane_number_within_the_wave() -> None:
    build = Builder()
    out = build.argument()
    build.store(build.op("lane_id", I32), build.at(out, build.lane(), 4))
    result = torch.zeros(192, dtype=torch.int32)
    run(build, [result], block=(192, 1, 1))
    assert result.tolist() == [*range(64)] * 3


# control flow


def each_lane(body: Callable[[Builder, int], int], lanes: int = 128) -> list[int]:
    """What ``body(builder, lane)`` gives on each of ``lanes`` lanes of one workgroup, as 32-bit integers."""
    build = Builder()
    out = build.argument()
    index = build.lane()
    build.store(body(build, build.op("truncate", I32, index)), build.at(out, index, 4))
    result = torch.full((lanes,), -99, dtype=torch.int32)
    assert run(build, [result], block=(lanes, 1, 1)).findings == ()
    listed: list[int] = result.tolist()
    return listed


@pytest.mark.parametrize(
    ("low", "high", "step"), [(0, 5, 1), (0, 0, 1), (3, 3, 1), (5, 2, 1), (1, 8, 3), (-4, 4, 2)]
)
def test_uniform_loops(low: int, high: int, step: int) -> None:
    """Carried values count the trips and add up the index; with no trip they keep their first value."""

    def body(build: Builder, lane: int) -> int:
        first, last, stride = (build.const(value) for value in (low, high, step))
        (total,) = build.loop(
            first,
            last,
            stride,
            (build.const(1000),),
            lambda index, before: (build.op("iadd", I32, before, index),),
        )
        return total

    assert each_lane(body) == [1000 + sum(range(low, high, step))] * 128


def test_uneven_trip_counts_and_steps() -> None:
    """Each lane loops from its own start to its own end by its own step, with its own carried values."""

    def body(build: Builder, lane: int) -> int:
        low = build.op("and", I32, lane, build.const(3))
        high = build.op("urem", I32, lane, build.const(11))
        step = build.op("iadd", I32, build.op("and", I32, lane, build.const(1)), build.const(1))

        def inner(index: int, total: int, last: int) -> Values:
            weighted = build.op("imul", I32, total, build.const(3))
            return build.op("iadd", I32, weighted, index), index

        total, last = build.loop(low, high, step, (build.const(7), build.const(-1)), inner)
        return build.op("iadd", I32, build.op("imul", I32, total, build.const(100)), last)

    def want(lane: int) -> int:
        total, last = 7, -1
        for index in range(lane & 3, lane % 11, (lane & 1) + 1):
            total, last = 3 * total + index, index
        return total * 100 + last

    assert each_lane(body) == [want(lane) for lane in range(128)]


def test_carried_values_may_swap_places() -> None:
    """All carried values of a trip are taken before any is replaced."""

    def body(build: Builder, lane: int) -> int:
        zero, one = build.const(0), build.const(1)
        a, b = build.loop(zero, lane, one, (build.const(11), build.const(22)), lambda index, x, y: (y, x))
        return build.op("isub", I32, a, b)

    assert each_lane(body) == [-11 if lane % 2 == 0 else 11 for lane in range(128)]


@pytest.mark.parametrize("step", (0, -1))
@pytest.mark.parametrize("uniform", (True, False), ids=("uniform", "lanes"))
def test_a_loop_that_does_not_advance_is_refused(step: int, uniform: bool) -> None:
    build = Builder()
    high = build.const(4) if uniform else build.op("truncate", I32, build.lane())
    build.loop(build.const(0), high, build.const(step), (), lambda index: ())
    with pytest.raises(UnsupportedOperation, match="loop whose step is not positive"):
        run(build)


def test_lanes_that_are_off_may_hold_any_step() -> None:
    """A branch spares the lane whose step is zero; the others loop by theirs."""

    def body(build: Builder, lane: int) -> int:
        def looped() -> Values:
            zero = build.const(0)
            return build.loop(
                zero, build.const(9), lane, (zero,), lambda i, n: (build.op("iadd", I32, n, i),)
            )

        return build.branch(build.compare("ne", lane, build.const(0)), looped, lambda: (lane,))[0]

    assert each_lane(body) == [0, *(sum(range(0, 9, lane)) for lane in range(1, 128))]


def test_a_branch_runs_only_the_lanes_it_is_for() -> None:
    """Stores of the untaken side do not happen; a branch without an else yields nothing and harms nobody."""
    build = Builder()
    out = build.argument()
    lane = build.lane()
    place = build.at(out, lane, 4)

    def keep(value: int) -> Callable[[], Values]:
        def body() -> Values:
            build.store(build.const(value), place)
            return ()

        return body

    build.branch(build.compare("slt", lane, build.const(10, I64)), keep(1), keep(2))
    build.branch(build.compare("eq", lane, build.const(40, I64)), keep(3))
    build.branch(build.compare("slt", lane, build.const(0, I64)), keep(4))
    result = torch.zeros(64, dtype=torch.int32)
    assert run(build, [result]).findings == ()
    assert result.tolist() == [1] * 10 + [2] * 30 + [3] + [2] * 23


def test_a_nested_branch_runs_no_lane_its_outer_one_spared() -> None:
    """Stores of the inner then and else happen only for lanes of the outer then."""
    build = Builder()
    out = build.argument()
    lane = build.lane()
    place = build.at(out, lane, 4)

    def keep(value: int) -> Callable[[], Values]:
        def body() -> Values:
            build.store(build.const(value), place)
            return ()

        return body

    def inner() -> Values:
        build.branch(build.compare("slt", lane, build.const(5, I64)), keep(1), keep(2))
        return ()

    build.branch(build.compare("slt", lane, build.const(9, I64)), inner)
    result = torch.zeros(64, dtype=torch.int32)
    assert run(build, [result]).findings == ()
    assert result.tolist() == [1] * 5 + [2] * 4 + [0] * 55


def test_the_mask_is_back_after_a_branch_inside_a_loop() -> None:
    """if in for in if: inner branches cut the outer mask further, and the outer one is whole afterwards."""

    def body(build: Builder, lane: int) -> int:
        zero, one = build.const(0), build.const(1)

        def trip(index: int, total: int) -> Values:
            odd = build.compare("ne", build.op("and", I32, index, one), zero)
            far = build.compare("sgt", lane, build.const(20))
            deep = build.branch(
                odd,
                lambda: build.branch(far, lambda: (build.op("iadd", I32, total, index),), lambda: (total,)),
                lambda: (build.op("iadd", I32, total, build.const(1000)),),
            )
            return deep

        def looped() -> Values:
            return build.loop(zero, build.op("and", I32, lane, build.const(7)), one, (lane,), trip)

        (value,) = build.branch(
            build.compare("slt", lane, build.const(100)), looped, lambda: (build.const(-5),)
        )
        return value

    def want(lane: int) -> int:
        if lane >= 100:
            return -5
        total = lane
        for index in range(lane & 7):
            total += 1000 if index % 2 == 0 else index if lane > 20 else 0
        return total

    assert each_lane(body) == [want(lane) for lane in range(128)]


def test_branches_may_yield_pointers_into_one_tensor() -> None:
    build = Builder()
    source, out = build.argument(), build.argument()
    lane = build.lane()
    chosen = build.branch(
        build.compare("slt", lane, build.const(9, I64)),
        lambda: (build.at(source, lane, 4),),
        lambda: (build.at(source, build.const(0, I64), 4),),
    )
    build.store(build.load(I32, chosen[0]), build.at(out, lane, 4))
    result = torch.zeros(64, dtype=torch.int32)
    assert run(build, [torch.arange(100, 164, dtype=torch.int32), result]).findings == ()
    assert result.tolist() == [100 + lane if lane < 9 else 100 for lane in range(64)]


def test_branches_that_yield_pointers_into_two_tensors_are_refused() -> None:
    build = Builder()
    a, b = build.argument(), build.argument()
    build.branch(build.compare("slt", build.lane(), build.const(9, I64)), lambda: (a,), lambda: (b,))
    with pytest.raises(UnsupportedOperation, match="pointers to different tensors"):
        run(build, [torch.zeros(4), torch.zeros(4)])


@pytest.mark.parametrize("seed", range(14))
def test_random_programs_agree_with_a_scalar_interpreter(seed: int) -> None:
    """Nested loops and branches over uniform and lane-wise values, at two slab widths, lane for lane."""
    program = random_program(seed, threads=96)
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(-(2**31), 2**31, (3 * 96,), generator=generator, dtype=torch.int64).to(torch.int32)
    source[::3] %= 16
    memory = [source.tolist(), [0] * (3 * 96 * 4)]
    watched = [(cta, lane) for cta in range(3) for lane in range(cta, 96, 5)]
    for cta, lane in watched:
        Lane(program, memory, cta, lane)
    results = [torch.zeros((3 * 96, 4), dtype=torch.int32) for _ in range(2)]
    for width, result in zip((64, 65536), results, strict=True):
        assert run(program, [source, result], (3, 1, 1), (96, 1, 1), width).findings == ()
    assert torch.equal(*results)
    for cta, lane in watched:
        row = cta * 96 + lane
        assert results[0][row].tolist() == memory[1][4 * row : 4 * row + 4], f"workgroup {cta}, lane {lane}"


# cross-lane


def wave_rows(waves: int = 2, ctas: int = 3) -> Tensor:
    return torch.arange(1000, 1000 + ctas * waves * 64, dtype=torch.int32)


def across(
    body: Callable[[Builder, int, int], int],
    slab_lanes: int = 0,
    threads: int = 128,
    kinds: tuple[str, ...] = (),
) -> list[int]:
    """``body(builder, loaded value, lane)`` for three workgroups whose values are 1000 + global lane."""
    build = Builder()
    source, out = build.argument(), build.argument()
    lane, place = build.lane(), build.global_lane(threads)
    value = build.load(I32, build.at(source, place, 4))
    build.store(body(build, value, lane), build.at(out, place, 4))
    data = torch.arange(1000, 1000 + 3 * threads, dtype=torch.int32)
    result = torch.full_like(data, -99)
    ran = run(build, [data, result], (3, 1, 1), (threads, 1, 1), slab_lanes)
    assert tuple(ran.kinds) == kinds
    listed: list[int] = result.tolist()
    return listed


@pytest.mark.parametrize("width", SLABS)
def test_permute_pulls_from_the_lane_named_by_the_byte_index(width: int) -> None:
    """Index / 4 modulo 64, within the wave; the two low bits do not matter."""

    def body(build: Builder, value: int, lane: int) -> int:
        scattered = build.op("imul", I64, lane, build.const(4 * 5 + 256, I64))
        index = build.op("truncate", I32, build.op("iadd", I64, scattered, build.const(3, I64)))
        return build.op("permute_lanes", I32, index, value)

    want = [1000 + base + lane * 69 % 64 for base in range(0, 384, 64) for lane in range(64)]
    assert across(body, width) == want


def test_permute_by_uniform_index_and_of_uniform_value() -> None:
    seven = [1000 + base + 7 for base in range(0, 384, 64) for _ in range(64)]
    assert across(lambda build, value, lane: build.op("permute_lanes", I32, build.const(28), value)) == seven

    def of_uniform(build: Builder, value: int, lane: int) -> int:
        index = build.op("truncate", I32, build.op("imul", I64, lane, build.const(4, I64)))
        cta = build.op("truncate", I32, build.cta())
        return build.op("permute_lanes", I32, index, cta)

    assert across(of_uniform) == [cta for cta in range(3) for _ in range(128)]


def test_permute_under_a_condition_on_whole_waves_is_no_finding() -> None:
    """Switching off whole waves is how kernels guard their tail."""

    def body(build: Builder, value: int, lane: int) -> int:
        first = build.compare("slt", lane, build.const(64, I64))
        return build.branch(
            first, lambda: (build.op("permute_lanes", I32, build.const(0), value),), lambda: (value,)
        )[0]

    want = [1000 + 128 * cta + (0 if lane < 64 else lane) for cta in range(3) for lane in range(128)]
    assert across(body) == want


@pytest.mark.parametrize("width", SLABS)
def test_permute_across_switched_off_lanes_is_a_finding_and_reads_zero(width: int) -> None:
    """The finding names the first lane that is off; its count (waves) does not depend on the slab."""
    build = Builder()
    source, out = build.argument(), build.argument()
    lane, place = build.lane(), build.global_lane(64)
    value = build.load(I32, build.at(source, place, 4))

    def guarded() -> Values:
        index = build.op("truncate", I32, build.op("imul", I64, lane, build.const(8, I64)))
        return (build.op("permute_lanes", I32, index, value, at="kernel.py:9"),)

    given = build.branch(
        build.compare("slt", lane, build.const(40, I64)), guarded, lambda: (build.const(-1),)
    )
    build.store(given[0], build.at(out, place, 4))
    result = torch.zeros(5 * 64, dtype=torch.int32)
    ran = run(build, [wave_rows(5, 1), result], (5, 1, 1), (64, 1, 1), width)
    assert (ran.only.kind, ran.only.location, ran.only.count) == ("divergent-lanes", "kernel.py:9", 5)
    assert ran.only.first == {"cta": 0, "lane": 40}
    for cta in range(5):
        for lane_number, got in enumerate(result[64 * cta : 64 * cta + 64].tolist()):
            source_lane = 2 * lane_number % 64
            want = -1 if lane_number >= 40 else 0 if source_lane >= 40 else 1000 + 64 * cta + source_lane
            assert got == want


SHUFFLES: dict[str, Callable[[int, int, int], int]] = {
    "xor": lambda lane, offset, width: lane ^ offset,
    "up": lambda lane, offset, width: lane - offset,
    "down": lambda lane, offset, width: lane + offset,
    "idx": lambda lane, offset, width: lane // width * width + offset,
}


@pytest.mark.parametrize("width", (64, 32, 8))
@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffles_stay_within_their_width(mode: str, width: int) -> None:
    """A lane whose source lies outside its group of ``width`` keeps its own value and is told so."""
    for offset in (0, 1, 5, width - 1):

        def body(build: Builder, value: int, lane: int, offset: int = offset) -> int:
            got, valid = build.ops(
                "shuffle_lanes", (I32, I1), value, build.const(offset), build.const(width), mode=mode
            )
            return build.op("select", I32, valid, got, build.op("isub", I32, build.const(0), got))

        want = []
        for base in range(0, 384, 64):
            for lane in range(64):
                source = SHUFFLES[mode](lane, offset, width)
                valid = lane // width == source // width and 0 <= source < 64
                want.append(1000 + base + source if valid else -(1000 + base + lane))
        assert across(body) == want


@pytest.mark.parametrize("width", (0, 3, 128))
def test_shuffles_of_an_odd_width_are_refused(width: int) -> None:
    build = Builder()
    build.ops("shuffle_lanes", (I32, I1), build.const(1), build.const(1), build.const(width), mode="xor")
    with pytest.raises(UnsupportedOperation, match="power of two"):
        run(build)


def test_first_active_lane_and_named_lane() -> None:
    """Read-first-lane takes the first lane that is on; read-lane any lane, on or off."""
    first = [1000 + base for base in range(0, 384, 64) for _ in range(64)]
    assert across(lambda build, value, lane: build.op("broadcast_first", I32, value)) == first
    named = [value + 13 for value in first]
    assert across(lambda build, value, lane: build.op("read_lane", I32, value, build.const(13))) == named

    def after_five(build: Builder, value: int, lane: int) -> int:
        late = build.compare("sge", build.op("and", I64, lane, build.const(63, I64)), build.const(5, I64))
        return build.branch(late, lambda: (build.op("broadcast_first", I32, value),), lambda: (value,))[0]

    want = [1000 + base + min(lane, 5) for base in range(0, 384, 64) for lane in range(64)]
    assert across(after_five) == want


def test_a_condition_that_is_one_float_comparison_masks_every_lane_alike() -> None:
    """A comparison of two constants has no lane axes; cross-lane operations under it still work."""

    def body(build: Builder, value: int, lane: int) -> int:
        yes = build.compare("olt", build.const(1.0, F32), build.const(2.0, F32))
        return build.branch(yes, lambda: (build.op("broadcast_first", I32, value),), lambda: (value,))[0]

    assert across(body) == [1000 + base for base in range(0, 384, 64) for _ in range(64)]


def test_a_condition_that_is_false_for_all_lanes_runs_nothing() -> None:
    """Neither its stores nor its cross-lane operations, with and without values handed back."""

    def body(build: Builder, value: int, lane: int) -> int:
        no = build.compare("ogt", build.const(1.0, F32), build.const(2.0, F32))
        never = build.compare("slt", lane, build.const(0, I64))
        for condition in (no, never):
            (value,) = build.branch(
                condition,
                lambda: (build.op("broadcast_first", I32, build.const(-1)),),
                _handing(value),
            )
        return value

    assert across(body) == wave_rows().tolist()


def _handing(value: int) -> Callable[[], Values]:
    return lambda: (value,)


def test_a_workgroup_that_fills_no_wave_is_whole() -> None:
    """Lanes that a workgroup of 96 never had are neither reported by a barrier nor stored for."""

    def body(build: Builder, value: int, lane: int) -> int:
        build.do("barrier")
        return build.op("broadcast_first", I32, value)

    want = [1000 + 96 * cta + (0 if lane < 64 else 64) for cta in range(3) for lane in range(96)]
    assert across(body, threads=96) == want


def test_a_barrier_that_some_lanes_of_a_wave_miss_is_a_finding() -> None:
    def body(build: Builder, value: int, lane: int) -> int:
        def arrive() -> Values:
            build.do("barrier", at="kernel.py:2")
            return ()

        build.branch(build.compare("sge", lane, build.const(3, I64)), arrive)
        return value

    assert across(body, kinds=("divergent-lanes",)) == wave_rows().tolist()


# slabs


@pytest.mark.parametrize("width", SLABS)
def test_slab_width_changes_neither_results_nor_findings(width: int) -> None:
    """37 workgroups of 192 lanes: values, out-of-bounds loads and races, counted and placed alike."""
    seen = [_everything(slab_lanes) for slab_lanes in (width, 1 << 20)]
    assert seen[0][0] == seen[1][0]
    assert sorted(seen[0][1]) == sorted(seen[1][1])
    assert len(seen[0][1]) == 3


def _everything(slab_lanes: int) -> tuple[list[int], list[tuple[object, ...]]]:
    """A kernel with a shared-memory exchange that reads past its source and has two lanes store one cell."""
    build = Builder()
    source, out, cell = (build.argument() for _ in range(3))
    lane, place = build.lane(), build.global_lane(192)
    value = build.load(I32, build.at(source, place, 4, 5), at="kernel.py:1")
    shared = build.op("shared_base", SHARED, name="exchange", bytes=192 * 4)
    build.store(value, build.at(shared, lane, 4))
    build.do("barrier")
    mirrored = build.op("isub", I64, build.const(191, I64), lane)
    swapped = build.load(I32, build.at(shared, mirrored, 4))
    build.load(I32, build.at(shared, lane, 4, 100), at="kernel.py:2")
    build.store(swapped, build.at(out, place, 4))
    build.store(value, build.at(cell, build.cta(), 4), at="kernel.py:3")
    data = torch.arange(37 * 192, dtype=torch.int32)
    result = torch.zeros_like(data)
    ran = run(build, [data, result, torch.zeros(37, dtype=torch.int32)], (37, 1, 1), (192, 1, 1), slab_lanes)
    found = [(f.kind, f.operand, f.location, f.count, tuple(f.first.items())) for f in ran.findings]
    return result.tolist(), [tuple(str(part) for part in entry) for entry in found]
