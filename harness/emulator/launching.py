"""From FlyDSL's compiled artifact to a callable that executes its launches in the emulator.

The artifact holds the traced module with source positions and, after compilation, the same
module lowered but without positions; so it is lowered once more here, positions kept. The
callable reads the packed argument array of FlyDSL's host ABI by the types of the host
function: pointers, packed structs of shapes and strides, scalars, the stream.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.emulator import lanes
from harness.emulator.allocation import Allocation, Pointer, null, span_of
from harness.emulator.executor import Executor, Launch
from harness.emulator.meanings import EVALUATE
from harness.emulator.operations import Site
from harness.emulator.program import Op, Program, Type, UnsupportedOperation
from harness.emulator.sessions import Session, as_edited, current, launch, take_filled

_INTEGERS = {8: "<b", 16: "<h", 32: "<i", 64: "<q"}


def executable(artifact: Any) -> Callable[[Any], None]:
    """A callable over the packed argument array that runs the artifact's host function."""
    kernels, hosts = _lowered(artifact)
    host = hosts[artifact._entry]

    def run(packed: Any) -> None:
        slots = take_filled()
        session = current()
        arguments: list[Any] = []
        names = iter(session.order)
        for number, value in enumerate(host.arguments):
            kind = host.types[value]
            tensor = slots.get(packed[number] or 0)
            if tensor is None:
                raw = _raw_pointer(kind, packed[number], session)
                arguments.append(raw or _argument(kind, packed[number], f"arg{number}"))
            else:
                arguments.append(Place(tensor, next(names, f"arg{number}")))
        devices = {tensor.device for tensor in slots.values()}
        if len(devices) != 1:
            raise UnsupportedOperation(f"launch with tensors on {len(devices)} devices")
        launched = [op.attrs["kernel"] for op in host.body.ops if op.code == "launch"]
        launch(" ".join(launched), partial(_run, host, kernels, arguments, devices.pop()))

    return run


@dataclass(frozen=True)
class Place:
    """A pointer argument: ``offset`` bytes into a tensor, which findings call ``name``."""

    tensor: Tensor
    name: str
    offset: int = 0


@dataclass(frozen=True)
class Number:
    """A floating-point argument, a tensor of ``dtype`` to the kernel."""

    value: float
    dtype: torch.dtype


def _run(host: Program, kernels: dict[str, Program], arguments: list[Any], device: torch.device) -> None:
    """Run a host function whose arguments are known, under whatever session is open."""
    session = current()
    allocations: dict[tuple[int, int], Allocation] = {}

    def resolved(argument: Any) -> Any:
        if isinstance(argument, Number):
            return torch.tensor(argument.value, dtype=argument.dtype)
        if not isinstance(argument, Place):
            return argument
        return Pointer(allocation_of(argument.tensor, argument.name, session, allocations), argument.offset)

    Host(host, kernels, session, device).run([resolved(argument) for argument in arguments])


def _lowered(artifact: Any) -> tuple[dict[str, Program], dict[str, Program]]:
    from flydsl._mlir import ir
    from flydsl._mlir.passmanager import PassManager
    from flydsl.compiler.backends import get_backend
    from flydsl.compiler.jit_function import _create_mlir_context

    # Only lowering needs FlyDSL: a launch that was resolved can be run again where there is none.
    from harness.emulator.flydsl_frontend import translate

    fragments = ",".join(get_backend().pipeline_fragments(compile_hints={}))
    with _create_mlir_context():
        module = ir.Module.parse(artifact._source_ir)
        PassManager.parse(f"builtin.module({fragments})").run(module.operation)
        return translate(module, current().roots)


def _raw_pointer(kind: Type, address: int | None, session: Session) -> Place | None:
    """A pointer passed as a bare address: it must lie in a tensor the session labels. None for null."""
    if kind.kind != "pointer" or not address:
        return None
    target = struct.unpack("<Q", ctypes.string_at(address, 8))[0]
    for name, tensor in session.labels.items():
        if tensor.data_ptr() <= target < tensor.data_ptr() + span_of(tensor):
            return Place(tensor, name, target - tensor.data_ptr())
    if target:
        raise UnsupportedOperation("pointer argument that lies in no tensor the session labels")
    return None


def _argument(kind: Type, address: int | None, label: str) -> Any:
    """The value of one host argument that is no tensor, read from its slot."""
    if kind.kind == "pointer" or not address:
        return null(label)
    if kind.kind == "struct":
        from harness.emulator.flydsl_types import struct_leaves

        leaves = struct_leaves(kind)
        if not leaves:
            return ()
        form = "<" + "".join(_INTEGERS[leaf.bits][1] for _, leaf in leaves)
        numbers = struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))
        return _nested(kind, iter(numbers))
    if kind.kind == "int" and kind.bits == 1:
        return bool(ctypes.string_at(address, 1)[0])
    if kind.kind == "int" and kind.bits in _INTEGERS:
        return struct.unpack(_INTEGERS[kind.bits], ctypes.string_at(address, kind.bits // 8))[0]
    if kind.kind == "float" and kind.name in ("f32", "f64"):
        form = "<f" if kind.bits == 32 else "<d"
        number_read = struct.unpack(form, ctypes.string_at(address, kind.bits // 8))[0]
        return Number(number_read, lanes.dtype_of(kind))
    raise UnsupportedOperation(f"host argument of type {kind}")


def _nested(kind: Type, numbers: Any) -> tuple[Any, ...]:
    return tuple(_nested(part, numbers) if part.kind == "struct" else next(numbers) for part in kind.fields)


def allocation_of(
    tensor: Tensor, position: str, session: Session, allocations: dict[tuple[int, int], Allocation]
) -> Allocation:
    """One allocation per range of bytes and launch, so that aliases share their record of writers.

    A tensor that overlaps another without being the same range is its own allocation with its own
    bounds; races between the two go unseen.
    Named by the session's labels, else by its position among the tensor arguments.
    """
    key = (tensor.data_ptr(), span_of(tensor))
    if key not in allocations or key[1] == 0:
        name = next((name for name, known in session.labels.items() if _same(known, tensor)), position)
        masks = (session.defined.get(name), session.expected.get(name))
        allocations[key] = Allocation.of(tensor, name, *masks)
    return allocations[key]


def _same(known: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same cells (a reshaped view of a labelled tensor still counts)."""
    return known.data_ptr() == tensor.data_ptr() and known.numel() == tensor.numel() > 0


class Host:
    """Runs the host function: scalar arithmetic and launches."""

    def __init__(
        self, program: Program, kernels: dict[str, Program], session: Session, device: torch.device
    ) -> None:
        self._program = program
        self._kernels = kernels
        self._session = session
        self._device = device

    def run(self, arguments: list[Any]) -> None:
        env = dict(zip(self._program.arguments, arguments, strict=True))
        for op in self._program.body.ops:
            if op.code == "launch":
                self._launch(op, env)
            elif op.code == "const":
                kind = self._program.types[op.results[0]]
                env[op.results[0]] = lanes.constant(op.attrs["value"], kind, self._device)
            elif op.code in EVALUATE:
                types = tuple(self._program.types[operand] for operand in op.operands)
                site = Site(op, types, self._program.types[op.results[0]], self._device)
                env[op.results[0]] = EVALUATE[op.code](site, *(env[operand] for operand in op.operands))
            elif op.code == "field":
                value = env[op.operands[0]]
                for index in op.attrs["path"]:
                    value = value[index]
                env[op.results[0]] = value
            elif op.code != "return":
                raise UnsupportedOperation(f"host operation {op.code}", op.location)

    def _launch(self, op: Op, env: dict[int, Any]) -> None:
        kernel = as_edited(self._kernels[op.attrs["kernel"]])
        grid = tuple(int(env[value]) for value in op.attrs["grid"])
        block = tuple(int(env[value]) for value in op.attrs["block"])
        arguments = [self._on_device(env[value]) for value in op.attrs["arguments"]]
        executor = Executor(kernel, self._device, self._session.found)
        launch = Launch((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), arguments)
        executor.run(launch, later=self._taken_later(op, env))
        noted(self._session, executor, launch)

    def _taken_later(self, op: Op, env: dict[int, Any]) -> set[Allocation]:
        """Allocations that launches after ``op`` still take."""
        launches = [other for other in self._program.body.ops if other.code == "launch"]
        place = next(number for number, other in enumerate(launches) if other is op)
        later = launches[place + 1 :]
        values = [env.get(number) for other in later for number in other.attrs["arguments"]]
        return {value.allocation for value in values if isinstance(value, Pointer)}

    def _on_device(self, value: Any) -> Any:
        return value.to(self._device) if isinstance(value, Tensor) else value


def noted(session: Session, executor: Executor, launch: Launch) -> None:
    """Keep what is told of a launch that has ended."""
    session.launches.append(
        {
            "kernel": executor.program.name,
            "grid": launch.grid,
            "block": launch.block,
            "matrix_results": executor.matrix.results,
            "over_budget": executor.matrix.over_budget,
        }
    )
