"""The program an executor runs: typed values, operations from one closed table, nested blocks.

This is the seam between front ends and executors. A front end (FlyDSL's structured IR now,
the LLVM IR of HIP kernels later) translates into it; an executor (torch tensors now, native
code later) gives each opcode of `OPCODES` its meaning. Anything a front end cannot translate
raises `UnsupportedOperation` with the operation and its source line: a guessed meaning would
make a wrong kernel agree, or a right one differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class UnsupportedOperation(Exception):
    """The emulator has no meaning for an operation, type or attribute of the kernel."""

    def __init__(self, what: str, location: str = "") -> None:
        super().__init__(f"emulator: unsupported {what}" + (f" at {location}" if location else ""))
        self.what = what
        self.location = location


@dataclass(frozen=True, slots=True)
class Type:
    """``kind`` int, float, pointer, resource or struct; ``bits`` an element; ``length`` None: scalar.

    Floats carry their format in ``name`` (f32, bf16, f16, f64). Index is a 64-bit int. Pointers carry
    the address space in ``name``. Structs list their fields in ``fields``.
    """

    kind: str
    bits: int
    length: int | None = None
    name: str = ""
    fields: tuple[Type, ...] = ()

    def scalar(self) -> Type:
        return Type(self.kind, self.bits, None, self.name, self.fields)

    @property
    def total_bytes(self) -> int:
        return -(-self.bits * (self.length or 1) // 8)

    def __str__(self) -> str:
        element = self.name if self.kind == "float" else f"i{self.bits}" if self.kind == "int" else self.kind
        return element if self.length is None else f"vector<{self.length}x{element}>"


OPCODES: Mapping[str, str] = {
    # constants and coordinates
    "null": "pointer to nothing",
    "const": "value of attr value (int, float, or tuple for a vector)",
    "poison": "a value nobody may use: every byte 0xFF",
    "thread_id": "index of the lane in its workgroup along attr axis",
    "lane_id": "index of the lane in its wave",
    "block_id": "index of the workgroup in the grid along attr axis",
    "block_dim": "workgroup size along attr axis",
    "grid_dim": "grid size along attr axis",
    # integers, two's complement, wrapping
    "iadd": "a + b",
    "isub": "a - b",
    "imul": "a * b",
    "idiv_floor": "signed quotient rounded toward minus infinity",
    "idiv_ceil": "signed quotient rounded toward plus infinity",
    "idiv_trunc": "signed quotient rounded toward zero",
    "irem": "signed remainder, sign of the dividend",
    "udiv": "unsigned quotient",
    "urem": "unsigned remainder",
    "and": "bitwise and",
    "or": "bitwise or",
    "xor": "bitwise exclusive or",
    "shl": "shift left",
    "shr_signed": "arithmetic shift right",
    "shr_unsigned": "logical shift right",
    "imin_signed": "signed minimum",
    "imax_signed": "signed maximum",
    "imin_unsigned": "unsigned minimum",
    "imax_unsigned": "unsigned maximum",
    "icmp": "compare by attr predicate (eq ne slt sle sgt sge ult ule ugt uge)",
    "sign_extend": "widen, keeping the sign",
    "zero_extend": "widen with zeros",
    "truncate": "keep the low bits",
    # floats, IEEE 754, round to nearest even, no contraction; attr flush: f32 below the normal ones is zero
    "fadd": "a + b",
    "fsub": "a - b",
    "fmul": "a * b",
    "fdiv": "a / b",
    "fneg": "-a",
    "fabs": "|a|",
    "fma": "a * b + c, rounded once",
    "fmaximum": "IEEE maximum: NaN wins, -0 < +0",
    "fminimum": "IEEE minimum: NaN wins, -0 < +0",
    "fmaxnum": "maximum, a number wins over NaN",
    "fminnum": "minimum, a number wins over NaN",
    "fcmp": "compare by attr predicate (oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno)",
    "fextend": "to a wider format, exact",
    "fround": "to a narrower format, round to nearest even",
    "int_to_float": "signed integer to float, round to nearest even",
    "uint_to_float": "unsigned integer to float",
    "float_to_int": "float to signed integer, toward zero, saturating",
    "float_to_uint": "float to unsigned integer, toward zero, saturating",
    "floor": "integral value toward minus infinity",
    "ceil": "integral value toward plus infinity",
    "round_to_zero": "integral value toward zero",
    "round_to_even": "nearest integral value, ties to even",
    "copysign": "|a| with the sign of b",
    "fmedian": "the middle one of three",
    "fclass": "whether a belongs to one of the classes in attr classes (LLVM's bits)",
    # approximations of the hardware: one of the neighbours of the exact value (see `nearly`)
    "rsq_near": "1 / sqrt(a)",
    "rcp_near": "1 / a",
    "sqrt_near": "sqrt(a)",
    "exp2_near": "2 ** a",
    "log2_near": "log2(a)",
    "fdiv_near": "a / b within attr ulp",
    # bits of integers
    "usub_saturate": "unsigned a - b, not below zero",
    "uadd_saturate": "unsigned a + b, not above the largest",
    "count_ones": "number of set bits",
    "leading_zeros": "zeros above the highest set bit; all bits for zero",
    "trailing_zeros": "zeros below the lowest set bit; all bits for zero",
    "swap_bytes": "bytes in reverse order",
    "reverse_bits": "bits in reverse order",
    "funnel_left": "high half of (a, b) shifted left by c modulo the width",
    "funnel_right": "low half of (a, b) shifted right by c modulo the width",
    "permute_bytes": "v_perm_b32: bytes of (a, b) chosen by the bytes of c",
    # shape
    "select": "a ? b : c",
    "choose": "a ? b : c of pointers and structs",
    "bitcast": "same bits, another type of the same total width",
    "extract": "element attr index of a vector",
    "extract_at": "element of a vector at a computed index",
    "insert_at": "vector b with the element at a computed index replaced by a",
    "insert": "vector b with element attr index replaced by a",
    "build": "vector from scalars",
    "splat": "vector from one scalar",
    "shuffle": "elements attr indices of the concatenation of two vectors",
    "field": "field attr path of a struct",
    "with_field": "struct a with field attr path replaced by b",
    "members": "struct from its fields",
    # memory
    "offset": "pointer advanced by an element index (attr: scale in bytes, static: constant part)",
    "resource": "buffer descriptor from pointer, stride, number of records in bytes, flags",
    "load": "load the result type from a pointer",
    "store": "store value to a pointer",
    "buffer_load": "load from a resource at unsigned byte offset (out of records: zero)",
    "buffer_store": "store to a resource at unsigned byte offset (out of records: dropped)",
    "shared_base": "pointer to shared memory attr name of attr bytes, called attr label by people",
    "private_base": "pointer to the lane's own memory attr name of attr bytes",
    "constant_base": "pointer to constants attr name, the bytes attr data",
    "launch_facts": "pointer to the sizes of grid and workgroup as the target lays them out (attr of)",
    "address": "a pointer's number: right in its alignment and in differences within one tensor",
    "pcmp": "compare pointers by attr predicate",
    "atomic": "read, combine by attr operation and write back in one go, lane after lane; the old value",
    # cross-lane
    "permute_lanes": "value of the lane attr/operand byte index / 4 of the same wave (pull)",
    "shuffle_lanes": "value of the lane at an offset (attr mode xor, up, down, idx), and whether it exists",
    "broadcast_first": "value of the first active lane of the wave",
    "read_lane": "value of the given lane of the wave",
    "dpp": "value of a neighbour in the wave (attrs control, rows, banks, bound), else the old value a",
    "ballot": "mask of the active lanes of the wave on which a holds",
    "lanes_below": "b + set bits of mask a (attr half of the wave) that belong to lanes below this one",
    "barrier": "all waves of the workgroup arrive",
    "nop": "scheduling hint without meaning for values",
    "tap": "attr count learns on how many lanes a and b differ; made by no front end",
    # matrix and conversion instructions
    "mfma_scale_16x16x128": "scaled matrix multiply-add, FP4 operands (attrs opsel_a, opsel_b)",
    "cvt_pk_fp8": "two f32 to two codes of attr format in half attr select of the old dword",
    "cvt_f32_fp8": "f32 of the code of attr format in byte attr select of a dword",
    "cvt_scale_pk_fp4": "two f32 divided by a scale to two E2M1 codes in byte attr select of the old dword",
    # control flow
    "for": "structured loop with carried values; body ends in yield",
    "if": "structured branch; both bodies end in yield",
    "yield": "values a body hands back",
    "return": "end of the kernel",
    "graph": "control-flow graph: the blocks in the order in which they are tried, entered at the first",
    "go": "end of a block of a graph: on to attr targets with arguments attr given (attr cases: a switch)",
    "wait": "end of a block of a graph: barrier, then on to attr targets",
    "leave": "end of a block of a graph: the lane ends",
    "launch": "host: start kernel attr kernel with grid, block and arguments",
}
"""Every opcode and its meaning. Executors must cover the table or raise `UnsupportedOperation`."""


@dataclass(slots=True)
class Op:
    """One operation: value numbers in, value numbers out, attributes, nested blocks, source position."""

    code: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    location: str = ""
    frees: tuple[int, ...] = ()
    """Values of this block that no later operation reads (filled by `plan_frees`)."""


@dataclass(slots=True)
class Block:
    """Straight-line operations with the values they are entered with."""

    arguments: tuple[int, ...]
    ops: list[Op]


@dataclass(slots=True)
class Program:
    """A kernel or a host function: argument values, body, and the type of every value."""

    name: str
    arguments: tuple[int, ...]
    body: Block
    types: dict[int, Type]
    block_size: tuple[int, int, int] | None = None

    def walk(self) -> Iterator[Op]:
        yield from _walk(self.body)


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from _walk(inner)


def plan_frees(block: Block) -> set[int]:
    """Fill ``frees`` of every op in ``block`` and return the values the block reads from outside.

    A value defined here is freed after its last reader; values from outside belong to the
    enclosing block. Keeps live memory small: slabs are wide, programs have thousands of values.
    """
    defined = set(block.arguments)
    last: dict[int, Op] = {}
    outside: set[int] = set()
    for op in block.ops:
        reads = set(op.operands)
        for inner in op.blocks:
            reads |= plan_frees(inner)
        for value in reads:
            if value in defined:
                last[value] = op
            else:
                outside.add(value)
        for value in op.results:
            defined.add(value)
            last[value] = op
    frees: dict[int, list[int]] = {}
    for value, op in last.items():
        frees.setdefault(id(op), []).append(value)
    for op in block.ops:
        op.frees = tuple(frees.get(id(op), ()))
    return outside
