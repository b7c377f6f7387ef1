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
from typing import Any, ClassVar

from torch import Tensor

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
class Planes:
    """The tensors a scorer reads. T rows, H heads, D head dim, K = D/128, B sequences, W table width.

    q_codes uint8 [T, H, D/2]; q_scales uint8 [T, K, 4, 16, pad4(H/16)];
    k_codes uint8 [blocks, K, 4, 64, 16]; k_scales uint8 [blocks, K, 4, 64];
    block_tables int32 [B, W]; weights bfloat16 [T, H].
    ``defined`` maps a field name to a bool tensor of that field's shape, true where a byte
    or element was written; a field that is absent is defined everywhere.
    """

    q_codes: Tensor
    q_scales: Tensor
    k_codes: Tensor
    k_scales: Tensor
    block_tables: Tensor
    weights: Tensor
    defined: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        return int(self.q_codes.shape[1])

    @property
    def head_dim(self) -> int:
        return int(self.q_codes.shape[2]) * 2


@dataclass(frozen=True)
class DecodeSchedule:
    """Build int32 [units, 4] (row, first chunk, chunk count, context length); context_lens int32 [B]."""

    context_lens: Tensor
    next_n: int
    units: int
    max_seq_len: int


@dataclass(frozen=True)
class PrefillSchedule:
    """Build int32 [units, 6] (row, sequence, first chunk, chunk count, start, end); all inputs int32 [T]."""

    row_seq: Tensor
    row_start: Tensor
    row_end: Tensor
    units: int
    max_seq_len: int


@dataclass(frozen=True)
class VarqlenWindows:
    """Build (sequence, start, end), int32 [total_q] each; cu_seq_q int32 [B+1], context_lens int32 [B]."""

    cu_seq_q: Tensor
    context_lens: Tensor
    total_q: int


@dataclass(frozen=True)
class DecodeScores:
    """Score T = B*next_n rows, float32 [T, max_seq_len].

    ``units`` None leaves the number of schedule slots to the path. With ``schedule`` (int32
    [P, 4]) the path must use it and leave cells outside the windows of ``out`` as they are;
    without, cells outside come back as minus infinity. ``out`` None lets the path allocate.
    ``expected`` bool [T, max_seq_len]: the cells that must be stored (checked where stores are seen).
    """

    planes: Planes
    context_lens: Tensor
    next_n: int
    weight_scale: float
    max_seq_len: int
    units: int | None = None
    schedule: Tensor | None = None
    out: Tensor | None = None
    expected: Tensor | None = None


@dataclass(frozen=True)
class PrefillScores:
    """Score ragged rows, float32 [T, max_seq_len]; windows int32 [T] each; the rest as in `DecodeScores`.

    ``schedule`` is int32 [P, 6].
    """

    planes: Planes
    row_seq: Tensor
    row_start: Tensor
    row_end: Tensor
    weight_scale: float
    max_seq_len: int
    units: int | None = None
    schedule: Tensor | None = None
    out: Tensor | None = None
    expected: Tensor | None = None


@dataclass(frozen=True)
class VarqlenScores:
    """Score rows of sequences with their own query counts, float32 [T, max_seq_len].

    cu_seq_q int32 [B+1], context_lens int32 [B]; rows past cu_seq_q[B] are padding (empty window).
    """

    planes: Planes
    cu_seq_q: Tensor
    context_lens: Tensor
    weight_scale: float
    max_seq_len: int
    units: int | None = None
    out: Tensor | None = None
    expected: Tensor | None = None


@dataclass(frozen=True)
class Quantise:
    """Quantise x (bfloat16 or float32 [R, D]) to packed E2M1 uint8 [R, D/2] and E8M0 uint8 [R, D/32]."""

    x: Tensor


@dataclass(frozen=True)
class WriteKeys:
    """Quantise k (bfloat16 [R, D]) and scatter to ``slots`` (int64 [R], block*64 + row, negative: skip).

    k_codes and k_scales are the planes to write in place; the value is the pair of them.
    """

    k: Tensor
    slots: Tensor
    k_codes: Tensor
    k_scales: Tensor


@dataclass(frozen=True)
class Outcome:
    """What a path answered: a tensor or a tuple of tensors, what was found on the way, and facts.

    ``facts``: ``over_budget`` (matrix results outside the exact budget), ``launches``, ``grid`` ...
    """

    value: Any
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


class Path(ABC):
    """A path under test. Subclasses register a method per request type in ``answers``."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def executor(self) -> str:
        """What really ran: ``torch``, ``emulated``, ``interpreted``, ``device gfx950`` ..."""

    @abstractmethod
    def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
        """Request type to the method that answers it."""

    def tree(self, request: Any) -> str | None:
        """Name of the declared summation tree of a score request (``decode``, ``prefill``); None: unknown."""
        return None

    def provenance(self) -> dict[str, Any]:
        """Versions and commits of what this path runs."""
        return {}

    def run(self, request: Any) -> Outcome:
        """Answer ``request``. Raises `OutOfScope` (one sentence) when this path has no such operation."""
        method = self.answers().get(type(request))
        if method is None:
            raise OutOfScope(f"path {self.name} has no operation {type(request).__name__}")
        return method(request)
