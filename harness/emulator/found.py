"""Collects what the emulator finds during a launch, one entry a kind, operand and source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harness.findings import Finding


@dataclass(frozen=True, slots=True)
class Where:
    """The slab and the operation an access belongs to.

    ``shape`` is ``(C, W, L)`` of the slab, ``first_cta`` its first workgroup.
    """

    kernel: str
    location: str
    shape: tuple[int, int, int]
    first_cta: int

    @property
    def first_lane(self) -> int:
        return self.first_cta * self.shape[1] * self.shape[2]

    def lanes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The full lane shape a narrower value stands for."""
        return tuple(torch.broadcast_shapes(tuple(shape), self.shape))

    def coordinates(self, flat: int) -> dict[str, int]:
        """Workgroup and lane (within the workgroup) of a flat lane number of the slab."""
        per_cta = self.shape[1] * self.shape[2]
        return {"cta": self.first_cta + flat // per_cta, "lane": flat % per_cta}

    def first(self, wrong: Tensor) -> dict[str, int]:
        return self.coordinates(int(wrong.expand(self.shape).flatten().nonzero()[0]))

    def pick(self, value: Tensor, wrong: Tensor) -> int:
        """``value`` of the first lane where ``wrong``."""
        spot = int(wrong.expand(self.shape).flatten().nonzero()[0])
        return int(value.expand(self.shape).flatten()[spot])


class Findings:
    """Findings of one session; counts of the same place add up, the first example is kept."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], Finding] = {}

    def add(self, kind: str, operand: str, where: Where, count: int, first: dict[str, Any]) -> None:
        key = (kind, where.kernel, operand, where.location)
        known = self._found.get(key)
        if known is None:
            self._found[key] = Finding(kind, where.kernel, operand, where.location, count, first)
        else:
            self._found[key] = replace(known, count=known.count + count)

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found.values())
