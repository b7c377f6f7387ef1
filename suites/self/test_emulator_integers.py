"""Integer opcodes of the emulator are two's complement of their width, held against Python's integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product

import pytest
import torch

from harness.emulator.program import Type, UnsupportedOperation
from suites.self.emulator_builder import I1, I8, I16, I32, I64, Builder, apply, run

WIDTHS = (I8, I16, I32, I64)
Function = Callable[[int, int], int]


def edges(kind: Type) -> list[int]:
    """Values where arithmetic of this width turns over."""
    top = 1 << (kind.bits - 1)
    return sorted({0, 1, 2, 3, 7, -1, -2, -7, top - 1, top - 2, top // 2, -top, 1 - top, -(top // 2)})


def wrap(number: int, kind: Type) -> int:
    number %= 1 << kind.bits
    return number - (1 << kind.bits) if number >> (kind.bits - 1) else number


def unsigned(number: int, kind: Type) -> int:
    return number % (1 << kind.bits)


def pairs(kind: Type) -> tuple[list[int], list[int]]:
    both = list(product(edges(kind), edges(kind)))
    return [a for a, _ in both], [b for _, b in both]


def check(code: str, kind: Type, a: list[int], b: list[int], function: Function) -> None:
    got = apply(code, kind, [(kind, a), (kind, b)]).tolist()
    assert got == [wrap(function(x, y), kind) for x, y in zip(a, b, strict=True)]


def trunc_divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


WRAPPING: dict[str, Function] = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "imin_signed": min,
    "imax_signed": max,
}


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
@pytest.mark.parametrize("code", WRAPPING)
def test_arithmetic_wraps(code: str, kind: Type) -> None:
    """Sums, products, bit operations and signed extremes of all edge pairs."""
    check(code, kind, *pairs(kind), WRAPPING[code])


SIGNED_DIVISION: dict[str, Function] = {
    "idiv_floor": operator.floordiv,
    "idiv_ceil": lambda a, b: -(-a // b),
    "idiv_trunc": trunc_divide,
    "irem": lambda a, b: a - b * trunc_divide(a, b),
}


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
@pytest.mark.parametrize("code", SIGNED_DIVISION)
def test_signed_division_rounds_as_named(code: str, kind: Type) -> None:
    """Quotients and remainders of all edge pairs; the one overflowing quotient wraps."""
    a, b = pairs(kind)
    kept = [(x, y) for x, y in zip(a, b, strict=True) if y]
    check(code, kind, [x for x, _ in kept], [y for _, y in kept], SIGNED_DIVISION[code])


@pytest.mark.parametrize("kind", (I8, I16, I32), ids=str)
@pytest.mark.parametrize("code", ("udiv", "urem", "imin_unsigned", "imax_unsigned"))
def test_unsigned_arithmetic_reads_all_bits_as_magnitude(code: str, kind: Type) -> None:
    """Unsigned quotient, remainder and extremes of all edge pairs."""
    functions: dict[str, Function] = {
        "udiv": operator.floordiv,
        "urem": operator.mod,
        "imin_unsigned": min,
        "imax_unsigned": max,
    }
    a, b = pairs(kind)
    kept = [(x, y) for x, y in zip(a, b, strict=True) if y or ("div" not in code and "rem" not in code)]
    function = functions[code]
    check(
        code,
        kind,
        [x for x, _ in kept],
        [y for _, y in kept],
        lambda x, y: function(unsigned(x, kind), unsigned(y, kind)),
    )


@pytest.mark.parametrize("code", ("udiv", "urem", "idiv_trunc", "idiv_floor", "idiv_ceil", "irem"))
@pytest.mark.parametrize("uniform", (True, False), ids=("uniform", "lanes"))
def test_division_by_zero_is_refused(code: str, uniform: bool) -> None:
    """No value is invented for a quotient that has none; the refusal names the operation and its line."""
    build = Builder()
    zero = build.const(0) if uniform else build.op("truncate", I32, build.lane())
    build.op(code, I32, build.const(7), zero, at="kernel.py:3")
    with pytest.raises(UnsupportedOperation, match=rf"division by zero in {code} at kernel\.py:3"):
        run(build)


@pytest.mark.parametrize("code", ("udiv", "urem", "idiv_trunc", "idiv_floor", "idiv_ceil", "irem"))
def test_a_lane_spared_by_a_branch_may_hold_a_zero_divisor(code: str) -> None:
    """``if b != 0: out = a / b`` runs, and the lane with the zero keeps its old value."""
    build = Builder()
    out = build.argument()
    lane = build.op("truncate", I32, build.lane())

    def body() -> tuple[int, ...]:
        build.store(build.op(code, I32, build.const(100), lane), build.at(out, lane, 4))
        return ()

    build.branch(build.compare("ne", lane, build.const(0)), body)
    result = torch.full((64,), -1, dtype=torch.int32)
    assert run(build, [result]).findings == ()
    function = {"urem": operator.mod, "udiv": operator.floordiv, **SIGNED_DIVISION}[code]
    assert result.tolist() == [-1, *(function(100, b) for b in range(1, 64))]


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
@pytest.mark.parametrize("code", ("shl", "shr_signed", "shr_unsigned"))
def test_shifts_by_every_count(code: str, kind: Type) -> None:
    """Every edge value by every count from 0 to width - 1."""
    functions: dict[str, Function] = {
        "shl": operator.lshift,
        "shr_signed": operator.rshift,
        "shr_unsigned": lambda a, b: unsigned(a, kind) >> b,
    }
    both = list(product(edges(kind), range(kind.bits)))
    check(code, kind, [a for a, _ in both], [b for _, b in both], functions[code])


PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@pytest.mark.parametrize("kind", WIDTHS, ids=str)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons(predicate: str, kind: Type) -> None:
    """Each predicate on all edge pairs."""
    function = getattr(operator, predicate if predicate in ("eq", "ne") else predicate[1:])
    view: Callable[[int, Type], int] = unsigned if predicate[0] == "u" else lambda a, _: a
    a, b = pairs(kind)
    got = apply("icmp", I1, [(kind, a), (kind, b)], predicate=predicate).tolist()
    assert got == [int(function(view(x, kind), view(y, kind))) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons_of_booleans(predicate: str) -> None:
    """A set bit is -1 signed and 1 unsigned."""
    function = getattr(operator, predicate if predicate in ("eq", "ne") else predicate[1:])
    sign = -1 if predicate[0] == "s" else 1
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    got = apply("icmp", I1, [(I1, a), (I1, b)], predicate=predicate).tolist()
    assert got == [int(function(sign * x, sign * y)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("code", ("iadd", "isub", "imul", "and", "or", "xor"))
def test_boolean_arithmetic_is_modulo_two(code: str) -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    got = apply(code, I1, [(I1, a), (I1, b)]).tolist()
    assert got == [WRAPPING[code](x, y) % 2 for x, y in zip(a, b, strict=True)]


ALL = (I1, *WIDTHS)
WIDENINGS = [(source, target) for source, target in product(ALL, ALL) if source.bits < target.bits]


@pytest.mark.parametrize(("source", "target"), WIDENINGS, ids=str)
@pytest.mark.parametrize("code", ("sign_extend", "zero_extend"))
def test_extensions(code: str, source: Type, target: Type) -> None:
    """Widening keeps the signed, respectively the unsigned, value."""
    values = [0, 1] if source is I1 else edges(source)
    view = wrap if code == "sign_extend" else unsigned
    assert apply(code, target, [(source, values)]).tolist() == [view(value, source) for value in values]


@pytest.mark.parametrize(("target", "source"), WIDENINGS, ids=str)
def test_truncation_keeps_the_low_bits(source: Type, target: Type) -> None:
    values = [0, 1] if source is I1 else [*edges(source), *(value + 1 for value in edges(source)[:-1]), 0x55]
    view = unsigned if target is I1 else wrap
    assert apply("truncate", target, [(source, values)]).tolist() == [view(value, target) for value in values]
