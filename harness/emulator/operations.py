"""Meaning of every opcode that maps values to values: integers, floats, shapes.

One entry a opcode; each takes the operation, the types of its operands and result and the
operand values, and returns the result. Integer arithmetic wraps; float arithmetic is one
IEEE rounding an operation, in the operand's own format, with no fusing that the program
does not ask for. Torch's CPU and CUDA kernels for add, subtract, multiply and divide round
once; fused multiply-add has no torch operation in float32 and comes from `rounding`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.emulator import lanes
from harness.emulator.lanes import Value, bitcast, dtype_of, tensor, unsigned, wrap
from harness.emulator.program import Op, Type, UnsupportedOperation
from harness.emulator.rounding import fma, narrow, narrow_integer


@dataclass(frozen=True, slots=True)
class Site:
    """Where a value is computed: the operation, its operand and result types, the device."""

    op: Op
    operands: tuple[Type, ...]
    result: Type
    device: torch.device


Evaluate = Callable[..., Value]


def _integer(function: Callable[[Any, Any], Any]) -> Evaluate:
    """Wrapping arithmetic: Python ints stay Python ints, tensors keep the result's dtype."""

    def evaluate(site: Site, a: Value, b: Value) -> Value:
        if site.result.bits == 1:
            return _modulo_two(function, a, b)
        value = function(a, b)
        if isinstance(value, Tensor):
            return value if value.dtype == dtype_of(site.result) else value.to(dtype_of(site.result))
        return wrap(int(value), site.result.bits)

    return evaluate


def _modulo_two(function: Callable[[Any, Any], Any], a: Value, b: Value) -> Value:
    """Arithmetic of booleans (torch's own saturates, or is refused)."""
    a, b = (value.to(torch.int8) if isinstance(value, Tensor) else int(value) for value in (a, b))
    value = function(a, b) & 1
    return value.bool() if isinstance(value, Tensor) else bool(value)


def _logical(function: Callable[[Any, Any], Any]) -> Evaluate:
    """Bitwise operations; on booleans a Python bool joins a bool tensor."""

    def evaluate(site: Site, a: Value, b: Value) -> Value:
        if site.result.bits == 1 and not isinstance(a, Tensor) and not isinstance(b, Tensor):
            return bool(function(bool(a), bool(b)))
        return function(a, b)

    return evaluate


_QUOTIENT: dict[str, Callable[[int, int], int]] = {
    "floor": lambda a, b: a // b,
    "ceil": lambda a, b: -(-a // b),
    "trunc": lambda a, b: abs(a) // abs(b) * _sign(a, b),
}


def _divide(kind: str) -> Evaluate:
    def evaluate(site: Site, a: Value, b: Value) -> Value:
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            _refuse_zero(b == 0, site)
            return wrap(_QUOTIENT[kind](a, b), site.result.bits)
        if isinstance(b, int) and kind == "floor" and b > 0 and b & (b - 1) == 0:
            return a >> (b.bit_length() - 1)
        a, b = _divisible(site, a, b)
        quotient = torch.div(a, b, rounding_mode="floor" if kind == "ceil" else kind)
        return quotient + (quotient * b != a).to(quotient.dtype) if kind == "ceil" else quotient

    return evaluate


def _divisible(site: Site, a: Value, b: Value) -> tuple[Tensor, Tensor]:
    """Operands with the same quotient and remainder that the processor's own division takes.

    The smallest number divided by -1 wraps; on x86 the division itself would kill the process.
    """
    a, b = _both(site, a, b)
    _refuse_zero(bool((b == 0).any()), site)
    minus = b == -1
    return torch.where(minus, -a, a), torch.where(minus, torch.ones_like(b), b)


def _both(site: Site, a: Value, b: Value) -> tuple[Tensor, Tensor]:
    return (
        tensor(a, site.operands[0], site.device),
        tensor(b, site.operands[1], site.device),
    )


def _sign(a: int, b: int) -> int:
    return -1 if (a < 0) != (b < 0) else 1


def _refuse_zero(zero: bool, site: Site) -> None:
    if zero:
        raise UnsupportedOperation(f"division by zero in {site.op.code}", site.op.location)


def _remainder(site: Site, a: Value, b: Value) -> Value:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        _refuse_zero(b == 0, site)
        return wrap(abs(a) % abs(b) * (-1 if a < 0 else 1), site.result.bits)
    return torch.fmod(*_divisible(site, a, b))


def _divide_unsigned(function: Callable[[Any, Any], Any]) -> Evaluate:
    evaluate = _on_unsigned(function)

    def checked(site: Site, a: Value, b: Value) -> Value:
        _refuse_zero(bool((torch.as_tensor(b) == 0).any()), site)
        return evaluate(site, a, b)

    return checked


def _on_unsigned(function: Callable[[Any, Any], Any]) -> Evaluate:
    def evaluate(site: Site, a: Value, b: Value) -> Value:
        bits = site.operands[0].bits
        value = function(unsigned(a, bits), unsigned(b, bits))
        if isinstance(value, Tensor):
            return value.to(dtype_of(site.result))
        return bool(value) if site.result.bits == 1 else wrap(int(value), site.result.bits)

    return evaluate


def _shift_right_unsigned(site: Site, a: Value, b: Value) -> Value:
    bits = site.operands[0].bits
    if isinstance(b, int) and isinstance(a, Tensor) and 0 < b < bits:
        return (a >> b) & ((1 << (bits - b)) - 1)
    if isinstance(b, int) and b == 0:
        return a
    if bits == 64 and (isinstance(a, Tensor) or isinstance(b, Tensor)):
        a, b = _both(site, a, b)
        return torch.where(b == 0, a, (a >> b) & ~(torch.full_like(a, -1) << (64 - b)))
    return _on_unsigned(operator.rshift)(site, a, b)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _compare_integers(site: Site, a: Value, b: Value) -> Value:
    predicate = site.op.attrs["predicate"]
    function, bits = _COMPARE[predicate[-2:]], site.operands[0].bits
    if predicate[0] == "u" and bits == 64:
        top = -(1 << 63)  # flipping the sign bit turns the unsigned order into the signed one
        return function(a ^ top, b ^ top)
    if predicate[0] == "u":
        return _on_unsigned(function)(site, a, b)
    return function(b, a) if predicate[0] == "s" and bits == 1 else function(a, b)  # a set bit is -1


def _compare_floats(site: Site, a: Value, b: Value) -> Value:
    predicate = site.op.attrs["predicate"]
    unordered = torch.isnan(a) | torch.isnan(b)
    if predicate in ("ord", "uno"):
        return ~unordered if predicate == "ord" else unordered
    if predicate in ("true", "false"):
        return predicate == "true"
    value = _COMPARE[predicate[1:]](a, b)
    return value | unordered if predicate[0] == "u" else value & ~unordered


def _widen(signed: bool) -> Evaluate:
    def evaluate(site: Site, a: Value) -> Value:
        source = site.operands[0].bits
        if not isinstance(a, Tensor):
            return wrap(
                -1 if (signed and source == 1 and a) else int(a) if signed else unsigned(int(a), source),
                site.result.bits,
            )
        if signed:
            wide = a.to(dtype_of(site.result))
            return -wide if source == 1 else wide
        return a.to(dtype_of(site.result)) if source == 1 else unsigned(a, source).to(dtype_of(site.result))

    return evaluate


def _truncate(site: Site, a: Value) -> Value:
    bits = site.result.bits
    if not isinstance(a, Tensor):
        return bool(a & 1) if bits == 1 else wrap(a, bits)
    if site.operands[0].bits > 64:
        raise UnsupportedOperation(f"truncation of {site.operands[0]}")
    return (a & 1).bool() if bits == 1 else a.to(dtype_of(site.result))


def _float(function: Callable[[Any, Any], Any]) -> Evaluate:
    return lambda site, a, b: function(a, b)


def _zero_sign(value: Tensor, a: Tensor, b: Tensor, pick: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Give a result of zero the sign IEEE maximum/minimum demands (torch's choice is unspecified)."""
    both_zero = (a == 0) & (b == 0)
    return torch.where(both_zero, pick(a, b), value)


def _maximum(site: Site, a: Value, b: Value) -> Value:
    # An operand that is +0 everywhere (a ReLU) can only give +0: adding it settles the sign cheaply.
    for constant in (a, b):
        if constant.numel() <= 16 and not bool(torch.signbit(constant).any()) and not bool(constant.any()):
            return torch.maximum(a, b) + 0.0
    return _zero_sign(torch.maximum(a, b), a, b, torch.add)


def _minimum(site: Site, a: Value, b: Value) -> Value:
    return _zero_sign(torch.minimum(a, b), a, b, lambda x, y: -((-x) + (-y)))


def _select(site: Site, condition: Value, a: Value, b: Value) -> Value:
    if not isinstance(condition, Tensor):
        return a if condition else b
    if not isinstance(a, (int, bool, Tensor)):
        raise UnsupportedOperation(f"select between values of type {site.result}")
    return torch.where(condition, tensor(a, site.result, site.device), tensor(b, site.result, site.device))


def _build(site: Site, *elements: Value) -> Value:
    kind = site.result.scalar()
    parts = [tensor(element, kind, site.device) for element in elements]
    return torch.stack(torch.broadcast_tensors(*parts))


def _splat(site: Site, a: Value) -> Value:
    if site.operands[0].length is not None:
        if site.operands[0].length == site.result.length:
            return a
        raise UnsupportedOperation(f"broadcast of {site.operands[0]} to {site.result}")
    return tensor(a, site.operands[0], site.device).expand(site.result.length or 1, -1, -1, -1)


def _insert(site: Site, element: Value, vector: Value) -> Value:
    scalar = tensor(element, site.operands[0], site.device)
    shape = lanes.lane_shape(scalar, vector)
    result = vector.expand(-1, *shape).clone()
    result[site.op.attrs["index"]] = scalar
    return result


def _shuffle(site: Site, *vectors: Value) -> Value:
    pool = vectors[0] if len(vectors) == 1 else torch.cat(_same_lanes(*vectors))
    return pool[list(site.op.attrs["indices"])]


def _same_lanes(*vectors: Tensor) -> list[Tensor]:
    shape = lanes.lane_shape(*vectors)
    return [vector.expand(-1, *shape) for vector in vectors]


def _int_to_float(signed: bool) -> Evaluate:
    def evaluate(site: Site, a: Value) -> Value:
        source, dtype = site.operands[0], dtype_of(site.result)
        number = tensor(a if signed else unsigned(a, source.bits), Type("int", 64), site.device).long()
        number = -number if signed and source.bits == 1 else number
        return narrow_integer(number, dtype) if dtype.itemsize == 2 else number.to(dtype)

    return evaluate


def _float_to_int(site: Site, a: Value) -> Value:
    # Saturating like the hardware conversion; torch's own is undefined outside the range.
    limit, dtype = 2 ** (site.result.bits - 1), dtype_of(site.result)
    wide = torch.nan_to_num(a.double(), nan=0.0).trunc()
    inside = torch.where(wide.abs() < limit, wide, torch.zeros_like(wide)).to(dtype)
    return torch.where(wide >= limit, limit - 1, torch.where(wide <= -limit, -limit, inside)).to(dtype)


def _fma(site: Site, a: Value, b: Value, c: Value) -> Value:
    if site.result.name != "f32":
        raise UnsupportedOperation(f"fma of {site.result}", site.op.location)
    return fma(a, b, c)


def _round(site: Site, a: Value) -> Value:
    dtype = dtype_of(site.result)
    return narrow(a, dtype) if a.dtype is torch.float64 and dtype.itemsize == 2 else a.to(dtype)


DIVISIONS = frozenset({"idiv_floor", "idiv_ceil", "idiv_trunc", "irem", "udiv", "urem"})
"""Opcodes that refuse a second operand of zero."""

EVALUATE: dict[str, Evaluate] = {
    "iadd": _integer(operator.add),
    "isub": _integer(operator.sub),
    "imul": _integer(operator.mul),
    "idiv_floor": _divide("floor"),
    "idiv_ceil": _divide("ceil"),
    "idiv_trunc": _divide("trunc"),
    "irem": _remainder,
    "udiv": _divide_unsigned(operator.floordiv),
    "urem": _divide_unsigned(operator.mod),
    "and": _logical(operator.and_),
    "or": _logical(operator.or_),
    "xor": _logical(operator.xor),
    "shl": _integer(operator.lshift),
    "shr_signed": _integer(operator.rshift),
    "shr_unsigned": _shift_right_unsigned,
    "imin_signed": lambda site, a, b: torch.minimum(*_both(site, a, b)),
    "imax_signed": lambda site, a, b: torch.maximum(*_both(site, a, b)),
    "imin_unsigned": lambda site, a, b: _select(site, _on_unsigned_less(site, a, b), a, b),
    "imax_unsigned": lambda site, a, b: _select(site, _on_unsigned_less(site, a, b), b, a),
    "icmp": _compare_integers,
    "sign_extend": _widen(True),
    "zero_extend": _widen(False),
    "truncate": _truncate,
    "fadd": _float(operator.add),
    "fsub": _float(operator.sub),
    "fmul": _float(operator.mul),
    "fdiv": _float(operator.truediv),
    "fneg": lambda site, a: -a,
    "fabs": lambda site, a: a.abs(),
    "fma": _fma,
    "fmaximum": _maximum,
    "fminimum": _minimum,
    "fmaxnum": lambda site, a, b: torch.fmax(a, b),
    "fminnum": lambda site, a, b: torch.fmin(a, b),
    "fcmp": _compare_floats,
    "fextend": lambda site, a: a.to(dtype_of(site.result)),
    "fround": _round,
    "int_to_float": _int_to_float(True),
    "uint_to_float": _int_to_float(False),
    "float_to_int": _float_to_int,
    "select": _select,
    "bitcast": lambda site, a: bitcast(a, site.operands[0], site.result, site.device),
    "extract": lambda site, a: a[site.op.attrs["index"]],
    "insert": _insert,
    "build": _build,
    "splat": _splat,
    "shuffle": _shuffle,
}


def _on_unsigned_less(site: Site, a: Value, b: Value) -> Value:
    bits = site.operands[0].bits
    return torch.as_tensor(unsigned(a, bits) < unsigned(b, bits), device=site.device)
