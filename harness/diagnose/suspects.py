"""The oracle with faults planted, in the place of a path: what that path would answer if they were its own.

Contract: a suspect answers what the path answers and nothing else (the oracle stands in for the rest, as it
does for the path), adds up in the order that the path declares, and reads as much in vain. Otherwise a fault
that the path has would not give the path's bytes. A fault of a kernel's program is planted in the in-tree
kernel of the request, since the oracle has no program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from harness.exits import CannotRun, InputError
from harness.faults.fault import Fault
from harness.faults.planted import Planted
from harness.paths import base, registry
from harness.paths.oracle import OraclePath
from harness.paths.requests.staging import GatherPlan
from oracles import staging
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
        kernels = {kind for fault in faults if fault.lowered for kind in fault.plant()}
        super().__init__(Declared(path, in_tree(kernels) if kernels else {}), faults)
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


def in_tree(kinds: Collection[type]) -> base.Answers:
    """The in-tree kernels that answer ``kinds``; none where they cannot run here."""
    try:
        path = registry.create(registry.choose([registry.DEFAULT], registry.Trees())[0])
    except (CannotRun, InputError):
        return {}
    return {kind: method for kind, method in path.table.items() if kind in kinds}


class Declared(OraclePath):
    """The oracle with what ``path`` declares where it is free to choose; ``kernels`` answer in its place."""

    def __init__(self, path: base.Path, kernels: base.Answers) -> None:
        self.path, self.kernels = path, kernels

    @cached_property
    def table(self) -> base.Answers:
        return {**super().table, GatherPlan: self.gather_plan, **self.kernels}

    def how(self, request: Any) -> str | Tree:
        return self.path.tree(request) or super().how(request)

    def gather_plan(self, request: GatherPlan) -> base.Outcome:
        """The right plan by which each rank reads as much as ``path`` says, where that suffices."""
        with contextlib.suppress(Exception):  # what a faulty path answers need not be a plan
            spans = self.path.run(request).value[0]
            lengths = request.context_lens.tolist()
            index = staging.gather_index(lengths, request.world, request.inter, spans)
            return base.Outcome((spans, index.to(torch.int32)))
        return super().table[GatherPlan](request)
