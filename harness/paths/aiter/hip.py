"""aiter's HIP kernels where there is no gfx950: compiled from its own source, run in the emulator.

Contract: what runs is the kernel of the tree that the path was given, launched as its host function launches
it; nothing stands in for it. Without a compiler, or a source in the tree, it is out of scope; a source that
does not compile, or an operation that the emulator has no meaning for, is `Unsupported` with its name.
Where the compiler may fuse and the hardware only approximates, `answered` runs the kernel each way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.emulator import calls, nearly
from harness.emulator.llvm import contracting
from harness.emulator.llvm.module import read
from harness.emulator.llvm.translate import translate
from harness.emulator.program import Program, UnsupportedOperation
from harness.emulator.sessions import Session, session
from harness.findings import Finding
from harness.hip import cache_subjects, compilers
from harness.hip.compilers import CannotCompile
from harness.hip.compiling import Compiled, compile_kernel
from harness.hip.launching import Launch
from harness.paths.base import Outcome, OutOfScope, Unsupported
from harness.paths.requests.eightbit import SUBNORMALS

if TYPE_CHECKING:
    from harness.paths.aiter.path import AiterPath

EXECUTOR = "emulated HIP"
COPIED = 1 << 28
"""Bytes of written tensors that are copied to run a kernel more than one way."""

Finish = Callable[[Program], Program] | None


def answered(path: AiterPath, launch: Launch, written: Sequence[Tensor], value: Any, subject: str) -> Outcome:
    """Run ``launch`` each way that its kernel may be compiled and its approximations fall.

    ``value`` is the request's own answer, made of the tensors ``written`` in place: they end as the first
    way left them. What the other ways left is in the outcome's others, a tuple of tensors like ``written``
    (the tensor where it is one). Over what is too large to be copied for each (`COPIED`) only the first way
    is run. Raises as `run`.
    """
    program = _lowered(path, launch)[0]
    if sum(tensor.nbytes for tensor in written) > COPIED:
        seen = run(path, launch)
        return Outcome(value, seen.findings, _facts(launch, subject, seen, program, [written]))
    before = [tensor.clone() for tensor in written]
    first, left, told = None, [], dict[tuple[str, ...], Finding]()
    for finish, choice in ways(program):
        for tensor, old in zip(written, before, strict=True):
            tensor.copy_(old)
        with nearly.choosing(choice):
            seen = run(path, launch, finish=finish)
        for found in seen.findings:
            told.setdefault((found.kind, found.operand, found.location), found)
        first = first or seen
        left.append([tensor.clone() for tensor in written])
    assert first is not None
    for tensor, held in zip(written, left[0], strict=True):
        tensor.copy_(held)
    others = tuple(
        tuple(other) if len(other) > 1 else other[0]
        for other in left[1:]
        if not all(same(*pair) for pair in zip(other, left[0], strict=True))
    )
    return Outcome(value, tuple(told.values()), _facts(launch, subject, first, program, left), others)


def _facts(
    launch: Launch, subject: str, seen: Session, program: Program, left: Sequence[Sequence[Tensor]]
) -> dict[str, Any]:
    """What is told of a launch that was run once for each member of ``left``, the first of them ``seen``."""
    return {
        "executor": EXECUTOR,
        "subject": f"aiter {subject}",
        "source": launch.source,
        **seen.facts,
        SUBNORMALS: subnormals(program),
        "ways run": len(left),
        "bytes with several results": several(left),
    }


def ways(program: Program) -> Iterator[tuple[Finish, str]]:
    """Every compilation and every choice of approximations together, the plain one first."""
    near = any(op.code in nearly.NEAR for op in program.walk())
    finishes: tuple[Finish, ...] = (None, contracting.contracted) if contracting.chances(program) else (None,)
    for finish in finishes:
        for choice in nearly.CHOICES if near else nearly.CHOICES[:1]:
            yield finish, choice


def subnormals(program: Program) -> str:
    """What the kernel, as it was compiled, does with float32 numbers below the normal ones."""
    return "flushed" if any("flush" in op.attrs for op in program.walk()) else "kept"


def declared(path: AiterPath, launch: Launch) -> dict[str, str]:
    """C++ types of the kernel's parameters by name, as its source has them. Raises as `run`."""
    return {parameter.name: parameter.declared for parameter in _lowered(path, launch)[1].parameters}


def several(left: Sequence[Sequence[Tensor]]) -> int:
    """Bytes of which the ways have left more than one value."""
    if len(left) == 1:
        return 0
    count = 0
    for held in zip(*left, strict=True):
        bits = [tensor.contiguous().view(torch.uint8) for tensor in held]
        apart = torch.zeros_like(bits[0], dtype=torch.bool)
        for other in bits[1:]:
            apart |= other != bits[0]
        count += int(apart.sum())
    return count


def same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def run(
    path: AiterPath,
    launch: Launch,
    defined: Mapping[str, Tensor] | None = None,
    slab_lanes: int = 0,
    finish: Finish = None,
) -> Session:
    """Run ``launch`` of the path's tree; tensors are named as the kernel's parameters in what is found.

    Raises `OutOfScope` without a compiler, `Unsupported` where the kernel cannot be compiled or run.
    """
    program, compiled = _lowered(path, launch)
    labels = {name: value for name, value in launch.arguments.items() if isinstance(value, Tensor)}
    try:
        arguments = launch.in_order(compiled.parameters)
        with session(labels=labels, defined=defined) as seen:
            calls.call(program, launch.grid, launch.block, arguments, slab_lanes, finish)
    except (CannotCompile, UnsupportedOperation) as refusal:
        raise Unsupported(str(refusal)) from refusal
    return seen


def writer_template(path: AiterPath) -> tuple[str, ...]:
    """Which of `cache_subjects.TEMPLATES` the tree's fused writer is. Raises as `run`."""
    _at_hand(path, cache_subjects.SOURCE)
    try:
        return cache_subjects.writer_template((path.source() / cache_subjects.SOURCE).read_text())
    except CannotCompile as refusal:
        raise Unsupported(str(refusal)) from refusal


def _at_hand(path: AiterPath, source: str) -> None:
    """Raises `OutOfScope` without a compiler, or without ``source`` in the tree."""
    try:
        compilers.find()
    except CannotCompile as missing:
        raise OutOfScope(str(missing)) from None
    if not (path.source() / source).is_file():
        raise OutOfScope(f"{source}, a HIP source, is not in this tree")


def _lowered(path: AiterPath, launch: Launch) -> tuple[Program, Compiled]:
    """The program of a launch. Raises `OutOfScope` without compiler or source, else `Unsupported`."""
    _at_hand(path, launch.source)
    try:
        compiled = compiled_from(path.source(), launch.source, launch.instance)
        return program_of(compiled), compiled
    except (CannotCompile, UnsupportedOperation) as refusal:
        raise Unsupported(str(refusal)) from refusal


@functools.lru_cache(maxsize=64)
def compiled_from(root: Path, source: str, instance: str) -> Compiled:
    """The kernel of a tree that does not change while this process lives."""
    return compile_kernel(root, source, instance)


def program_of(compiled: Compiled) -> Program:
    """The emulator's program of a compiled kernel."""
    name = compiled.facts["instance"].split("<")[0].rsplit("::", 1)[-1]
    return _program(compiled.facts["key"], name, compiled.symbol, compiled.ir)


@functools.lru_cache(maxsize=64)
def _program(key: str, name: str, symbol: str, ir: str) -> Program:
    return replace(translate(read(ir), symbol), name=name)


def outcome(value: Any, seen: Session, subject: str, launch: Launch) -> Outcome:
    """What a request is answered with after `run`."""
    told = {"executor": EXECUTOR, "subject": f"aiter {subject}", "source": launch.source}
    return Outcome(value, seen.findings, {**told, **seen.facts})
