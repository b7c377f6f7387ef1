"""The oracle with faults planted, in the place of a path: what that path would answer if they were its own.

Contract: a suspect answers what the path answers and nothing else (the oracle stands in for the rest, as it
does for the path), and adds up in the order that the path declares. Otherwise a fault that the path has
would not give the path's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.faults.fault import Fault
from harness.faults.planted import Planted
from harness.paths import base
from harness.paths.oracle import OraclePath
from oracles.trees import Tree


@dataclass(frozen=True)
class Planting:
    """Around a path: the same path with faults planted. None: the path as it is."""

    faults: tuple[Fault, ...] = ()

    def __call__(self, path: base.Path) -> base.Path:
        return Planted(path, self.faults) if self.faults else path

    def __reduce__(self) -> tuple[Any, ...]:
        return _planting, (tuple(fault.name for fault in self.faults),)


@dataclass(frozen=True)
class Suspecting:
    """In place of a path: the oracle with ``faults``, refusing the requests of the types ``refused``."""

    faults: tuple[Fault, ...]
    refused: frozenset[str] = frozenset()

    def __call__(self, path: base.Path) -> base.Path:
        return Suspect(path, self.faults, self.refused)

    def __reduce__(self) -> tuple[Any, ...]:
        return _suspecting, (tuple(fault.name for fault in self.faults), self.refused)


def _named(names: tuple[str, ...]) -> tuple[Fault, ...]:
    """Faults by name: what they plant need not be a function that can be pickled."""
    from harness.faults import catalogue

    return tuple(map(catalogue.named, names))


def _planting(names: tuple[str, ...]) -> Planting:
    return Planting(_named(names))


def _suspecting(names: tuple[str, ...], refused: frozenset[str]) -> Suspecting:
    return Suspecting(_named(names), refused)


class Suspect(Planted):
    """The oracle with faults, under the name, the order of summation and the scope of ``path``."""

    def __init__(self, path: base.Path, faults: tuple[Fault, ...], refused: frozenset[str]) -> None:
        super().__init__(Declared(path), faults)
        self.path, self.refused = path, refused

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.path.name

    @property
    def executor(self) -> str:
        return self.path.executor

    @cached_property
    def table(self) -> base.Answers:
        asked = {kind for kind in self.path.table if kind.__name__ not in self.refused}
        return {kind: method for kind, method in super().table.items() if kind in asked}

    def tree(self, request: Any) -> str | None:
        return self.path.tree(request)


class Declared(OraclePath):
    """The oracle under the trees that ``path`` declares."""

    def __init__(self, path: base.Path) -> None:
        self.path = path

    def how(self, request: Any) -> str | Tree:
        return self.path.tree(request) or super().how(request)
