"""The one interface a path under test has: it is given a request and answers with an outcome.

A request carries the tensors of the production ABI (see the layouts in ``oracles.layout``)
and nothing about how they were made, so that a path cannot know which case it is in.
A path that cannot answer raises `Unsupported` with one sentence; answering with a
fallback instead would turn "not tested" into "agrees".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

from harness.findings import Finding


class Unsupported(Exception):
    """The path cannot run this request; the message is one sentence saying why.

    A path that was asked for by name and lacks what it should have (a version without the
    kernels, an operation the emulator does not know) leaves its cases unproven.
    """

    expected: ClassVar[bool] = False


class OutOfScope(Unsupported):
    """Not asked of this path, or of this machine: an operation the path never has, too little memory."""

    expected = True


@dataclass(frozen=True)
class Outcome:
    """What a path answered: a tensor or a tuple of tensors, what was found on the way, and facts.

    ``facts``: ``over_budget`` (matrix results outside the exact budget), ``launches``, ``grid`` ...
    ``others``: values that the same kernel gives as well where its compiler or the hardware has a choice,
    those equal to ``value`` left out.
    """

    value: Any
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[Any, ...] = ()


Answers = Mapping[type, Callable[[Any], Outcome]]


class Path(ABC):
    """A path under test. Subclasses register a method per request type in ``answers``.

    ``parts`` names modules that answer the requests of further areas, each by a function
    ``answers(path) -> Answers``; they are imported when the path is first asked something.
    """

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def executor(self) -> str:
        """What really ran: ``torch``, ``emulated``, ``interpreted``, ``device gfx950`` ..."""

    @abstractmethod
    def answers(self) -> Answers:
        """Request type to the method that answers it, without those of ``parts``."""

    @cached_property
    def table(self) -> Answers:
        """Request type to whatever answers it."""
        found = dict(self.answers())
        for part in self.parts:
            found |= import_module(part).answers(self)
        return found

    def tree(self, request: Any) -> str | None:
        """Name of the declared summation tree of a score request (``decode``, ``prefill``); None: unknown."""
        return None

    def zeros(self, request: Any) -> str:
        """How a top-k request ranks -0 and 0: one of ``oracles.topk.ZEROS``."""
        return "equal"

    def provenance(self) -> dict[str, Any]:
        """Versions and commits of what this path runs."""
        return {}

    def run(self, request: Any) -> Outcome:
        """Answer ``request``. Raises `OutOfScope` (one sentence) when this path has no such operation."""
        method = self.table.get(type(request))
        if method is None:
            raise OutOfScope(f"path {self.name} has no operation {type(request).__name__}")
        return method(request)
