"""A kernel of the second front end, called as a host function would: with a grid, a workgroup and arguments.

Contract: every argument is checked against the kernel's own signature, and a tensor is an allocation of its
own; pointers that are None are null, and each access through them is found. Launches run under whatever
session is open, as those of the first front end do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from harness.emulator import sessions
from harness.emulator.allocation import Allocation, Pointer, null
from harness.emulator.executor import Executor, Launch
from harness.emulator.lanes import dtype_of, wrap
from harness.emulator.launching import allocation_of, noted
from harness.emulator.program import Program, Type, UnsupportedOperation

Argument = Tensor | int | float | bool | None
Grid = tuple[int, int, int]


def call(
    kernel: Program,
    grid: Grid,
    block: Grid,
    arguments: Sequence[Argument],
    slab_lanes: int = 0,
    finish: Callable[[Program], Program] | None = None,
) -> None:
    """Run ``kernel`` over ``grid`` workgroups of ``block`` lanes; ``finish`` makes what runs of it, at last.

    ``arguments`` in the kernel's order: tensors and None for pointers, numbers for the rest. A grid with an
    axis of 0 is no launch. Raises `UnsupportedOperation` for an operation, or arguments of other types than
    the kernel takes.
    """
    if 0 in grid:
        return
    device = torch.device("cpu")
    for argument in arguments:
        device = argument.device if isinstance(argument, Tensor) else device

    def run() -> None:
        session = sessions.current()
        held: dict[tuple[int, int], Allocation] = {}
        program = sessions.as_edited(kernel)
        program = program if finish is None else finish(program)
        values = [
            _value(argument, kernel.types[number], place, session, held)
            for place, (argument, number) in enumerate(zip(arguments, kernel.arguments, strict=True))
        ]
        executor = Executor(program, device, session.found)
        launch = Launch(grid, block, values)
        executor.run(launch, slab_lanes)
        noted(session, executor, launch)

    if len(arguments) != len(kernel.arguments):
        raise UnsupportedOperation(
            f"{len(arguments)} arguments, the kernel {kernel.name} takes {len(kernel.arguments)}"
        )
    sessions.launch(kernel.name, run)


def _value(
    argument: Argument,
    kind: Type,
    place: int,
    session: sessions.Session,
    held: dict[tuple[int, int], Allocation],
) -> object:
    given = isinstance(argument, Tensor) or argument is None
    if kind.kind == "pointer" and given:
        if argument is None:
            return null("null")
        assert isinstance(argument, Tensor)
        return Pointer(allocation_of(argument, f"arg{place}", session, held))
    if kind.kind == "float" and not given:
        return torch.tensor(argument, dtype=dtype_of(kind))
    if kind.kind == "int" and not given and not isinstance(argument, float):
        assert argument is not None
        return bool(argument) if kind.bits == 1 else wrap(int(argument), kind.bits)
    raise UnsupportedOperation(f"argument {place} is {type(argument).__name__}, the kernel takes {kind}")
