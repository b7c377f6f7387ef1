"""A path around another one: same name, same answers, and something that is done at each of them.

A wrapper that forgot to hand a property on would change what a check asks for, so all are here once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

from harness.paths import base
from harness.paths.base import Outcome


class Wrapped(base.Path):
    """``inner`` with `around` laid about each of its answers."""

    def __init__(self, inner: base.Path) -> None:
        self.inner = inner

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def executor(self) -> str:
        return self.inner.executor

    @abstractmethod
    def around(self, method: Callable[[Any], Outcome]) -> Callable[[Any], Outcome]:
        """What answers in ``method``'s place."""

    def answers(self) -> base.Answers:
        return self.table

    @cached_property
    def table(self) -> base.Answers:
        return {kind: self.around(method) for kind, method in self.inner.table.items()}

    def tree(self, request: Any) -> str | None:
        return self.inner.tree(request)

    def zeros(self, request: Any) -> str:
        return self.inner.zeros(request)

    def provenance(self) -> dict[str, Any]:
        return self.inner.provenance()
