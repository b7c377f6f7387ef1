"""Sessions: what a caller declares about tensors before a launch, and what was seen during it.

Sessions nest and belong to a thread. A launch outside of any session runs, and what it did is
forgotten: declaring a mask for a tensor that no launch sees is the caller's silent mistake,
so names without a tensor are refused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from harness.emulator.found import Findings
from harness.emulator.program import Program
from harness.findings import Finding


@dataclass(slots=True)
class Session:
    """What one session declares about tensors, and what was seen.

    ``labels`` name -> tensor; ``order`` names of a host function's tensor arguments, for tensors
    it allocates itself; ``defined`` and ``expected`` name -> bool tensor of the tensor's shape.
    """

    labels: Mapping[str, Tensor] = field(default_factory=dict)
    order: Sequence[str] = ()
    defined: Mapping[str, Tensor] = field(default_factory=dict)
    expected: Mapping[str, Tensor] = field(default_factory=dict)
    roots: Sequence[str] = ()
    found: Findings = field(default_factory=Findings)
    launches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.found.all()

    @property
    def facts(self) -> dict[str, Any]:
        """Totals: launches, matrix results and how many were beyond the exact budget."""
        totals = {
            key: sum(launch[key] for launch in self.launches) for key in ("matrix_results", "over_budget")
        }
        return {
            "launches": len(self.launches),
            "kernels": [launch["kernel"] for launch in self.launches],
            **totals,
        }


_state = threading.local()


def current() -> Session:
    """The innermost open session of this thread; a throw-away one outside of any."""
    stack = getattr(_state, "stack", None)
    return stack[-1] if stack else Session()


@contextlib.contextmanager
def session(
    labels: Mapping[str, Tensor] | None = None,
    order: Sequence[str] = (),
    defined: Mapping[str, Tensor] | None = None,
    expected: Mapping[str, Tensor] | None = None,
    roots: Sequence[str] = (),
) -> Iterator[Session]:
    """Collect what launches of this thread do. Names with a mask must be in ``labels`` or ``order``."""
    opened = Session(labels or {}, order, defined or {}, expected or {}, roots)
    for name in (*opened.defined, *opened.expected):
        if name not in opened.labels and name not in opened.order:
            raise ValueError(f"{name!r} has a mask but no tensor in labels or order")
    stack = _state.__dict__.setdefault("stack", [])
    stack.append(opened)
    try:
        yield opened
    finally:
        stack.pop()


Watcher = Callable[[str, Callable[[], None]], AbstractContextManager[None]]
"""Told a launch's name and what runs it again with the same arguments; it runs inside the context."""


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` of every launch of this thread."""
    watchers = _state.__dict__.setdefault("watchers", [])
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.pop()


class Runaway(Exception):
    """A loop went on longer than it may (see `edited`)."""


@contextlib.contextmanager
def edited(edit: Callable[[Program], Program], iterations: int | None = None) -> Iterator[None]:
    """Run ``edit(kernel)`` in every kernel's place in this thread: how a fault gets into a kernel.

    Of the kernel's loops together, a slab may run ``iterations`` rounds; then `Runaway` is raised.
    """
    before = _state.__dict__.get("edit"), _state.__dict__.get("iterations")
    _state.edit, _state.iterations = edit, iterations
    try:
        yield
    finally:
        _state.edit, _state.iterations = before


def as_edited(kernel: Program) -> Program:
    """``kernel``, or what stands in its place just now."""
    edit = getattr(_state, "edit", None)
    return kernel if edit is None else edit(kernel)


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Hand out a function that says how many rounds the loops of the busiest slab have taken since."""
    before, _state.rounds = getattr(_state, "rounds", 0), 0
    try:
        yield lambda: int(_state.rounds)
    finally:
        _state.rounds = max(before, _state.rounds)


def looped(rounds: int) -> None:
    """A slab has ended after ``rounds`` rounds of its loops."""
    _state.rounds = max(getattr(_state, "rounds", 0), rounds)


def iterations() -> int | None:
    """Rounds that the loops of a slab may take together; None: any number."""
    return getattr(_state, "iterations", None)


def launch(name: str, run: Callable[[], None]) -> None:
    """``run`` a launch under the eyes of whoever watches."""
    with ExitStack() as stack:
        for watcher in getattr(_state, "watchers", ()):
            stack.enter_context(watcher(name, run))
        run()


def filled() -> dict[int, Tensor]:
    """Tensor last written to the argument slot at each address (this thread)."""
    slots: dict[int, Tensor] = _state.__dict__.setdefault("slots", {})
    return slots


def take_filled() -> dict[int, Tensor]:
    """The slots filled since the last launch; forgotten here so that no tensor is kept alive."""
    slots = dict(filled())
    filled().clear()
    return slots
