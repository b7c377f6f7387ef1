"""A path of which one request type reaches the kernel under test; the oracle answers all others.

Contract: what a verdict says of such a path is about that one kernel. An exception while it runs is the
kernel's own, unless it is one that only the harness raises (`OURS`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from torch import Tensor

from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.findings import Finding
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.selecting import PlainTopK
from harness.power.mutants import digest
from harness.power.recorded import OURS, whole


class Beside(base.Path):
    """``inner`` for requests of the type called ``asked``. ``noted``: each of those, as it was before."""

    def __init__(self, inner: base.Path, asked: str) -> None:
        self.inner, self._asked = inner, asked
        self.noted: list[tuple[Any, base.Outcome]] = []
        self.first: base.Outcome | None = None
        """The first answer of the kernel."""
        self.broke = False
        """Whether the kernel could not be run to its end, as opposed to anything around it."""
        self.note = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def executor(self) -> str:
        return self.inner.executor

    def answers(self) -> base.Answers:
        return self.table

    @cached_property
    def table(self) -> base.Answers:
        """The oracle's, without a general top-k, which a suite would ask as well."""
        found = {kind: method for kind, method in OraclePath().table.items() if kind is not PlainTopK}
        own = {
            kind: self._around(method)
            for kind, method in self.inner.table.items()
            if kind.__name__ == self._asked
        }
        return {**found, **own}

    def _around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        def run(request: Any) -> base.Outcome:
            before = copy.deepcopy(request) if self.note else None
            try:
                outcome = method(request)
            except Exception as error:
                self.broke = not isinstance(error, OURS)
                raise
            if self.first is None:
                self.first = copy.deepcopy(outcome)
            if self.note:
                self.noted.append((before, copy.deepcopy(outcome)))
            return outcome

        return run


class Place:
    """Where a program of one digest is launched: what runs there can be exchanged."""

    def __init__(self, program: Program) -> None:
        self._name, self._digest = program.name, digest(program)
        self._known: dict[int, tuple[Program, bool]] = {}
        self.met = 0

    @contextmanager
    def taken(self, program: Program, rounds: int) -> Iterator[None]:
        """Run ``program`` there; no slab may take more than ``rounds`` steps between its blocks.

        Raises `CannotRun` where it was not launched: a fault that is not planted must not pass for inert.
        """
        before = self.met
        with sessions.edited(lambda kernel: program if self._is(kernel) else kernel, rounds):
            yield
        if self.met == before:
            raise CannotRun(f"{self._name} is not launched, or is another program in this process")

    def _is(self, kernel: Program) -> bool:
        if id(kernel) not in self._known:
            same = kernel.name == self._name and digest(kernel) == self._digest
            self._known[id(kernel)] = kernel, same
        self.met += self._known[id(kernel)][1]
        return self._known[id(kernel)][1]


def left(request: Any, outcome: base.Outcome) -> list[Tensor]:
    """All bytes of an answer: the request's own tensors, the value, and what it may be instead."""
    held = [whole(one) for one in vars(request).values() if isinstance(one, Tensor)]
    return [*held, *_bytes(outcome.value), *_bytes(outcome.others)]


def _bytes(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [whole(value.contiguous())] if value.is_contiguous() else [whole(value.clone())]
    return [one for part in value for one in _bytes(part)]


def kinds(findings: tuple[Finding, ...]) -> set[tuple[str, str, str]]:
    """What was found and where, not how often."""
    return {(one.kind, one.operand, one.location) for one in findings}
