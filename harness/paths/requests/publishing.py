"""What is asked of schedule publishers: sizes, schedules at fixed addresses, and a whole draft loop.

A captured launch reads a schedule where it lay when it was captured, so what counts is the caller's own
buffer; a publisher that returns a right copy has published nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True)
class Units:
    """Schedule entries int64 [1] of a decode launch of ``max_bs`` sequences: f(N) of spec indexer.md 5."""

    written: ClassVar[tuple[str, ...]] = ()

    next_n: int
    max_bs: int


@dataclass(frozen=True)
class Publish:
    """Write the decode schedule of ``context_lens`` int32 [B] to ``out`` int32 [P, 4]; the value is ``out``.

    Entries as `DecodeSchedule`; P must be a multiple of next_n and P/next_n >= B, else it must raise.
    """

    written: ClassVar[tuple[str, ...]] = ("out",)

    context_lens: Tensor
    next_n: int
    max_seq_len: int
    out: Tensor


@dataclass(frozen=True)
class PublishPrefill:
    """Write the prefill schedule of windows int32 [T] to ``out`` int32 [P, 6]; P < T must raise."""

    written: ClassVar[tuple[str, ...]] = ("out",)

    row_seq: Tensor
    row_start: Tensor
    row_end: Tensor
    max_seq_len: int
    out: Tensor


@dataclass(frozen=True)
class PublishWindows:
    """Write `VarqlenWindows` to three buffers int32 [>= total_q]; what lies past ``total_q`` stays."""

    written: ClassVar[tuple[str, ...]] = ("seq", "start", "end")

    cu_seq_q: Tensor
    context_lens: Tensor
    total_q: int
    seq: Tensor
    start: Tensor
    end: Tensor


@dataclass(frozen=True)
class Launched:
    """What a launch of the draft loop finds at its addresses: the schedule, and the lengths it scores by.

    ``schedule`` int32 [P, 4] is the part of the buffer that the launch's grid covers; ``context_lens``
    int32 [B'] with ``next_n`` rows each, which are the rows of micro-batch ``part``.
    """

    step: int
    part: int
    schedule: Tensor
    context_lens: Tensor
    next_n: int


@dataclass(frozen=True)
class DraftLoop:
    """Publish for a verify step, ``steps`` draft steps and the next verify step, in place.

    context_lens int32 [B] are the engine's own and advance in place: by nothing from the verify step
    (step 0) to draft step 0 (step 1), then by one a step; the next verify step (steps + 1) is one more
    on. ``next_n`` rows a sequence in verify steps, one in draft steps. ``parts`` micro-batches share
    the sequences out (`oracles.publish.micro_batches`); ``buffers`` int32 [parts, U, 4], one a micro-batch,
    serve every width. A step is published for all micro-batches before any of them is launched;
    ``launch`` is called for each launch, in order.
    """

    written: ClassVar[tuple[str, ...]] = ("context_lens", "buffers")

    context_lens: Tensor
    next_n: int
    steps: int
    parts: int
    max_seq_len: int
    buffers: Tensor
    launch: Callable[[Launched], None]


@dataclass(frozen=True)
class Backends:
    """Which attention backends answer the publish call: bool [n] each of (answers, acts, should act).

    ``facts["backends"]`` names them. A draft calls it on whatever backend its target uses.
    """

    written: ClassVar[tuple[str, ...]] = ()
