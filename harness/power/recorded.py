"""Launches of a case, kept: a kernel can be run again in them without the host code that made them.

A fault in a kernel changes nothing that comes before its launch (schedules, tracing, lowering), and these
take most of a case's time. So a case is asked once, each launch is kept as it was resolved, and `Replayed`
is a path that answers the same requests, in the same order, by running the launch again from where its
output stood. A recording also runs where neither FlyDSL nor the tree under test are installed.

Contract: answers to requests that launch nothing are handed back as they were. A request in another order
than was recorded is refused, for its answer would be another one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from harness.emulator import sessions
from harness.emulator.program import Program
from harness.exits import CannotRun
from harness.findings import Finding
from harness.paths import base
from harness.paths.requests.scoring import DecodeScores, PrefillScores, VarqlenScores
from harness.paths.wrapped import Wrapped

SCORES = (DecodeScores, PrefillScores, VarqlenScores)
OURS = (ImportError, SyntaxError, NameError, AttributeError, MemoryError)
"""What no fault in a kernel's program raises: a defect of the harness, or of the machine."""
OUT = "out"
"""The operand that a scorer writes."""


@dataclass
class Launched:
    """One launch: ``run`` repeats it; the session it ran under; what its output ``out`` held ``before``.

    ``read``: every other tensor of the launch, and a copy of each. ``value``: what the path answered;
    ``right`` bytes of ``out`` and ``findings`` thereafter.
    """

    run: Callable[[], None]
    order: tuple[str, ...]
    labels: Mapping[str, Tensor]
    defined: Mapping[str, Tensor]
    expected: Mapping[str, Tensor]
    roots: tuple[str, ...]
    out: Tensor
    before: Tensor
    read: list[tuple[Tensor, Tensor]]
    value: Any = None
    right: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int8))
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Copies need not be kept in a file too."""
        return {**self.__dict__, "read": [tensor for tensor, _ in self.read]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.read = [(tensor, whole(tensor).clone()) for tensor in state["read"]]

    def again(self, program: Program, rounds: int) -> tuple[Finding, ...]:
        """Run ``program`` in the kernel's place, from the state before. What it stored is in ``out``.

        Raises whatever the emulator does, and ValueError where it wrote to what it should only read.
        """
        whole(self.out).copy_(self.before)
        with (
            sessions.session(self.labels, self.order, self.defined, self.expected, self.roots) as seen,
            sessions.edited(lambda kernel: program, rounds),
        ):
            self.run()
        for tensor, right in self.read:
            if not torch.equal(whole(tensor), right):
                whole(tensor).copy_(right)
                raise ValueError("the kernel wrote into a tensor that it should only read")
        return seen.findings


Kept = list[tuple[str, Launched | base.Outcome]]
"""Name of a request's type, and its launch, or its answer where it launched nothing; in the order asked."""


class Recorder(Wrapped):
    """A path that keeps the launches of its scores, and its other answers. ``trees``: by request type."""

    def __init__(self, inner: base.Path) -> None:
        super().__init__(inner)
        self.kept: Kept = []
        self.trees: dict[str, str | None] = {}
        self.programs: list[Program] = []

    def around(self, method: Callable[[Any], base.Outcome]) -> Callable[[Any], base.Outcome]:
        def run(request: Any) -> base.Outcome:
            seen: list[Launched] = []
            with sessions.watched(lambda name, again: _noted(seen, again)), sessions.edited(self._program):
                outcome = method(request)
            name = type(request).__name__
            if isinstance(request, SCORES):
                if len(seen) != 1:
                    raise CannotRun(f"{name} makes {len(seen)} launches, known is how to repeat one")
                (launch,) = seen
                if whole(outcome.value).data_ptr() != whole(launch.out).data_ptr():
                    raise CannotRun(f"{name} answers with another tensor than its launch wrote")
                launch.value, launch.facts = outcome.value, outcome.facts
                launch.right, launch.findings = whole(launch.out).clone(), outcome.findings
                self.trees[name] = self.inner.tree(request)
                self.kept.append((name, launch))
            else:
                self.kept.append((name, outcome))
            return outcome

        return run

    def _program(self, program: Program) -> Program:
        self.programs.append(program)
        return program


class Replayed(base.Path):
    """A path (``named``: name, executor) that answers as was ``kept`` of one case, by another program.

    With ``brief``, what comes after an answer with wrong bits is answered as recorded, for a case that is
    red already; ``skipped`` says whether that was done.
    """

    def __init__(
        self,
        named: tuple[str, str],
        trees: Mapping[str, str | None],
        kept: Kept,
        program: Program,
        rounds: int,
        brief: bool = False,
    ) -> None:
        self._named, self._trees = named, trees
        self._left, self._program, self._rounds = iter(kept), program, rounds
        self.first: Tensor | None = None
        """The first answer of scores, as it was when it came."""
        self.brief, self.wrong, self.skipped = brief, False, False
        self.broke = False
        """Whether the kernel could not be run to its end, as opposed to anything around it."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._named[0]

    @property
    def executor(self) -> str:
        return self._named[1]

    def answers(self) -> base.Answers:
        return {}

    def tree(self, request: Any) -> str | None:
        return self._trees.get(type(request).__name__)

    def run(self, request: Any) -> base.Outcome:
        """The answer to the next request of the recording. Raises ValueError when it is another one."""
        name, kept = next(self._left, ("nothing", None))
        if name != type(request).__name__ or kept is None:
            raise ValueError(f"{type(request).__name__} is asked where {name} was recorded")
        if isinstance(kept, base.Outcome):
            return kept
        findings = self._launched(kept)
        value = kept.value
        if request.out is not None:
            whole(request.out).copy_(whole(kept.out))
            value = request.out
        if self.first is None:
            self.first = value.clone()
        return base.Outcome(value, findings, kept.facts)

    def _launched(self, kept: Launched) -> tuple[Finding, ...]:
        """Findings of a launch, and what it stored in the output of ``kept``."""
        if self.brief and self.wrong:
            self.skipped = True
            whole(kept.out).copy_(kept.right)
            return kept.findings
        try:
            findings = kept.again(self._program, self._rounds)
        except Exception as error:
            self.broke = not isinstance(error, OURS)
            raise
        self.wrong = self.wrong or not torch.equal(whole(kept.out), kept.right)
        return findings


@contextmanager
def _noted(seen: list[Launched], again: Callable[[], None]) -> Iterator[None]:
    """Keep a launch as it is about to run."""
    opened = sessions.current()
    tensors = {place.name: place.tensor for place in again.args[2] if hasattr(place, "tensor")}  # type: ignore[attr-defined]
    if OUT not in tensors:
        raise CannotRun(f"a launch has no operand {OUT}")
    read = [(one, whole(one).clone()) for name, one in tensors.items() if name != OUT]
    out = tensors[OUT]
    session = (tuple(opened.order), opened.labels, opened.defined, opened.expected, tuple(opened.roots))
    seen.append(Launched(again, *session, out, whole(out).clone(), read))
    yield


def whole(tensor: Tensor) -> Tensor:
    """All bytes of a tensor's storage, int8."""
    return torch.empty(0, dtype=torch.int8).set_(tensor.untyped_storage())
