"""32-bit arithmetic that leaves its type on the way to an address is found; other arithmetic may wrap."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.emulator.allocation import FLAGS
from harness.findings import Finding
from suites.self.emulator_builder import I1, I32, I64, RESOURCE, Builder, Ran, Values, run

LINE = "kernel.py:8"
Body = Callable[[Builder, int], int]


def through_buffer(body: Body, lanes: int = 64) -> Ran:
    """Loads through an unbounded descriptor at the 32-bit offset ``body(builder, lane)``."""

    def use(build: Builder, data: int, offset: int) -> None:
        none = build.const(0, I64)
        records = build.const(0xFFFFFFFF, I64)
        descriptor = build.op("resource", RESOURCE, data, none, records, build.const(FLAGS))
        build.op("buffer_load", I32, descriptor, offset, build.const(0))

    return _watched(body, use, lanes)


def through_pointer(body: Body, lanes: int = 64) -> Ran:
    """Loads through a pointer advanced by the sign-extended ``body(builder, lane)`` bytes."""

    def use(build: Builder, data: int, offset: int) -> None:
        build.load(I32, build.at(data, build.op("sign_extend", I64, offset)))

    return _watched(body, use, lanes)


def through_index(body: Body, lanes: int = 64) -> Ran:
    """The same with the 32-bit value as the index itself."""
    return _watched(
        body, lambda build, data, offset: _ignored(build.load(I32, build.at(data, offset))), lanes
    )


def _ignored(value: int) -> None:
    return None


def _watched(body: Body, use: Callable[[Builder, int, int], None], lanes: int) -> Ran:
    build = Builder("wraps")
    data = build.argument()
    lane = build.op("truncate", I32, build.lane())
    use(build, data, body(build, lane))
    return run(build, [torch.zeros(4096, dtype=torch.int32)], block=(lanes, 1, 1))


def wraps(ran: Ran) -> tuple[Finding, ...]:
    """Only the wraps: addresses this large are out of bounds of any test tensor as well."""
    return tuple(finding for finding in ran.findings if finding.kind == "address-wrap")


def wrap(count: int, lane: int, value: int) -> tuple[Finding, ...]:
    first = {"cta": 0, "lane": lane, "value": value}
    return (Finding("address-wrap", "wraps", "", LINE, count, first),)


def scaled(factor: int, offset: int = 0) -> Body:
    """lane * factor + offset, both steps in 32 bits."""

    def body(build: Builder, lane: int) -> int:
        return build.op(
            "imul", I32, build.op("iadd", I32, lane, build.const(offset)), build.const(factor), at=LINE
        )

    return body


def test_a_product_may_use_all_32_bits_of_a_buffer_offset_and_no_more() -> None:
    """63 * 2**26 is below 2**32; 64 * 2**26 is 2**32, which lands on byte 0."""
    assert wraps(through_buffer(scaled(2**26))) == ()
    assert wraps(through_buffer(scaled(2**26, 1))) == wrap(1, 63, 2**32)
    assert through_buffer(scaled(2**26, 1)).kinds.count("out-of-bounds-load") == 1


@pytest.mark.parametrize("way", (through_pointer, through_index))
def test_a_product_may_use_31_bits_where_its_sign_counts(way: Callable[[Body], Ran]) -> None:
    """63 * 2**25 is below 2**31; 64 * 2**25 is 2**31, which is read as negative."""
    assert wraps(way(scaled(2**25))) == ()
    assert wraps(way(scaled(2**25, 1))) == wrap(1, 63, 2**31)


def test_a_wrap_that_lands_inside_the_tensor_is_still_found() -> None:
    """lane * 2**26 * 64 is a multiple of 2**32: every address is 0, and 63 of them are wrong."""

    def body(build: Builder, lane: int) -> int:
        return build.op("shl", I32, lane, build.const(32 - 5), at=LINE)

    ran = through_buffer(body)
    assert wraps(ran) == wrap(32, 32, 2**32)


@pytest.mark.parametrize(
    ("code", "first", "second", "exact"),
    [
        ("iadd", 2**31 - 1, 1, 2**31),
        ("isub", -(2**31), 1, -(2**31) - 1),
        ("isub", 2**31 - 1, -1, 2**31),
        ("imul", -(2**16), 2**15 + 1, -(2**31) - 2**16),
        ("shl", 1, 31, 2**31),
        ("shl", -3, 30, -3 * 2**30),
    ],
)
@pytest.mark.parametrize("uniform", (True, False), ids=("uniform", "lanes"))
def test_each_operation_and_each_end(code: str, first: int, second: int, exact: int, uniform: bool) -> None:
    """One step outside the signed range either way; constants count for every lane."""

    def body(build: Builder, lane: int) -> int:
        a = build.const(first)
        if not uniform:
            a = build.op("iadd", I32, a, build.op("and", I32, lane, build.const(0)))
        return build.op(code, I32, a, build.const(second), at=LINE)

    assert wraps(through_pointer(body)) == wrap(64, 0, exact)


def test_truncation_to_32_bits_is_watched() -> None:
    """A 64-bit byte offset narrowed for a buffer access."""

    def body(build: Builder, lane: int) -> int:
        wide = build.op("imul", I64, build.op("sign_extend", I64, lane), build.const(2**27, I64))
        return build.op("truncate", I32, wide, at=LINE)

    assert wraps(through_buffer(body)) == wrap(32, 32, 2**32)


def test_two_steps_across_the_top_are_found() -> None:
    """2**32 - 2**26 is a legal offset; adding 2**26 is not, though the sum reads as -2**26 + 2**26."""

    def body(build: Builder, lane: int) -> int:
        legal = build.op("imul", I32, lane, build.const(2**26), at="kernel.py:7")
        return build.op("iadd", I32, legal, build.const(2**26), at=LINE)

    assert wraps(through_buffer(body)) == wrap(1, 63, 2**32)


def test_a_wrap_is_reported_where_it_happens_and_not_again() -> None:
    def body(build: Builder, lane: int) -> int:
        wrapped = build.op("imul", I32, lane, build.const(2**27), at=LINE)
        return build.op("iadd", I32, wrapped, build.const(4), at="kernel.py:9")

    assert wraps(through_buffer(body)) == wrap(32, 32, 2**32)


def test_arithmetic_that_reaches_no_address_may_wrap() -> None:
    """A hash that is stored, and a condition that guards a load."""
    build = Builder()
    data, out = build.argument(), build.argument()
    lane = build.op("truncate", I32, build.lane())
    mixed = build.op("imul", I32, lane, build.const(0x7FEB352D))
    build.store(mixed, build.at(out, build.lane(), 4))
    odd = build.compare("slt", build.op("shl", I32, mixed, build.const(7)), build.const(0))

    def body() -> Values:
        build.load(I32, data)
        return ()

    build.branch(odd, body)
    assert run(build, [torch.zeros(1), torch.zeros(64, dtype=torch.int32)]).findings == ()


def test_an_address_taken_from_memory_is_not_arithmetic() -> None:
    """What was loaded is what was stored: its history is not the address's."""
    build = Builder()
    data, out = build.argument(), build.argument()
    lane = build.op("truncate", I32, build.lane())
    build.store(build.op("imul", I32, lane, build.const(2**27)), build.at(out, build.lane(), 4))
    build.load(I32, build.at(data, build.load(I32, build.at(out, build.lane(), 4)), 0))
    assert run(build, [torch.zeros(1), torch.zeros(64, dtype=torch.int32)]).findings == ()


def test_lanes_that_are_off_may_wrap() -> None:
    build = Builder()
    data = build.argument()
    lane = build.op("truncate", I32, build.lane())

    def body() -> Values:
        build.load(I32, build.at(data, build.op("imul", I32, lane, build.const(2**26))))
        return ()

    build.branch(build.compare("slt", lane, build.const(1)), body)
    assert run(build, [torch.zeros(1)]).findings == ()


PASSES: dict[str, Body] = {
    "select": lambda build, value: build.op("select", I32, build.op("truncate", I1, value), value, value),
    "and": lambda build, value: build.op("and", I32, value, build.const(-4)),
    "or": lambda build, value: build.op("or", I32, value, build.const(0)),
    "broadcast_first": lambda build, value: build.op("broadcast_first", I32, value),
    "read_lane": lambda build, value: build.op("read_lane", I32, value, build.const(63)),
    "permute_lanes": lambda build, value: build.op("permute_lanes", I32, build.const(63 * 4), value),
    "branch": lambda build, value: build.branch(
        build.compare("sgt", value, build.const(-5)), lambda: (value,), lambda: (value,)
    )[0],
    "loop": lambda build, value: build.loop(
        build.const(0), build.const(2), build.const(1), (value,), lambda index, carried: (carried,)
    )[0],
}


@pytest.mark.parametrize("way", PASSES)
def test_values_are_followed_through_whatever_hands_them_on(way: str) -> None:
    """A value up to 2**32 may pass to a buffer offset by each of these ways, and no further."""

    def body(factor: int) -> Body:
        return lambda build, lane: PASSES[way](build, scaled(factor, 1)(build, lane))

    assert wraps(through_buffer(body(2**25))) == ()
    assert wraps(through_buffer(body(2**26))) == wrap(1, 63, 2**32)
    assert wraps(through_pointer(body(2**24))) == ()
    assert wraps(through_pointer(body(2**25))) == wrap(1, 63, 2**31)


@pytest.mark.parametrize("code", ("idiv_floor", "irem", "shr_signed", "imin_signed"))
def test_operations_that_read_the_sign_keep_the_limit_of_31_bits(code: str) -> None:
    def body(factor: int) -> Body:
        return lambda build, lane: build.op(code, I32, scaled(factor, 1)(build, lane), build.const(7))

    assert wraps(through_buffer(body(2**24))) == ()
    assert wraps(through_buffer(body(2**25))) == wrap(1, 63, 2**31)


@pytest.mark.parametrize("code", ("udiv", "urem", "shr_unsigned", "imin_unsigned"))
def test_operations_that_read_a_magnitude_allow_32_bits(code: str) -> None:
    def body(factor: int) -> Body:
        return lambda build, lane: build.op(code, I32, scaled(factor, 1)(build, lane), build.const(7))

    assert wraps(through_pointer(body(2**25))) == ()
    assert wraps(through_pointer(body(2**26))) == wrap(1, 63, 2**32)


def test_zero_extension_allows_32_bits_on_the_way_to_a_pointer() -> None:
    def use(factor: int) -> Ran:
        build = Builder("wraps")
        data = build.argument()
        offset = scaled(factor, 1)(build, build.op("truncate", I32, build.lane()))
        build.load(I32, build.at(data, build.op("zero_extend", I64, offset)))
        return run(build, [torch.zeros(1)])

    assert wraps(use(2**25)) == ()
    assert wraps(use(2**26)) == wrap(1, 63, 2**32)


def test_an_offset_that_a_loop_carries_is_watched() -> None:
    """offset += 2**30: the second sum is 2**31, beyond what a sign-extended offset holds."""

    def advance(trips: int) -> Ran:
        build = Builder("wraps")
        data = build.argument()

        def trip(index: int, offset: int) -> Values:
            build.load(I32, build.at(data, build.op("sign_extend", I64, offset)))
            return (build.op("iadd", I32, offset, build.const(2**30), at=LINE),)

        build.loop(build.const(0), build.const(trips), build.const(1), (build.const(0),), trip)
        return run(build, [torch.zeros(1)])

    assert wraps(advance(1)) == ()
    assert wraps(advance(2)) == wrap(64, 0, 2**31)


def test_the_count_is_the_lanes_of_the_whole_grid() -> None:
    for slab_lanes in (64, 65536):
        build = Builder("wraps")
        data = build.argument()
        offset = build.op("imul", I32, build.op("truncate", I32, build.cta()), build.const(2**29), at=LINE)
        build.load(I32, build.at(data, build.op("sign_extend", I64, offset)))
        ran = run(build, [torch.zeros(1)], (6, 1, 1), (128, 1, 1), slab_lanes)
        assert wraps(ran) == (
            Finding("address-wrap", "wraps", "", LINE, 256, {"cta": 4, "lane": 0, "value": 2**31}),
        )
