"""What is asked of a captured decode step: record it, run it again over other contents, run it eagerly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from harness.paths.requests.scoring import Planes


class Recorded(Protocol):
    """What a capture keeps. ``calls``: the kernels and operations it holds; None where no list can be had."""

    @property
    def calls(self) -> list[str] | None: ...


@dataclass(frozen=True)
class Step:
    """One decode step for a bucket of B sequences; T = B * next_n rows. Sequences of length 0 are dead.

    It writes the schedule of ``context_lens`` to ``schedule`` int32 [P, 4] (unless ``published``: somebody
    else has), scores to ``out`` float32 [T, W] inside the windows and nowhere else, and each row's
    ``selected`` int32 [T, k] in any order, -1 where a row sees fewer keys; of equal scores those at the
    smallest positions (``stable``, as servers that share a selection ask for it). The tensors are the
    same in every replay of a step, their contents are not. ``expected`` and ``planes.defined`` are as in
    `DecodeScores`.
    """

    planes: Planes
    context_lens: Tensor
    next_n: int
    weight_scale: float
    max_seq_len: int
    schedule: Tensor
    out: Tensor
    selected: Tensor
    published: bool = False
    expected: Tensor | None = None

    @property
    def written(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.schedule, self.out, self.selected


@dataclass(frozen=True)
class Capture:
    """Record ``step``; the value is the recording. What the tensors hold afterwards is left open."""

    written: ClassVar[tuple[str, ...]] = ("schedule", "out", "selected")

    step: Step


@dataclass(frozen=True)
class Replay:
    """Run ``recording`` of ``step`` again; the value is (schedule, out, selected), where they were."""

    written: ClassVar[tuple[str, ...]] = ("schedule", "out", "selected")

    step: Step
    recording: Any


@dataclass(frozen=True)
class Eager:
    """Run ``step`` without a recording; the value is (schedule, out, selected).

    ``facts["calls"]``: what ran, as in `Recorded`.
    """

    written: ClassVar[tuple[str, ...]] = ("schedule", "out", "selected")

    step: Step
