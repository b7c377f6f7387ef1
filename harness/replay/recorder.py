"""Records what a step does to its tensors, call by call, and runs it again on the same addresses.

Recorded are torch operations, Triton kernels in Triton's interpreter and FlyDSL kernels in the
emulator; what a step computes in Python (a grid, a scalar, a branch) is what it was when the step was
recorded, as in a captured stream. Views are not recorded: the tensor they made stays where it was.
How this would fail silently: an operation that is run but not recorded leaves the results of the
recorded step in place, and they look like those of a replay; so every operation that is no view and no
bare allocation is kept, and host reads are refused (`host_reads`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from harness.replay import host_reads, launches
from harness.replay.calls import Call

ALLOCATIONS = frozenset(
    ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided")
)
"""Operations that make room and write nothing."""


@dataclass(frozen=True)
class Recording:
    """Calls in order. Keeps alive every tensor they name."""

    calls: tuple[Call, ...]

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    def replay(self) -> None:
        """Run every call again."""
        for call in self.calls:
            call.again()


def record(step: Callable[[], None], *, strict: bool = True) -> Recording:
    """Run ``step`` and keep what it did. ``strict``: raise `CaptureRefused` for what no stream can hold."""
    recorder = Recorder(strict)
    with recorder.watching():
        step()
    return Recording(tuple(recorder.calls))


class Recorder(TorchDispatchMode):
    """Collects calls while it is watching; what a recorded kernel does inside is not watched."""

    def __init__(self, strict: bool) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._strict = strict
        self._inside = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler (seconds) to keep it out of a mode that never meets it."""
        return False

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(launches.told(self._launched))
            stack.enter_context(host_reads.Guard(lambda: self._strict and not self._inside))
            stack.enter_context(self)
            yield

    @contextmanager
    def _launched(self, call: Call) -> Iterator[None]:
        """A kernel is launched: keep the launch, and look away while it runs."""
        if not self._inside:
            self.calls.append(call)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return func(*args, **kwargs)
        if self._strict:
            host_reads.refuse(func, args)
        result = func(*args, **kwargs)
        call = _call(func, args, kwargs, result)
        if call is not None:
            self.calls.append(call)
        return result


def _call(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Call | None:
    """How to repeat ``func``; None where there is nothing to repeat: a view, a bare allocation."""
    name = func.name()
    if name.partition(".")[0] in ALLOCATIONS:
        return None
    aliases = [returned.alias_info for returned in func._schema.returns]
    if any(alias is not None and not alias.is_write for alias in aliases):
        return None
    shown = name.removeprefix("aten::")
    if any(
        argument.alias_info is not None and argument.alias_info.is_write
        for argument in func._schema.arguments
    ):
        return Call(shown, lambda: _drop(func(*args, **kwargs)))
    places = list(_tensors(result))

    def again() -> None:
        for place, value in zip(places, _tensors(func(*args, **kwargs)), strict=True):
            place.copy_(value)

    return Call(shown, again)


def _drop(_result: Any) -> None:
    """Written in place; there is nothing to put anywhere."""


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for part in result:
            yield from _tensors(part)
