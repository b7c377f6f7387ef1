"""Float opcodes of the emulator round once to nearest even, held against exact rational arithmetic."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import pytest
import torch

from harness.emulator.program import Type, UnsupportedOperation
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
    Builder,
    apply,
    bits,
    run,
)
from suites.self.rational import FORMATS, rounded

Exact = Callable[[Fraction, Fraction], Fraction]
Plain = Callable[[float, float], float]


def numbers(kind: Type) -> list[float]:
    """Zeros, subnormals, normals at both ends, and neighbours of one, of both signs; infinities; NaN."""
    digits, lowest, highest = FORMATS[kind.name]
    step = 2.0 ** (1 - digits)
    least = 2.0 ** (lowest - digits + 1)
    positive = [
        0.0,
        least,
        3 * least,
        2.0**lowest - least,
        2.0**lowest,
        1.0,
        1.0 + step,
        3.0,
        rounded(Fraction(1, 3), kind.name),
        2.0**digits + 2,
        (2 - step) * 2.0**highest,
        math.inf,
    ]
    return [*positive, *(-value for value in positive), math.nan]


def pairs(kind: Type) -> tuple[list[float], list[float]]:
    both = list(product(numbers(kind), numbers(kind)))
    return [a for a, _ in both], [b for _, b in both]


def expected(kind: Type, values: Sequence[float]) -> list[int]:
    listed: list[int] = bits(torch.tensor(values, dtype=torch.float64).to(getattr(torch, TORCH[kind.name])))
    return listed


TORCH = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def arithmetic(exact: Exact, plain: Plain, a: float, b: float, kind: Type) -> float:
    """Special cases as float64 has them; everything else exactly, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return plain(a, b)
    if plain is divide and b == 0:
        return divide(a, b)
    value = exact(Fraction(a), Fraction(b))
    if value == 0:
        return plain(a, b)
    return rounded(value, kind.name)


def divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


ARITHMETIC: dict[str, tuple[Exact, Plain]] = {
    "fadd": (operator.add, operator.add),
    "fsub": (operator.sub, operator.sub),
    "fmul": (operator.mul, operator.mul),
    "fdiv": (operator.truediv, divide),
}


@pytest.mark.parametrize("kind", (F32, BF16, F16, F64), ids=str)
@pytest.mark.parametrize("code", ARITHMETIC)
def test_arithmetic_rounds_once(code: str, kind: Type) -> None:
    """All pairs of edge values, including zero signs, subnormal results, overflow, infinities and NaN."""
    a, b = pairs(kind)
    exact, plain = ARITHMETIC[code]
    want = [arithmetic(exact, plain, x, y, kind) for x, y in zip(a, b, strict=True)]
    assert bits(apply(code, kind, [(kind, a), (kind, b)])) == expected(kind, want)


def fused(a: float, b: float, c: float) -> float:
    if not all(math.isfinite(x) for x in (a, b, c)):
        return a * b + c
    value = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(value) if value else a * b + c


def test_fused_multiply_add_rounds_once() -> None:
    """All triples of a subset of edges, and triples whose float64 sum would round twice."""
    few = [0.0, -0.0, 2.0**-149, 2.0**-126, 1 + 2.0**-23, -3.0, 2.0**24 + 2, 2.0**127, math.inf, math.nan]
    triples = list(product(few, few, few))
    one, ulp = 1 + 2.0**-23, 2.0**-24
    # Each product is a float32 midpoint, and c decides: 1 + 2**-24 exactly plus or minus something tiny.
    half = (1 - ulp) * (1 + 2.0**-23)
    assert half == 1 + 2.0**-24 - 2.0**-47
    for tiny in (2.0**-80, -(2.0**-80), 2.0**-149, -(2.0**-149)):
        triples += [(2.0**-12, 2.0**-12, 1.0), (one, 2.0**-24, tiny), (1.0, 2.0**-150 * 2**3, tiny)]
        triples += [(4097.0 * 2.0**-12, 4097.0 * 2.0**-12, tiny), (2.0**-75, 2.0**-75, tiny)]
        triples += [(3.0 * 2.0**-75, 2.0**-75, tiny), (-3.0 * 2.0**-75, 2.0**-75, tiny)]
    a, b, c = (torch.tensor([t[i] for t in triples]).float().double().tolist() for i in range(3))
    want = [fused(x, y, z) for x, y, z in zip(a, b, c, strict=True)]
    assert bits(apply("fma", F32, [(F32, a), (F32, b), (F32, c)])) == expected(F32, want)


@pytest.mark.parametrize("kind", (F16, BF16, F64), ids=str)
def test_fused_multiply_add_of_other_formats_is_refused(kind: Type) -> None:
    build = Builder()
    one = build.const(1.0, kind)
    build.op("fma", kind, one, one, one, at="kernel.py:7")
    with pytest.raises(UnsupportedOperation, match=rf"fma of {kind} at kernel\.py:7"):
        run(build)


def ieee(pick: Callable[[float, float], float], a: float, b: float) -> float:
    """IEEE 754-2019 maximum or minimum: NaN wins, and -0 is less than +0."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return pick(a, b) if a != b else pick((a, b), key=lambda x: math.copysign(1, x))  # type: ignore[call-arg,arg-type]


@pytest.mark.parametrize("kind", (F32, BF16, F16), ids=str)
@pytest.mark.parametrize("code", ("fmaximum", "fminimum"))
def test_ieee_extremes_order_zeros_and_keep_nan(code: str, kind: Type) -> None:
    pick = max if code == "fmaximum" else min
    a, b = pairs(kind)
    want = [ieee(pick, x, y) for x, y in zip(a, b, strict=True)]
    assert bits(apply(code, kind, [(kind, a), (kind, b)])) == expected(kind, want)


@pytest.mark.parametrize("kind", (F32, BF16, F16), ids=str)
@pytest.mark.parametrize("code", ("fmaxnum", "fminnum"))
def test_number_extremes_prefer_the_number(code: str, kind: Type) -> None:
    """NaN loses to a number; the sign of a zero is the operation's own choice."""
    pick = max if code == "fmaxnum" else min
    a, b = pairs(kind)
    got = apply(code, kind, [(kind, a), (kind, b)]).double().tolist()
    for value, x, y in zip(got, a, b, strict=True):
        want = y if math.isnan(x) else x if math.isnan(y) else pick(x, y)
        assert value == want or (math.isnan(value) and math.isnan(want))


@pytest.mark.parametrize("kind", (F32, BF16, F16, F64), ids=str)
def test_sign_operations(kind: Type) -> None:
    values = numbers(kind)
    assert bits(apply("fneg", kind, [(kind, values)])) == expected(kind, [-value for value in values])
    assert bits(apply("fabs", kind, [(kind, values)])) == expected(kind, [abs(value) for value in values])


PREDICATES = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons(predicate: str) -> None:
    """Ordered predicates are false, unordered ones true, as soon as one operand is NaN."""
    a, b = pairs(F32)
    got = apply("fcmp", I1, [(F32, a), (F32, b)], predicate=predicate).tolist()
    assert got == [int(compare(predicate, x, y)) for x, y in zip(a, b, strict=True)]


def compare(predicate: str, a: float, b: float) -> bool:
    unordered = math.isnan(a) or math.isnan(b)
    if predicate in ("true", "false"):
        return predicate == "true"
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    if unordered:
        return predicate[0] == "u"
    return bool(getattr(operator, predicate[1:])(a, b))


def test_widening_is_exact_for_every_pattern() -> None:
    """All 65,536 patterns of both 16-bit formats, to float32."""
    pattern = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    for kind, dtype in ((BF16, torch.bfloat16), (F16, torch.float16)):
        values = pattern.view(dtype).tolist()
        got = apply("fextend", F32, [(kind, values)])
        if kind is BF16:
            direct = (torch.arange(65536, dtype=torch.int64) << 16).to(torch.int32).view(torch.float32)
            assert bits(got) == bits(direct)
        else:
            want = [struct.unpack("<e", struct.pack("<H", code))[0] for code in range(65536)]
            assert bits(got) == expected(F32, want)
    assert bits(apply("fextend", F64, [(F32, numbers(F32))])) == expected(F64, numbers(F32))


def narrowing_values(source: Type, target: Type) -> list[float]:
    """Edges of both formats, and midpoints of the target with their neighbours in the source."""
    digits, lowest, _ = FORMATS[target.name]
    values = [*numbers(source), *numbers(target)]
    for exponent in (lowest - digits + 1, lowest - 1, lowest, -1, 0, 5):
        for odd in (1, 3, 2**digits - 1):
            middle = Fraction(odd) * Fraction(2) ** (exponent - digits)
            for nudge in (0, 1, -1):
                value = rounded(
                    middle * (1 + nudge * Fraction(2) ** (1 - FORMATS[source.name][0])), source.name
                )
                values += [value, -value]
    return [rounded(Fraction(v), source.name) if math.isfinite(v) and v else v for v in values]


@pytest.mark.parametrize(
    ("source", "target"),
    [(F32, BF16), (F32, F16), (F64, F32), (F64, BF16), (F64, F16)],
    ids=lambda kind: str(kind),
)
def test_narrowing_rounds_once(source: Type, target: Type) -> None:
    """Never by way of a third format: float64 to bfloat16 through float32 would round twice."""
    values = narrowing_values(source, target)
    want = [rounded(Fraction(v), target.name) if math.isfinite(v) and v else v for v in values]
    want = [math.copysign(w, v) if w == 0 else w for w, v in zip(want, values, strict=True)]
    assert bits(apply("fround", target, [(source, values)])) == expected(target, want)


def integers(kind: Type) -> list[int]:
    """Integers at powers of two, their neighbours, and where a second rounding would show."""
    values = {0, 1, -1, 3, -7, 100, 255, -256}
    for power in range(8, kind.bits - 1):
        for offset in (-1, 0, 1):
            values |= {2**power + offset, -(2**power) + offset}
            for digits in (8, 11, 24, 53):
                if power > digits:
                    middle = 2**power + 2 ** (power - digits)
                    values |= {middle + offset, -middle - offset}
    limit = 2 ** (kind.bits - 1)
    return sorted(v for v in values | {limit - 1, -limit} if -limit <= v < limit)


@pytest.mark.parametrize("target", (F32, F16, BF16, F64), ids=str)
@pytest.mark.parametrize("source", (I8, I16, I32, I64), ids=str)
def test_signed_integers_to_float_round_once(source: Type, target: Type) -> None:
    values = integers(source)
    want = [rounded(Fraction(v), target.name) for v in values]
    assert bits(apply("int_to_float", target, [(source, values)])) == expected(target, want)


@pytest.mark.parametrize("target", (F32, F16, BF16, F64), ids=str)
@pytest.mark.parametrize("source", (I8, I16, I32), ids=str)
def test_unsigned_integers_to_float_round_once(source: Type, target: Type) -> None:
    values = integers(source)
    want = [rounded(Fraction(v % 2**source.bits), target.name) for v in values]
    assert bits(apply("uint_to_float", target, [(source, values)])) == expected(target, want)


def test_a_set_boolean_is_minus_one_signed_and_one_unsigned() -> None:
    assert apply("int_to_float", F32, [(I1, [0, 1])]).tolist() == [0.0, -1.0]
    assert apply("uint_to_float", F32, [(I1, [0, 1])]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("target", (I8, I16, I32, I64), ids=str)
@pytest.mark.parametrize("source", (F32, F16, BF16), ids=str)
def test_float_to_integer_truncates_and_saturates(source: Type, target: Type) -> None:
    """Toward zero inside the range, the nearest bound outside it, zero for NaN."""
    limit = 2 ** (target.bits - 1)
    near = [rounded(Fraction(v), source.name) for v in (limit - 1, limit, -limit, -limit - 1, limit // 2)]
    values = [*numbers(source), 0.999, -0.999, 1.999, -1.999, 126.5, -128.5, *near]
    values = torch.tensor(values, dtype=getattr(torch, TORCH[source.name])).double().tolist()
    got = apply("float_to_int", target, [(source, values)]).tolist()
    assert got == [truncated(value, limit) for value in values]


def truncated(value: float, limit: int) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return limit - 1 if value > 0 else -limit
    return max(-limit, min(limit - 1, int(value)))
