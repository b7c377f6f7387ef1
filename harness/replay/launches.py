"""Where kernels are launched: tells a recorder of each launch, with all that it takes resolved.

Triton's interpreter has no hook for it, so its executor's call is wrapped while somebody listens, and
put back afterwards; the emulator's launch layer tells by itself. The grid of a launch is a number from
then on, even where the host gave a function of the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from harness.emulator import sessions
from harness.replay.calls import Call

Launched = Callable[[Call], AbstractContextManager[None]]
"""Told of a launch; the kernel runs inside the context it returns."""


@contextmanager
def told(launched: Launched) -> Iterator[None]:
    """Tell ``launched`` of every launch of this thread."""
    with ExitStack() as stack:
        stack.enter_context(sessions.watched(lambda name, again: launched(Call(f"flydsl {name}", again))))
        stack.enter_context(_triton(launched))
        yield


@contextmanager
def _triton(launched: Launched) -> Iterator[None]:
    """Wrap the call of Triton's interpreting executor, where triton was imported."""
    if "triton" not in sys.modules:
        yield
        return
    from triton.runtime import interpreter

    executor = interpreter.GridExecutor
    original = executor.__call__

    def call(self: Any, *arguments: Any, **keywords: Any) -> None:
        grid = _Grid(self.grid)
        fixed = executor(self.fn, self.arg_names, grid, self.pre_run_hooks)
        again = partial(original, fixed, *arguments, **keywords)
        name = getattr(self.fn, "__name__", "kernel")
        with launched(Call(f"triton {name}", again)):
            again()

    executor.__call__ = call
    try:
        yield
    finally:
        executor.__call__ = original


class _Grid:
    """A launch grid that is computed once."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def __call__(self, arguments: dict[str, Any]) -> Any:
        if callable(self._grid):
            self._grid = self._grid(arguments)
        return self._grid
