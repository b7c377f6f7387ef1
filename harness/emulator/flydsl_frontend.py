"""FlyDSL's lowered structured IR, translated into a `Program`.

The input is the module after FlyDSL's own ``convert-fly-to-rocdl`` and ``canonicalize``
passes: ``scf`` control flow over ``arith``, ``math``, ``vector``, ``llvm``, ``rocdl`` and
``gpu`` operations. Every operation is looked up by name in one table. An operation,
fast-math flag or attribute that is not in the table stops the translation with
`UnsupportedOperation`; skipping it would run another kernel than the one that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from flydsl._mlir import ir

from harness.emulator import locations
from harness.emulator.flydsl_types import constant, integers, parse_type
from harness.emulator.program import Block, Op, Program, Type, UnsupportedOperation, plan_frees

_SIGNED = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_ORDERED = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord")
_FLOAT = (*_ORDERED, "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")
_DYNAMIC = -(2**31)
SHARED_SPACE = 3
_AXES = {"x": 0, "y": 1, "z": 2}
_SWIZZLED = 8

_READ = {
    *("value", "predicate", "fastmath", "roundingmode", "dimension", "mode", "scope", "ordering", "aux"),
    *(
        "static_position",
        "position",
        "mask",
        "offsets",
        "sizes",
        "strides",
        "elem_type",
        "rawConstantIndices",
    ),
    *("cbsz", "blgp", "opselA", "opselB", "dstSelIndex"),
}
"""Attributes that the readers below look at."""

_PROMISES = {
    *("overflowFlags", "isExact", "nonNeg", "isDisjoint", "noWrapFlags", "inbounds", "upper_bound"),
    *("alignment", "volatile_", "nontemporal", "invariant", "address_spaces"),
}
"""Attributes that only promise something to a compiler, or order what is in order here."""

Attributes = Callable[[ir.Operation], dict[str, Any]]


def _none(op: ir.Operation) -> dict[str, Any]:
    return {}


def _predicate(names: Sequence[str]) -> Attributes:
    return lambda op: {"predicate": names[op.attributes["predicate"].value]}


def _strict_float(op: ir.Operation) -> dict[str, Any]:
    """No attribute. Any fast-math flag is refused: each leaves bits to the compiler."""
    if "fastmath" in op.attributes:
        text = str(op.attributes["fastmath"])
        flags = set(text[text.index("<") + 1 : text.rindex(">")].replace(" ", "").split(","))
        if flags != {"none"}:
            raise UnsupportedOperation(f"fast-math flags {sorted(flags)} on {op.name}")
    if "roundingmode" in op.attributes and op.attributes["roundingmode"].value != 0:
        raise UnsupportedOperation(f"rounding mode {op.attributes['roundingmode'].value} of {op.name}")
    return {}


def _access(op: ir.Operation) -> dict[str, Any]:
    """Plain loads and stores; atomic ones order more than the emulator looks at."""
    if "ordering" in op.attributes and op.attributes["ordering"].value != 0:
        raise UnsupportedOperation(f"atomic {op.name}")
    return {}


def _buffer_access(op: ir.Operation) -> dict[str, Any]:
    """Cache hints say nothing about values; the swizzle bit would change every address."""
    if "aux" not in op.attributes:
        return {}
    hint = op.attributes["aux"]
    if hint.value & _SWIZZLED if isinstance(hint, ir.IntegerAttr) else "swz" in str(hint):
        raise UnsupportedOperation(f"swizzled {op.name}")
    return {}


def _barrier(op: ir.Operation) -> dict[str, Any]:
    if "scope" in op.attributes and "<workgroup>" not in str(op.attributes["scope"]):
        raise UnsupportedOperation(f"{op.attributes['scope']} of {op.name}")
    return {}


def _mask(op: ir.Operation) -> dict[str, Any]:
    indices = integers(op.attributes["mask"])
    if min(indices) < 0:
        raise UnsupportedOperation(f"undefined element in {op.name}")
    return {"indices": indices}


def _axis(op: ir.Operation) -> dict[str, Any]:
    return {"axis": _AXES[str(op.attributes["dimension"])[-2]]}


def _position(name: str, key: str) -> Attributes:
    def read(op: ir.Operation) -> dict[str, Any]:
        position = integers(op.attributes[name])
        if any(index == _DYNAMIC or index < 0 for index in position):
            raise UnsupportedOperation(f"dynamic position in {op.name}")
        if not position or (key == "index" and len(position) != 1):
            raise UnsupportedOperation(f"{len(position)} positions in {op.name}")
        return {key: position if key == "path" else position[0]}

    return read


def _slice(op: ir.Operation) -> dict[str, Any]:
    offset, size, stride = (
        int(str(op.attributes[name])[1:-1].split(":")[0]) for name in ("offsets", "sizes", "strides")
    )
    return {"indices": tuple(offset + stride * i for i in range(size))}


def _mfma(op: ir.Operation) -> dict[str, Any]:
    for name in ("cbsz", "blgp"):
        if "fp4_e2m1" not in str(op.attributes[name]):
            raise UnsupportedOperation(f"operand format {op.attributes[name]} of {op.name}")
    return {"opsel_a": op.attributes["opselA"].value, "opsel_b": op.attributes["opselB"].value}


def _address(op: ir.Operation) -> dict[str, Any]:
    indices = integers(op.attributes["rawConstantIndices"])
    if len(indices) != 1:
        raise UnsupportedOperation(f"{len(indices)} indices in {op.name}")
    element = parse_type(str(op.attributes["elem_type"]))
    size = element.total_bytes
    if element.kind not in ("int", "float") or size & (size - 1) or (element.bits == 1 and element.length):
        # Padding between elements is the target's own choice (a vector of three takes the room of four).
        raise UnsupportedOperation(f"elements of type {element} in {op.name}")
    return {"scale": element.total_bytes, "static": 0 if indices[0] == _DYNAMIC else indices[0]}


TABLE: dict[str, tuple[str, Attributes]] = {
    "arith.constant": ("const", lambda op: {"value": constant(op.attributes["value"])}),
    "ub.poison": ("poison", _none),
    "llvm.mlir.poison": ("poison", _none),
    "llvm.mlir.undef": ("poison", _none),
    "llvm.mlir.constant": ("const", lambda op: {"value": constant(op.attributes["value"])}),
    "gpu.thread_id": ("thread_id", _axis),
    "gpu.lane_id": ("lane_id", _none),
    "gpu.block_id": ("block_id", _axis),
    "gpu.block_dim": ("block_dim", _axis),
    "gpu.grid_dim": ("grid_dim", _axis),
    "arith.addi": ("iadd", _none),
    "arith.subi": ("isub", _none),
    "arith.muli": ("imul", _none),
    "arith.floordivsi": ("idiv_floor", _none),
    "arith.ceildivsi": ("idiv_ceil", _none),
    "arith.divsi": ("idiv_trunc", _none),
    "arith.remsi": ("irem", _none),
    "arith.divui": ("udiv", _none),
    "arith.remui": ("urem", _none),
    "arith.andi": ("and", _none),
    "arith.ori": ("or", _none),
    "arith.xori": ("xor", _none),
    "arith.shli": ("shl", _none),
    "arith.shrsi": ("shr_signed", _none),
    "arith.shrui": ("shr_unsigned", _none),
    "arith.minsi": ("imin_signed", _none),
    "arith.maxsi": ("imax_signed", _none),
    "arith.minui": ("imin_unsigned", _none),
    "arith.maxui": ("imax_unsigned", _none),
    "arith.cmpi": ("icmp", _predicate(_SIGNED)),
    "arith.extsi": ("sign_extend", _none),
    "arith.extui": ("zero_extend", _none),
    "arith.trunci": ("truncate", _none),
    "arith.index_cast": ("index_cast", _none),
    "arith.index_castui": ("index_castui", _none),
    "arith.addf": ("fadd", _strict_float),
    "arith.subf": ("fsub", _strict_float),
    "arith.mulf": ("fmul", _strict_float),
    "arith.divf": ("fdiv", _strict_float),
    "arith.negf": ("fneg", _strict_float),
    "math.absf": ("fabs", _strict_float),
    "math.fma": ("fma", _strict_float),
    "arith.maximumf": ("fmaximum", _strict_float),
    "arith.minimumf": ("fminimum", _strict_float),
    "arith.maxnumf": ("fmaxnum", _strict_float),
    "arith.minnumf": ("fminnum", _strict_float),
    "arith.cmpf": ("fcmp", lambda op: _predicate(_FLOAT)(op) | _strict_float(op)),
    "arith.extf": ("fextend", _strict_float),
    "arith.truncf": ("fround", _strict_float),
    "arith.sitofp": ("int_to_float", _none),
    "arith.uitofp": ("uint_to_float", _none),
    "arith.fptosi": ("float_to_int", _none),
    "arith.select": ("select", _none),
    "arith.bitcast": ("bitcast", _none),
    "vector.bitcast": ("bitcast", _none),
    "llvm.bitcast": ("bitcast", _none),
    "vector.extract": ("extract", _position("static_position", "index")),
    "vector.insert": ("insert", _position("static_position", "index")),
    "vector.from_elements": ("build", _none),
    "vector.broadcast": ("splat", _none),
    "vector.shuffle": ("shuffle", _mask),
    "vector.extract_strided_slice": ("shuffle", _slice),
    "llvm.extractvalue": ("field", _position("position", "path")),
    "llvm.getelementptr": ("offset", _address),
    "llvm.load": ("load", _access),
    "llvm.store": ("store", _access),
    "rocdl.make.buffer.rsrc": ("resource", _none),
    "rocdl.raw.ptr.buffer.load": ("buffer_load", _buffer_access),
    "rocdl.raw.ptr.buffer.store": ("buffer_store", _buffer_access),
    "rocdl.ds_bpermute": ("permute_lanes", _none),
    "gpu.shuffle": ("shuffle_lanes", lambda op: {"mode": str(op.attributes["mode"]).split()[-1].rstrip(">")}),
    "rocdl.readfirstlane": ("broadcast_first", _none),
    "rocdl.readlane": ("read_lane", _none),
    "rocdl.mfma.scale.f32.16x16x128.f8f6f4": ("mfma_scale_16x16x128", _mfma),
    "rocdl.cvt.scalef32.pk.fp4.f32": (
        "cvt_scale_pk_fp4",
        lambda op: {"select": op.attributes["dstSelIndex"].value},
    ),
    "gpu.barrier": ("barrier", _barrier),
    "rocdl.s.barrier": ("barrier", _none),
    "rocdl.sched.barrier": ("nop", _none),
    "rocdl.sched.group.barrier": ("nop", _none),
    "rocdl.s.waitcnt": ("nop", _none),
    "rocdl.s.setprio": ("nop", _none),
    "scf.for": ("for", _none),
    "scf.if": ("if", _none),
    "scf.yield": ("yield", _none),
    "gpu.return": ("return", _none),
    "func.return": ("return", _none),
}
"""MLIR operation name to opcode and the reader of its attributes."""


class Translator:
    """Translates one function; keeps the numbering of its values."""

    def __init__(self, known_roots: Sequence[str], shared: dict[str, int]) -> None:
        self._roots = known_roots
        self._shared = shared
        self._numbers: dict[Any, int] = {}
        self.types: dict[int, Type] = {}

    def function(self, op: ir.Operation) -> Program:
        block = op.regions[0].blocks[0]
        body = self._block(block)
        plan_frees(body)
        size = None
        if "known_block_size" in op.attributes:
            x, y, z = integers(op.attributes["known_block_size"])
            size = (x, y, z)
        return Program(op.attributes["sym_name"].value, body.arguments, body, self.types, size)

    def _define(self, value: ir.Value) -> int:
        number = len(self.types)
        self._numbers[value] = number
        self.types[number] = parse_type(str(value.type))
        return number

    def _block(self, block: ir.Block) -> Block:
        arguments = tuple(self._define(argument) for argument in block.arguments)
        return Block(arguments, [self._op(op.operation) for op in block.operations])

    def _op(self, op: ir.Operation) -> Op:
        where = locations.describe(str(op.location), self._roots)
        try:
            return self._translate(op, where)
        except UnsupportedOperation as refusal:
            raise refusal if refusal.location else UnsupportedOperation(refusal.what, where) from None

    def _translate(self, op: ir.Operation, where: str) -> Op:
        operands = (
            tuple(self._numbers[value] for value in op.operands) if op.name != "gpu.launch_func" else ()
        )
        if op.name == "gpu.launch_func":
            return self._launch(op, where)
        if op.name == "llvm.mlir.addressof":
            return self._shared_base(op, where)
        if op.name not in TABLE:
            raise UnsupportedOperation(f"operation {op.name}")
        code, read = TABLE[op.name]
        for name in sorted(set(op.attributes) - _READ - _PROMISES) if code != "nop" else ():
            raise UnsupportedOperation(f"attribute {name} of {op.name}")
        attrs = read(op)
        blocks = tuple(self._block(block) for region in op.regions for block in region.blocks)
        results = tuple(self._define(result) for result in op.results)
        if code in ("index_cast", "index_castui"):
            code = self._index_cast(operands[0], results[0], code == "index_cast")
        return Op(code, operands, results, attrs, blocks, where)

    def _shared_base(self, op: ir.Operation, where: str) -> Op:
        name = str(op.attributes["global_name"]).lstrip("@")
        if name not in self._shared:
            raise UnsupportedOperation(f"address of global {name}, which is no shared memory")
        attrs = {"name": name, "bytes": self._shared[name]}
        return Op("shared_base", (), tuple(self._define(result) for result in op.results), attrs, (), where)

    def _index_cast(self, source: int, result: int, signed: bool) -> str:
        narrow, wide = self.types[result].bits, self.types[source].bits
        return "truncate" if narrow < wide else "sign_extend" if signed else "zero_extend"

    def _launch(self, op: ir.Operation, where: str) -> Op:
        segments = integers(op.attributes["operandSegmentSizes"])
        dependencies, grid, block = segments[0], segments[1:4], segments[4:7]
        if grid != (1, 1, 1) or block != (1, 1, 1) or any(segments[7:10]):
            raise UnsupportedOperation("cluster launch", where)
        numbers = [self._numbers[value] for value in list(op.operands)[dependencies:]]
        results = tuple(self._define_token() for _ in op.results)
        shared = numbers[6] if segments[10] else None
        first = 6 + segments[10]
        attrs = {
            "kernel": str(op.attributes["kernel"]).rsplit("@", 1)[-1],
            "grid": tuple(numbers[0:3]),
            "block": tuple(numbers[3:6]),
            "shared": shared,
            "arguments": tuple(numbers[first : first + segments[11]]),
        }
        return Op("launch", tuple(numbers), results, attrs, (), where)

    def _define_token(self) -> int:
        number = len(self.types)
        self.types[number] = Type("struct", 0)
        return number


def translate(
    module: ir.Module, extra_roots: Sequence[str] = ()
) -> tuple[dict[str, Program], dict[str, Program]]:
    """All kernels and all host functions of a module, by name."""
    known = locations.roots(extra_roots)
    kernels: dict[str, Program] = {}
    hosts: dict[str, Program] = {}
    for top in module.body.operations:
        if top.operation.name == "gpu.module":
            kernels |= _kernels(top.operation, known)
        elif top.operation.name == "func.func":
            program = Translator(known, {}).function(top.operation)
            hosts[program.name] = program
        else:
            raise UnsupportedOperation(f"top-level operation {top.operation.name}")
    return kernels, hosts


def _kernels(module: ir.Operation, known: Sequence[str]) -> dict[str, Program]:
    """Kernels of one gpu.module; its globals must be shared memory."""
    shared: dict[str, int] = {}
    kernels: dict[str, Program] = {}
    for inner in module.regions[0].blocks[0].operations:
        op = inner.operation
        if op.name == "llvm.mlir.global":
            shared[op.attributes["sym_name"].value] = _shared_bytes(op)
        elif op.name == "gpu.func":
            program = Translator(known, shared).function(op)
            kernels[program.name] = program
        elif op.name != "gpu.module_end":
            raise UnsupportedOperation(f"{op.name} in a gpu.module")
    return kernels


def _shared_bytes(op: ir.Operation) -> int:
    """Size of a global in shared memory. Raises `UnsupportedOperation` for any other global."""
    match = re.fullmatch(r"!llvm\.array<(\d+) x i8>", str(op.attributes["global_type"]))
    space = op.attributes["addr_space"].value if "addr_space" in op.attributes else 0
    if space != SHARED_SPACE or match is None:
        raise UnsupportedOperation(f"global of type {op.attributes['global_type']} in address space {space}")
    if match.group(1) == "0":
        raise UnsupportedOperation("shared memory whose size the launch chooses")
    return int(match.group(1))
