"""LLVM IR text: types and their layout, constants with their bits, globals, source positions."""

from __future__ import annotations

import struct

import pytest
import torch

from harness.emulator import calls, sessions
from harness.emulator.llvm.module import read
from harness.emulator.llvm.tokens import Cursor, words
from harness.emulator.llvm.translate import image, translate
from harness.emulator.llvm.values import Ref, read_kind, read_typed
from harness.emulator.program import UnsupportedOperation

LAYOUTS = [
    ("i1", 1, 1),
    ("i8", 1, 1),
    ("i16", 2, 2),
    ("i64", 8, 8),
    ("ptr", 8, 8),
    ("ptr addrspace(3)", 4, 4),
    ("<4 x float>", 16, 16),
    ("<3 x float>", 16, 16),
    ("<2 x half>", 4, 4),
    ("[3 x i16]", 6, 2),
    ("{ i8, i32, i8 }", 12, 4),
    ("<{ i8, i32, i8 }>", 6, 1),
    ("{ [3 x i8], i64, bfloat }", 24, 8),
]


@pytest.mark.parametrize(("text", "size", "align"), LAYOUTS)
def test_types_have_the_target_s_layout(text: str, size: int, align: int) -> None:
    kind = read_kind(Cursor(words(text)), {})
    assert (kind.size, kind.align) == (size, align)


def test_fields_lie_where_c_puts_them() -> None:
    """The offsets of a struct against Python's own native alignment."""
    kind = read_kind(Cursor(words("{ i8, i16, i8, i64, float, double }")), {})
    assert kind.offsets[:-1] == tuple(struct.calcsize("@" + form) - size for form, size in NATIVE)


NATIVE = [("b", 1), ("bh", 2), ("bhb", 1), ("bhbq", 8), ("bhbqf", 4), ("bhbqfd", 8)]

FLOATS = [
    ("float 1.000000e+00", 1.0),
    ("float 0x3FB99999A0000000", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("float 0x7FF0000000000000", float("inf")),
    ("double -2.5e-3", -0.0025),
    ("half 0xH3C00", 1.0),
    ("bfloat 0xRBF80", -1.0),
]


@pytest.mark.parametrize(("text", "value"), FLOATS)
def test_floating_point_constants_keep_their_bits(text: str, value: float) -> None:
    assert read_typed(Cursor(words(text)), {}).value == value


def test_names_may_be_quoted_and_types_may_come_in_any_order() -> None:
    module = read('%"struct.a b" = type { %inner, i8 }\n%inner = type { i64 }\n%later = type opaque')
    assert module.named["%struct.a b"].size == 16


def test_a_type_that_nothing_defines_is_refused() -> None:
    with pytest.raises(UnsupportedOperation, match="type %gone"):
        read("%a = type { %gone }")


GLOBALS = [
    ("[3 x i16] [i16 1, i16 -2, i16 3]", struct.pack("<3h", 1, -2, 3)),
    ('[4 x i8] c"a\\5C\\00z"', b"a\\\0z"),
    ("{ i8, float } { i8 7, float 1.5 }", struct.pack("<b3xf", 7, 1.5)),
    ("[2 x <2 x bfloat>] zeroinitializer", bytes(8)),
    ("<4 x i32> splat (i32 5)", struct.pack("<4i", 5, 5, 5, 5)),
]


@pytest.mark.parametrize(("text", "held"), GLOBALS)
def test_constants_in_memory_are_their_bytes(text: str, held: bytes) -> None:
    module = read(f"@table = internal unnamed_addr addrspace(4) constant {text}, align 16")
    assert image(module.globals["@table"]) == held


TABLE = """\
@table = internal addrspace(4) constant [4 x float] [float 1.5, float 2.5, float -3.5, float 9.0]
%pair = type { i32, [2 x float] }
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %lane = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !5
  %low = and i32 %lane, 3
  %place = getelementptr inbounds [4 x float], ptr addrspace(4) @table, i32 0, i32 %low
  %one = load float, ptr addrspace(4) %place
  %from = getelementptr %pair, ptr addrspace(1) %in, i32 %lane, i32 1, i32 1, !dbg !6
  %two = load float, ptr addrspace(1) %from, align 4, !dbg !6
  %sum = fadd float %one, %two
  %to = getelementptr float, ptr addrspace(1) %out, i32 %lane
  store float %sum, ptr addrspace(1) %to, align 4
  ret void
}
!1 = !DIFile(filename: "csrc/kernels/a.cu", directory: ".")
!2 = !DIFile(filename: "csrc/include/b.h", directory: ".")
!3 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 4)
!4 = distinct !DISubprogram(name: "inner", scope: !2, file: !2, line: 4)
!5 = !DILocation(line: 9, column: 3, scope: !3)
!6 = !DILocation(line: 70, column: 3, scope: !4, inlinedAt: !5)
"""


def test_a_kernel_reads_its_tables_and_the_fields_of_structs() -> None:
    pairs = torch.arange(64 * 3, dtype=torch.float32)
    out = torch.zeros(64)
    calls.call(translate(read(TABLE), "k"), (1, 1, 1), (64, 1, 1), (pairs, out))
    table = torch.tensor([1.5, 2.5, -3.5, 9.0])[torch.arange(64) % 4]
    assert torch.equal(out, table + pairs[2::3])


def test_findings_name_the_line_and_what_it_was_inlined_into() -> None:
    """An access past a tensor's end is found, with the source's own file and line."""
    with sessions.session() as session:
        calls.call(translate(read(TABLE), "k"), (1, 1, 1), (64, 1, 1), (torch.zeros(180), torch.zeros(64)))
    (found,) = session.findings
    assert (found.kind, found.count) == ("out-of-bounds-load", 4)
    assert found.location == "csrc/include/b.h:70 < csrc/kernels/a.cu:9"


def test_denormals_are_flushed_where_the_function_says_so() -> None:
    text = """\
define amdgpu_kernel void @k(ptr addrspace(1) %out, float %a) #0 {
  %b = fmul float %a, 5.000000e-01
  store float %b, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "denormal-fp-math-f32"="MODE,MODE" }
"""
    for mode, want in (("preserve-sign", 0.0), ("ieee", 2.0**-127)):
        out = torch.ones(1)
        kernel = translate(read(text.replace("MODE", mode)), "k")
        calls.call(kernel, (1, 1, 1), (1, 1, 1), (out, 2.0**-126))
        assert out.item() == want


def test_operands_keep_their_order_and_names() -> None:
    text = "define amdgpu_kernel void @k(i32 %a) {\n  %b = sub nsw i32 %a, -3\n  ret void\n}"
    (sub, _) = read(text).functions["k"].blocks[0].body
    assert [operand.value for operand in sub.operands] == [Ref("%a"), -3]


@pytest.mark.parametrize("text", ["%x = add i32 `", "%x = add i32 5 5", "%x = fadd float 1.0"])
def test_text_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedOperation):
        read(f"define amdgpu_kernel void @k() {{\n  {text}\n  ret void\n}}")
