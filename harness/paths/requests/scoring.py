"""What is asked of schedule builders and scorers: the tensors of the production ABI.

Layouts are those of ``oracles.layout``. A request says nothing about how its tensors were made,
so that a path cannot know which case it is in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor


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

    written: ClassVar[tuple[str, ...]] = ()

    context_lens: Tensor
    next_n: int
    units: int
    max_seq_len: int


@dataclass(frozen=True)
class PrefillSchedule:
    """Build int32 [units, 6] (row, sequence, first chunk, chunk count, start, end); all inputs int32 [T]."""

    written: ClassVar[tuple[str, ...]] = ()

    row_seq: Tensor
    row_start: Tensor
    row_end: Tensor
    units: int
    max_seq_len: int


@dataclass(frozen=True)
class VarqlenWindows:
    """Build (sequence, start, end), int32 [total_q] each; cu_seq_q int32 [B+1], context_lens int32 [B]."""

    written: ClassVar[tuple[str, ...]] = ()

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

    written: ClassVar[tuple[str, ...]] = ("out",)

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

    written: ClassVar[tuple[str, ...]] = ("out",)

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

    written: ClassVar[tuple[str, ...]] = ("out",)

    planes: Planes
    cu_seq_q: Tensor
    context_lens: Tensor
    weight_scale: float
    max_seq_len: int
    units: int | None = None
    out: Tensor | None = None
    expected: Tensor | None = None
