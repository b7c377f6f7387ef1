"""Defects in the code of the in-tree path: fault to the functions in which its rule lives, made wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.flydsl import publishing, replaying, schedules, selecting, sharding, staging
from harness.paths.flydsl.path import FlydslPath
from harness.paths.requests.publishing import Launched
from harness.paths.requests.replaying import Step
from harness.replay.parts import Part, Stepper


def a_chunk_a_slot(chunks: Tensor, size: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """`schedules.split` with the size overlooked and the work cut off."""
    row = torch.repeat_interleave(torch.arange(len(chunks)), chunks)
    first = torch.arange(len(row)) - (chunks.cumsum(0) - chunks)[row]
    return row[:slots], first[:slots], torch.ones_like(first)[:slots]


def overlapping(chunks: Tensor, size: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """`schedules.split` whose last slot is always full."""
    row, first, _ = SPLIT(chunks, size, slots)
    first = torch.minimum(first, (chunks[row] - size).clamp(min=0))
    return row, first, torch.minimum(chunks[row], torch.full_like(first, size))


def floored(chunks: Tensor, size: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """`schedules.split` with the number of slots rounded down."""
    parts = torch.where(chunks > 0, (chunks // size).clamp(min=1), 0)
    row = torch.repeat_interleave(torch.arange(len(chunks)), parts)
    first = (torch.arange(len(row)) - (parts.cumsum(0) - parts)[row]) * size
    return row, first, torch.minimum(chunks[row] - first, torch.full_like(first, size))


SPLIT = schedules.split


def lengths_of_the_newest(context_lens: Tensor, next_n: int, place: Any) -> Tensor:
    return sharding.held(context_lens, place).repeat_interleave(next_n)


def counted_back(context_lens: Tensor, next_n: int, place: Any) -> Tensor:
    held = sharding.held(context_lens, place)
    return (held[:, None] - torch.arange(next_n, dtype=torch.int32).flip(0)).clamp(min=0).flatten()


def unplanned(context_lens: Tensor, world: int, inter: int) -> tuple[Tensor, Tensor]:
    """`staging.plan` that leaves keys as they are gathered."""
    local_cu, index = PLAN(context_lens, world, inter)
    return local_cu, torch.arange(len(index), dtype=torch.int32)


PLAN = staging.plan


def narrow(batch: int, pages: int, max_batch: int, sequence_pages: int) -> Tensor:
    """`staging.identity` of one sequence's pages."""
    row = torch.zeros(sequence_pages, dtype=torch.int32)
    row[:pages] = torch.arange(pages, dtype=torch.int32)
    return row.repeat(batch, 1)


def aliased(batch: int, pages: int, max_batch: int, sequence_pages: int) -> Tensor:
    row = torch.arange(max_batch * sequence_pages, dtype=torch.int32).clamp(max=pages - 1)
    return row.repeat(batch, 1)


class FirstStepOnly(publishing.Loop):
    """A loop that publishes at the verify steps and at draft step 0."""

    def _published(self, step: int, part: int, next_n: int) -> Launched:
        if step <= 1 or step > self._asked.steps:
            return super()._published(step, part, next_n)
        lengths = self._asked.context_lens[self._bounds[part] : self._bounds[part + 1]]
        entries = self._asked.buffers[part][: publishing.entries(next_n, len(lengths))]
        return Launched(step, part, entries, lengths, next_n)


class VerifyOnly(publishing.Loop):
    """A loop that publishes at the verify steps."""

    def _published(self, step: int, part: int, next_n: int) -> Launched:
        if step == 0 or step > self._asked.steps:
            return super()._published(step, part, next_n)
        lengths = self._asked.context_lens[self._bounds[part] : self._bounds[part + 1]]
        entries = self._asked.buffers[part][: publishing.entries(next_n, len(lengths))]
        return Launched(step, part, entries, lengths, next_n)


class FromZero(publishing.Loop):
    """A loop whose micro-batches publish the first lengths of the batch."""

    def _published(self, step: int, part: int, next_n: int) -> Launched:
        made = super()._published(step, part, next_n)
        lengths = self._asked.context_lens[: len(made.context_lens)]
        publishing.write_decode(lengths, next_n, self._asked.max_seq_len, made.schedule)
        return made


def every_row_of_all(request: Any) -> base.Outcome:
    """`selecting.decode` with the ends of sequences."""
    ends = request.context_lens.repeat_interleave(request.next_n)
    return selecting._select(request, torch.zeros_like(ends), ends)


def from_column_0(request: Any) -> base.Outcome:
    return selecting._select(request, torch.zeros_like(request.row_start), request.row_end)


def captured_with(change: Callable[[Step], Step], *changed: str) -> Callable[[base.Path], base.Answers]:
    """`replaying.answers` whose parts ``changed`` run over ``change`` of the step as it was recorded."""

    def answers(path: base.Path) -> base.Answers:
        assert isinstance(path, FlydslPath)

        def parts(step: Step) -> Sequence[Part]:
            old = change(step)
            runs = {
                "publish": lambda it: replaying.publish(it),
                "score": lambda it: replaying.score(path, it, False),
                "select": lambda it: replaying.select(it),
            }
            made = [
                Part(name, partial(run, old if name in changed else step), True) for name, run in runs.items()
            ]
            return made[1:] if step.published else made

        return Stepper(parts, replaying.session, path.executor, path.name).answers()

    return answers


def old_lengths(step: Step) -> Step:
    return replace(step, context_lens=step.context_lens.clone())


def old_tables(step: Step) -> Step:
    tables = step.planes.block_tables.clone()
    tables[tables >= len(step.planes.k_codes)] = 0
    return replace(step, planes=replace(step.planes, block_tables=tables))


def as_it_is(plane: Tensor) -> Tensor:
    return plane


Defect = tuple[ModuleType, str, Any]

DEFECTS: dict[str, tuple[Defect, ...]] = {
    "short-schedule": ((schedules, "split", a_chunk_a_slot),),
    "short-prefill-schedule": ((schedules, "split", a_chunk_a_slot),),
    "double-cover": ((schedules, "split", overlapping),),
    "gap-cover": ((schedules, "split", floored),),
    "gap-cover-prefill": ((schedules, "split", floored),),
    "stale-draft-steps": ((publishing, "Loop", FirstStepOnly),),
    "wide-rows-schedule": ((publishing, "Loop", VerifyOnly),),
    "ubatch-global-zero": ((publishing, "Loop", FromZero),),
    "local-length-uniform": ((sharding, "held_by_rows", lengths_of_the_newest),),
    "local-length-counted-back": ((sharding, "held_by_rows", counted_back),),
    "scale-read-flat": ((staging, "unbent", as_it_is),),
    "scale-write-flat": ((staging, "bent", as_it_is),),
    "scale-both-flat": ((staging, "unbent", as_it_is), (staging, "bent", as_it_is)),
    "staged-table-one-seq": ((staging, "identity", narrow),),
    "staged-tail-alias": ((staging, "identity", aliased),),
    "topk-ends-of-sequence": ((selecting, "decode", every_row_of_all),),
    "topk-start-ignored": ((selecting, "prefill", from_column_0),),
    "gather-order": ((staging, "plan", unplanned),),
    "schedule-of-the-capture": ((replaying, "answers", captured_with(old_lengths, "publish")),),
    "lengths-of-the-capture": (
        (replaying, "answers", captured_with(old_lengths, "publish", "score", "select")),
    ),
    "tables-of-the-capture": ((replaying, "answers", captured_with(old_tables, "score")),),
    "selection-of-the-capture": ((replaying, "answers", captured_with(old_lengths, "select")),),
}
"""Fault to what is replaced in the in-tree path."""
