"""Each MLIR operation is translated to what MLIR says it means; anything with two meanings is refused."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.emulator import backend
from harness.emulator.program import Program, UnsupportedOperation
from suites.self.emulator_builder import bits, run

INT, FLOAT, WIDE = "i32", "f32", "i64"
DTYPES = {
    "i32": torch.int32,
    "f32": torch.float32,
    "i64": torch.int64,
    "i8": torch.int8,
    "bf16": torch.bfloat16,
}
BYTES = {"i32": 4, "f32": 4, "i64": 8, "i8": 1, "bf16": 2}


def module(text: str) -> tuple[dict[str, Program], dict[str, Program]]:
    """Kernels and host functions of MLIR source."""
    backend.install()
    from flydsl._mlir import ir
    from flydsl.compiler.jit_function import _create_mlir_context

    from harness.emulator.flydsl_frontend import translate

    with _create_mlir_context():
        return translate(ir.Module.parse(text))


def kernel(body: str, arguments: str = "%p: !llvm.ptr<1>", outside: str = "") -> Program:
    inner = f"gpu.func @k({arguments}) kernel {{\n{body}\ngpu.return }}"
    return module(f"module {{ gpu.module @m {{ {outside} {inner} }} }}")[0]["k"]


def refused(body: str, match: str, outside: str = "") -> None:
    arguments = "%p: !llvm.ptr<1>, %x: f32, %i: i32, %v: vector<4xf32>, %n: index, %d: !llvm.ptr<8>"
    with pytest.raises(UnsupportedOperation, match=match):
        kernel(body, arguments, outside)


def execute(lines: str, inputs: Sequence[tuple[str, Sequence[Any]]], result: str) -> Tensor:
    """Runs ``lines`` over values %a, %b, %c loaded a lane each, and returns the %r of each lane."""
    count = len(inputs[0][1])
    body = ["%t = gpu.thread_id x", "%l = arith.index_cast %t : index to i64"]
    for name, (kind, _) in zip("abc", inputs, strict=False):
        body.append(
            f"%p{name} = llvm.getelementptr %{name}0[%l] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {kind}"
        )
        body.append(f"%{name} = llvm.load %p{name} : !llvm.ptr<1> -> {kind}")
    body.append(lines)
    body.append(f"%pr = llvm.getelementptr %r0[%l] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {result}")
    body.append(f"llvm.store %r, %pr : {result}, !llvm.ptr<1>")
    names = [f"%{name}0" for name, _ in zip("abc", inputs, strict=False)]
    program = kernel("\n".join(body), ", ".join(f"{name}: !llvm.ptr<1>" for name in [*names, "%r0"]))
    tensors = [torch.tensor([*values], dtype=DTYPES[kind]) for kind, values in inputs]
    out = torch.zeros(count, dtype=DTYPES[result])
    assert run(program, [*tensors, out], block=(count, 1, 1)).findings == ()
    return out


A, B = (-7, 7, -8, 2**31 - 1, -(2**31), 0), (2, -2, 3, 1, 1, 5)
U = [tuple(value % 2**32 for value in side) for side in (A, B)]


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


INTEGERS: dict[str, list[int]] = {
    "addi": [wrap(a + b) for a, b in zip(A, B, strict=True)],
    "subi": [wrap(a - b) for a, b in zip(A, B, strict=True)],
    "muli": [wrap(a * b) for a, b in zip(A, B, strict=True)],
    "floordivsi": [a // b for a, b in zip(A, B, strict=True)],
    "ceildivsi": [-(-a // b) for a, b in zip(A, B, strict=True)],
    "divsi": [trunc(a, b) for a, b in zip(A, B, strict=True)],
    "remsi": [a - b * trunc(a, b) for a, b in zip(A, B, strict=True)],
    "divui": [wrap(a // b) for a, b in zip(*U, strict=True)],
    "remui": [wrap(a % b) for a, b in zip(*U, strict=True)],
    "andi": [a & b for a, b in zip(A, B, strict=True)],
    "ori": [a | b for a, b in zip(A, B, strict=True)],
    "xori": [a ^ b for a, b in zip(A, B, strict=True)],
    "minsi": [min(a, b) for a, b in zip(A, B, strict=True)],
    "maxsi": [max(a, b) for a, b in zip(A, B, strict=True)],
    "minui": [wrap(min(a, b)) for a, b in zip(*U, strict=True)],
    "maxui": [wrap(max(a, b)) for a, b in zip(*U, strict=True)],
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operations(name: str) -> None:
    got = execute(f"%r = arith.{name} %a, %b : i32", [(INT, A), (INT, B)], INT)
    assert got.tolist() == INTEGERS[name]


def test_shifts() -> None:
    values, counts = (-8, 5, -1, 2**31 - 1), (1, 3, 31, 0)
    for name, want in (
        ("shli", [wrap(v << c) for v, c in zip(values, counts, strict=True)]),
        ("shrsi", [v >> c for v, c in zip(values, counts, strict=True)]),
        ("shrui", [wrap(v % 2**32 >> c) for v, c in zip(values, counts, strict=True)]),
    ):
        assert (
            execute(f"%r = arith.{name} %a, %b : i32", [(INT, values), (INT, counts)], INT).tolist() == want
        )


@pytest.mark.parametrize(
    ("predicate", "want"),
    [
        ("eq", [0, 0, 1]),
        ("ne", [1, 1, 0]),
        ("slt", [1, 0, 0]),
        ("sle", [1, 0, 1]),
        ("sgt", [0, 1, 0]),
        ("sge", [0, 1, 1]),
        ("ult", [0, 1, 0]),
        ("ule", [0, 1, 1]),
        ("ugt", [1, 0, 0]),
        ("uge", [1, 0, 1]),
    ],
)
def test_integer_predicates(predicate: str, want: list[int]) -> None:
    lines = f"%q = arith.cmpi {predicate}, %a, %b : i32\n%r = arith.extui %q : i1 to i32"
    assert execute(lines, [(INT, (-1, 1, 4)), (INT, (1, -1, 4))], INT).tolist() == want


NAN = float("nan")
PREDICATES = {
    "false": [0, 0, 0, 0],
    "oeq": [0, 0, 1, 0],
    "ogt": [0, 1, 0, 0],
    "oge": [0, 1, 1, 0],
    "olt": [1, 0, 0, 0],
    "ole": [1, 0, 1, 0],
    "one": [1, 1, 0, 0],
    "ord": [1, 1, 1, 0],
    "ueq": [0, 0, 1, 1],
    "ugt": [0, 1, 0, 1],
    "uge": [0, 1, 1, 1],
    "ult": [1, 0, 0, 1],
    "ule": [1, 0, 1, 1],
    "une": [1, 1, 0, 1],
    "uno": [0, 0, 0, 1],
    "true": [1, 1, 1, 1],
}


@pytest.mark.parametrize("predicate", PREDICATES)
def test_float_predicates(predicate: str) -> None:
    """Less, greater, equal, unordered."""
    lines = f"%q = arith.cmpf {predicate}, %a, %b : f32\n%r = arith.extui %q : i1 to i32"
    got = execute(lines, [(FLOAT, (1.0, 2.0, 0.0, NAN)), (FLOAT, (2.0, 1.0, -0.0, 1.0))], INT)
    assert got.tolist() == PREDICATES[predicate]


FLOATS = {
    "arith.addf": [4.0, -1.0],
    "arith.subf": [-1.0, -5.0],
    "arith.mulf": [3.75, -6.0],
    "arith.divf": [0.6000000238418579, -1.5],
    "arith.maximumf": [2.5, 2.0],
    "arith.minimumf": [1.5, -3.0],
    "arith.maxnumf": [2.5, 2.0],
    "arith.minnumf": [1.5, -3.0],
}


@pytest.mark.parametrize("name", FLOATS)
def test_float_operations(name: str) -> None:
    got = execute(f"%r = {name} %a, %b : f32", [(FLOAT, (1.5, -3.0)), (FLOAT, (2.5, 2.0))], FLOAT)
    assert got.tolist() == FLOATS[name]


def test_maximum_and_maxnum_part_at_nan() -> None:
    operands = [(FLOAT, (NAN, 1.0)), (FLOAT, (1.0, NAN))]
    assert execute("%r = arith.maximumf %a, %b : f32", operands, FLOAT).isnan().all()
    assert execute("%r = arith.maxnumf %a, %b : f32", operands, FLOAT).tolist() == [1.0, 1.0]


def test_unary_and_fused_floats() -> None:
    values = (1.5, -0.0)
    assert bits(execute("%r = arith.negf %a : f32", [(FLOAT, values)], FLOAT)) == bits(
        torch.tensor([-1.5, 0.0])
    )
    assert bits(execute("%r = math.absf %a : f32", [(FLOAT, values)], FLOAT)) == bits(
        torch.tensor([1.5, 0.0])
    )
    one = 1 + 2.0**-23
    fused = execute(
        "%r = math.fma %a, %b, %c : f32", [(FLOAT, (one,)), (FLOAT, (one,)), (FLOAT, (-one,))], FLOAT
    )
    assert fused.item() == 2.0**-23 + 2.0**-46


TO_INDEX = "%q = arith.index_cast{0} %a : {1} to index\n%r = arith.index_cast %q : index to {2}"
CASTS = [
    ("%r = arith.extsi %a : i8 to i32", ("i8", (-1, 127)), INT, [-1, 127]),
    ("%r = arith.extui %a : i8 to i32", ("i8", (-1, -128)), INT, [255, 128]),
    ("%r = arith.trunci %a : i64 to i32", (WIDE, (2**32 + 5, -1)), INT, [5, -1]),
    (TO_INDEX.format("", "i32", "i64"), (INT, (-3, 7)), WIDE, [-3, 7]),
    (TO_INDEX.format("ui", "i32", "i64"), (INT, (-3, 7)), WIDE, [2**32 - 3, 7]),
    (TO_INDEX.format("", "i64", "i32"), (WIDE, (2**32 + 9, -1)), INT, [9, -1]),
    ("%r = arith.sitofp %a : i32 to f32", (INT, (-3, 2**24 + 1)), FLOAT, [-3.0, 2.0**24]),
    ("%r = arith.uitofp %a : i32 to f32", (INT, (-1, 3)), FLOAT, [2.0**32, 3.0]),
    ("%r = arith.fptosi %a : f32 to i32", (FLOAT, (-2.9, 2.9)), INT, [-2, 2]),
    ("%r = arith.extf %a : bf16 to f32", ("bf16", (1.5, -0.25)), FLOAT, [1.5, -0.25]),
    ("%r = arith.truncf %a : f32 to bf16", (FLOAT, (1 + 2.0**-8, 1 + 3 * 2.0**-8)), "bf16", [1, 1 + 2.0**-6]),
    ("%r = arith.bitcast %a : f32 to i32", (FLOAT, (1.0, -0.0)), INT, [0x3F800000, -(2**31)]),
    ("%r = llvm.bitcast %a : i32 to f32", (INT, (0x3F800000, 0x40000000)), FLOAT, [1.0, 2.0]),
]


@pytest.mark.parametrize(("lines", "operand", "result", "want"), CASTS)
def test_casts(lines: str, operand: tuple[str, Sequence[Any]], result: str, want: list[Any]) -> None:
    assert execute(lines, [operand], result).tolist() == want


PAIR = """
    %q = vector.extract %s[0] : i32 from vector<2xi32>
    %z = vector.extract %s[1] : i32 from vector<2xi32>
    %r = arith.subi %q, %z : i32"""
VECTORS = [
    ("%r = vector.extract %abc[1] : i32 from vector<3xi32>", 20),
    (
        """%v = vector.broadcast %a : i32 to vector<4xi32>
        %r = vector.extract %v[3] : i32 from vector<4xi32>""",
        10,
    ),
    (
        """%v = vector.insert %c, %ab[0] : i32 into vector<2xi32>
        %s = vector.shuffle %v, %ab [2, 0] : vector<2xi32>, vector<2xi32>"""
        + PAIR,
        10 - 30,
    ),
    (
        """%v = vector.extract_strided_slice %abc {offsets = [1], sizes = [2], strides = [1]}
        : vector<3xi32> to vector<2xi32>
        %s = vector.shuffle %v, %v [0, 3] : vector<2xi32>, vector<2xi32>"""
        + PAIR,
        20 - 30,
    ),
    (
        """%w = vector.from_elements %c : vector<1xi32>
        %v = vector.bitcast %w : vector<1xi32> to vector<4xi8>
        %q = vector.extract %v[0] : i8 from vector<4xi8>
        %r = arith.extsi %q : i8 to i32""",
        30,
    ),
    (
        """%k = arith.constant dense<[7, 8, 9]> : vector<3xi32>
        %r = vector.extract %k[2] : i32 from vector<3xi32>""",
        9,
    ),
    (
        """%k = arith.constant dense<-3> : vector<4xi32>
        %r = vector.extract %k[3] : i32 from vector<4xi32>""",
        -3,
    ),
    ("%q = arith.cmpi slt, %a, %b : i32\n%r = arith.select %q, %c, %a : i32", 30),
    ("%r = llvm.mlir.constant(-4 : i32) : i32", -4),
]


@pytest.mark.parametrize(("lines", "want"), VECTORS)
def test_vectors_constants_and_select(lines: str, want: int) -> None:
    """%a, %b, %c are 10, 20, 30."""
    made = "%ab = vector.from_elements %a, %b : vector<2xi32>\n"
    made += "%abc = vector.from_elements %a, %b, %c : vector<3xi32>\n"
    assert execute(made + lines, [(INT, (10,)), (INT, (20,)), (INT, (30,))], INT).tolist() == [want]


def test_sixteen_bit_constant_vectors() -> None:
    for kind in ("bf16", "f16"):
        lines = f"""%k = arith.constant dense<1.5> : vector<4x{kind}>
        %q = vector.extract %k[3] : {kind} from vector<4x{kind}>
        %r = arith.extf %q : {kind} to f32"""
        assert execute(lines, [(INT, (0,))], FLOAT).tolist() == [1.5]
        refused(f"%k = arith.constant dense<[1.5, 2.5]> : vector<2x{kind}>", "constant attribute dense")


def test_structured_control_flow() -> None:
    """A loop with two carried values around a branch that yields."""
    lines = """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %r, %last = scf.for %j = %zero to %a step %one iter_args(%sum = %b, %old = %zero) -> (i32, i32) : i32 {
      %odd = arith.andi %j, %one : i32
      %test = arith.cmpi eq, %odd, %one : i32
      %next = scf.if %test -> (i32) {
        %up = arith.addi %sum, %j : i32
        scf.yield %up : i32
      } else {
        %down = arith.subi %sum, %old : i32
        scf.yield %down : i32
      }
      scf.yield %next, %j : i32, i32
    }"""

    def want(trips: int, total: int) -> int:
        old = 0
        for j in range(trips):
            total, old = (total + j if j % 2 else total - old), j
        return total

    trips, starts = (0, 1, 2, 5, 8), (9, 8, 7, 6, 5)
    got = execute(lines, [(INT, trips), (INT, starts)], INT).tolist()
    assert got == [want(t, s) for t, s in zip(trips, starts, strict=True)]


def test_addresses_with_constant_and_dynamic_indices() -> None:
    lines = """
    %q = llvm.getelementptr %a0[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32
    %w = llvm.getelementptr inbounds %q[%b] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<2xi32>
    %r = llvm.load %w : !llvm.ptr<1> -> i32"""
    got = execute(lines, [(INT, tuple(range(100, 108))), (INT, (-1, 0, 1, 2, 0, 0, 0, 0))], INT)
    assert got.tolist()[:4] == [101, 103, 105, 107]


def test_buffers() -> None:
    """Descriptor, load and store in bytes; what lies past the records reads as zero."""
    lines = """
    %zero = arith.constant 0 : i32
    %flags = arith.constant 159744 : i32
    %stride = arith.constant 0 : i16
    %records = arith.constant 12 : i64
    %d = rocdl.make.buffer.rsrc %a0, %stride, %records, %flags : !llvm.ptr<1> to !llvm.ptr<8>
    %four = arith.constant 4 : i32
    %o = arith.muli %b, %four : i32
    %q = rocdl.raw.ptr.buffer.load %d, %o, %zero, 0 : i32
    %e = rocdl.make.buffer.rsrc %c0, %stride, %records, %flags : !llvm.ptr<1> to !llvm.ptr<8>
    rocdl.raw.ptr.buffer.store %q, %e, %o, %zero, 2 : i32
    %r = rocdl.raw.ptr.buffer.load %e, %o, %zero, gfx942<nt> : i32"""
    got = execute(lines, [(INT, (5, 6, 7, 8)), (INT, (3, 2, 1, 0)), (INT, (1, 1, 1, 1))], INT)
    assert got.tolist() == [0, 7, 6, 5]


def test_shared_memory_is_a_global_of_bytes_in_space_3() -> None:
    body = """
    %t = gpu.thread_id x
    %l = arith.index_cast %t : index to i64
    %i = arith.trunci %l : i64 to i32
    %s = llvm.mlir.addressof @tile : !llvm.ptr<3>
    %q = llvm.getelementptr %s[%l] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i32
    llvm.store %i, %q : i32, !llvm.ptr<3>
    gpu.barrier
    %k = arith.constant 63 : i64
    %m = arith.subi %k, %l : i64
    %w = llvm.getelementptr %s[%m] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, i32
    %v = llvm.load %w : !llvm.ptr<3> -> i32
    %o = llvm.getelementptr %p[%l] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32
    llvm.store %v, %o : i32, !llvm.ptr<1>"""
    tile = "llvm.mlir.global internal @tile() {addr_space = 3 : i32} : !llvm.array<256 x i8>"
    out = torch.zeros(64, dtype=torch.int32)
    assert run(kernel(body, outside=tile), [out]).findings == ()
    assert out.tolist() == [*range(63, -1, -1)]
    refused("gpu.barrier", "global of type", tile.replace("addr_space = 3", "addr_space = 1"))
    refused("gpu.barrier", "global of type", tile.replace("256 x i8", "64 x i32"))
    refused("gpu.barrier", "whose size the launch chooses", tile.replace("256 x i8", "0 x i8"))
    refused("gpu.barrier", r"llvm\.func in a gpu\.module", "llvm.func @other()")


# refusals


ADDRESS = "%y = llvm.getelementptr %p[{0}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, {1}"
REFUSED = [
    ("%y = math.exp2 %x : f32", r"operation math\.exp2 at -:2"),
    ("%y = llvm.atomicrmw add %p, %i acq_rel : !llvm.ptr<1>, i32", r"operation llvm\.atomicrmw"),
    ("%y = llvm.mlir.zero : !llvm.ptr<1>", r"operation llvm\.mlir\.zero"),
    ("%y, %z = arith.addui_extended %i, %i : i32, i1", r"operation arith\.addui_extended"),
    ("%y = llvm.load %p atomic acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32", r"atomic llvm\.load"),
    ("llvm.store %i, %p atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>", r"atomic llvm\.store"),
    ("%y = arith.truncf %x downward : f32 to bf16", r"rounding mode 1 of arith\.truncf"),
    ("%y = arith.mulf %x, %x fastmath<contract> : f32", r"fast-math flags \['contract'\] on arith\.mulf"),
    ("%y = arith.addf %x, %x fastmath<reassoc,nnan> : f32", r"fast-math flags \['nnan', 'reassoc'\]"),
    ("%y = math.fma %x, %x, %x fastmath<fast> : f32", r"fast-math flags \['fast'\] on math\.fma"),
    ("%y = arith.cmpf olt, %x, %x fastmath<reassoc> : f32", r"fast-math flags \['reassoc'\]"),
    ("%y = arith.extf %x fastmath<contract> : f32 to f64", r"fast-math flags"),
    ("scf.for unsigned %j = %i to %i step %i : i32 { }", r"attribute unsignedCmp of scf\.for"),
    ("%y = vector.shuffle %v, %v [0, -1] : vector<4xf32>, vector<4xf32>", r"undefined element in vector"),
    ("%y = vector.extract %v[] : vector<4xf32> from vector<4xf32>", r"0 positions in vector\.extract"),
    ("%y = vector.extract %v[%n] : f32 from vector<4xf32>", r"dynamic position in vector\.extract"),
    ("%y = vector.insert %x, %v[%n] : f32 into vector<4xf32>", r"dynamic position in vector\.insert"),
    ("%y = vector.broadcast %x : f32 to vector<2x4xf32>", r"type 4xf32"),
    ("%y = vector.broadcast %v : vector<4xf32> to vector<1x4xf32>", r"type 4xf32"),
    ("%y = arith.extf %x : f32 to f128", r"type f128"),
    ("%y = arith.truncf %x : f32 to f8E4M3FN", r"type f8E4M3FN"),
    (ADDRESS.format("0, 3", "!llvm.array<4 x f32>"), r"2 indices"),
    (ADDRESS.format("3", "vector<3xi32>"), r"elements of type vector<3xi32>"),
    (ADDRESS.format("3", "!llvm.ptr<3>"), r"elements of type pointer"),
    (ADDRESS.format("3", "!llvm.struct<packed (i32)>"), r"elements of type struct"),
    (ADDRESS.format("3", "vector<8xi1>"), r"elements of type vector<8xi1>"),
    ("%y = rocdl.raw.ptr.buffer.load %d, %i, %i, 8 : i32", r"swizzled rocdl\.raw\.ptr\.buffer\.load"),
    ("rocdl.raw.ptr.buffer.store %i, %d, %i, %i, 8 : i32", r"swizzled rocdl\.raw\.ptr\.buffer\.store"),
    ("%y = arith.addi %i, %i {surprise} : i32", r"attribute surprise of arith\.addi"),
    ("cf.br ^next\n^next:", r"operation cf\.br"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "match"), REFUSED)
def test_what_has_no_one_meaning_is_refused(body: str, match: str) -> None:
    """Named, with its source position."""
    refused(body, match)
    refused(body, r"at -:\d+$")


@pytest.mark.parametrize(
    "body",
    [
        "%y = arith.addi %i, %i overflow<nsw, nuw> : i32",
        "%y = arith.shrui %i, %i exact : i32",
        "%y = arith.extui %i nneg : i32 to i64",
        "%y = arith.truncf %x to_nearest_even : f32 to bf16",
        "%y = llvm.load volatile %p {alignment = 4 : i64} : !llvm.ptr<1> -> i32",
        "%y = gpu.thread_id x upper_bound 64",
        "gpu.barrier memfence [#gpu.address_space<workgroup>]",
        "rocdl.s.waitcnt 0",
        "rocdl.s.barrier",
    ],
)
def test_promises_and_hints_change_nothing(body: str) -> None:
    arguments = "%p: !llvm.ptr<1>, %x: f32, %i: i32"
    assert len(kernel(body, arguments).body.ops) == 2


def test_source_positions_are_innermost_first_and_relative() -> None:
    """A call site within this suite's tree; a file under no known root is named alone."""
    here = __file__.replace("\\", "/")
    site = f'loc(callsite("{here}":3:1 at callsite("/somewhere/else/deep.py":5:2 at "{here}":7:1)))'
    op = kernel(f"%y = arith.addi %i, %i : i32 {site}", "%i: i32").body.ops[0]
    name = "suites/self/test_emulator_frontend.py"
    assert op.location == f"{name}:3 < deep.py:5 < {name}:7"


MATRIX = """%r = rocdl.mfma.scale.f32.16x16x128.f8f6f4 %{0}, %{0}, %c, {1}, {2}, 1, %s, 2, %t
    : (vector<{3}xi32>, vector<{3}xi32>, vector<4xf32>, i32, i32) -> vector<4xf32>"""


def test_the_matrix_instruction_takes_fp4_only() -> None:
    """The same instruction reads FP8 and FP6 by other codes of its format fields."""
    arguments = "%a: vector<4xi32>, %b: vector<8xi32>, %c: vector<4xf32>, %s: i32, %t: i32"
    op = kernel(MATRIX.format("a", "fp4_e2m1", "fp4_e2m1", 4), arguments).body.ops[0]
    assert op.attrs == {"opsel_a": 1, "opsel_b": 2} and op.operands == (0, 0, 2, 3, 4)
    for formats in (("fp8_e4m3", "fp4_e2m1"), ("fp4_e2m1", "fp8_e4m3"), ("fp6_e2m3", "fp6_e2m3")):
        with pytest.raises(UnsupportedOperation, match=r"operand format .*fp[68]"):
            kernel(MATRIX.format("b", *formats, 8), arguments)


def test_constants_of_every_kind() -> None:
    """Values as Python numbers; NaN stays NaN, 64-bit integers keep their bits."""
    texts = {
        "true": True,
        "-1 : i64": -1,
        "1.5 : bf16": 1.5,
        "-5 : index": -5,
        "dense<[true, false]> : vector<2xi1>": (1, 0),
        "dense<4000000000> : vector<2xi32>": (4000000000 - 2**32,) * 2,
        "dense<[1, 2]> : vector<2xindex>": (1, 2),
        "dense<[1.5, -0.0]> : vector<2xf32>": (1.5, -0.0),
    }
    for text, want in texts.items():
        (op, _) = kernel(f"%y = arith.constant {text}").body.ops
        assert op.attrs["value"] == want
    (op, _) = kernel("%y = arith.constant 0x7FC00000 : f32").body.ops
    assert struct.pack("<f", op.attrs["value"]) == b"\x00\x00\xc0\x7f"
