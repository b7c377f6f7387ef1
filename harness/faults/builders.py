"""A schedule builder with one wrong rule, in every request in which a path builds a schedule.

Contract: the builder is asked directly, publishes into a caller's buffer, serves a scorer that is given no
schedule, a captured step and a draft loop; a path has it in all of these, so a fault of it shows in all. A
scorer's own schedule is handed to it in a buffer that is cleared first, as a scorer clears its own: chunks
that nobody covers stay minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Wrong
from harness.paths.base import Outcome
from harness.paths.requests import publishing, replaying, scoring
from oracles import schedule, windows
from oracles.windows import Windows

Build = Callable[[Tensor, int, int, int], Tensor]
"""From (context_lens int32 [B], next_n, units, max_seq_len) to entries int32 [units, 4]; it may refuse."""
BuildRagged = Callable[[Windows, int, int], Tensor]
"""From (windows, units, max_seq_len) to entries int32 [units, 6]; it may refuse."""


def decode(build: Build) -> dict[type, Wrong]:
    """``build`` wherever the decode schedule is built."""
    return {
        scoring.DecodeSchedule: partial(_decode_schedule, build),
        scoring.DecodeScores: partial(_decode_scores, build),
        publishing.Publish: partial(_publish, build),
        publishing.DraftLoop: partial(_draft_loop, build),
        **stepping(partial(_publish_step, build)),
    }


def ragged(build: BuildRagged) -> dict[type, Wrong]:
    """``build`` wherever the prefill schedule is built."""
    return {
        scoring.PrefillSchedule: partial(_prefill_schedule, build),
        scoring.PrefillScores: partial(_prefill_scores, build),
        scoring.VarqlenScores: partial(_varqlen_scores, build),
        publishing.PublishPrefill: partial(_publish_prefill, build),
    }


def stepping(publish: Callable[[replaying.Step], None]) -> dict[type, Wrong]:
    """A captured step that publishes by ``publish``, at each replay anew."""
    return {
        replaying.Capture: partial(capture, publish),
        replaying.Replay: partial(replay, publish),
        replaying.Eager: partial(eager, publish),
    }


@dataclass(frozen=True)
class Published:
    """A recording without its publish."""

    inner: Any

    @property
    def calls(self) -> list[str] | None:
        held: list[str] | None = self.inner.calls
        return held


def capture(publish: Callable[[replaying.Step], None], request: replaying.Capture, right: Answer) -> Outcome:
    if request.step.published:
        return right(request)
    publish(request.step)
    outcome = right(replaying.Capture(replace(request.step, published=True)))
    return replace(outcome, value=Published(outcome.value))


def replay(publish: Callable[[replaying.Step], None], request: replaying.Replay, right: Answer) -> Outcome:
    if not isinstance(request.recording, Published):
        return right(request)
    publish(request.step)
    with by_entries(request.step):
        return right(replaying.Replay(request.step, request.recording.inner))


def eager(publish: Callable[[replaying.Step], None], request: replaying.Eager, right: Answer) -> Outcome:
    if request.step.published:
        return right(request)
    publish(request.step)
    with by_entries(request.step):
        return right(replaying.Eager(replace(request.step, published=True)))


@contextmanager
def by_entries(step: replaying.Step) -> Iterator[None]:
    """A step in the block is scored as far as its schedule says, and selects within its own lengths."""
    lengths, before = step.context_lens, step.out.clone()
    own, longest = lengths.clone(), scheduled_lengths(step)
    lengths.copy_(longest)
    try:
        yield
    finally:
        lengths.copy_(own)
    as_scheduled(step, before)
    if bool((own != longest).any()):
        choose(step.out, own, step.next_n, step.selected)
    selected_anew(step)


def scheduled_lengths(request: replaying.Step | scoring.DecodeScores) -> Tensor:
    """int32 [B]: each sequence's length, or that of an entry of its rows which is longer."""
    assert request.schedule is not None
    longest = request.context_lens.clone()
    for row, _, _, length in request.schedule[request.schedule[:, 3] > 0].tolist():
        sequence = row // request.next_n
        if sequence < len(longest):
            longest[sequence] = max(int(longest[sequence]), length)
    return longest


def as_scheduled(step: replaying.Step | scoring.DecodeScores, before: Tensor) -> None:
    """Cells that no entry of the schedule reaches hold what they did: a kernel takes lengths from entries.

    The oracle takes them from the request (`scheduled_lengths`), so one that is longer than an entry's would
    score too much.
    """
    assert step.schedule is not None and step.out is not None
    column, reached = torch.arange(step.out.shape[1]), torch.zeros(step.out.shape, dtype=torch.bool)
    for row, first, count, length in step.schedule[step.schedule[:, 3] > 0].tolist():
        end = min((first + count) * schedule.BLOCK_K, length - (step.next_n - 1 - row % step.next_n))
        if row < len(reached):
            reached[row] |= (column >= first * schedule.BLOCK_K) & (column < end)
    step.out[~reached] = before[~reached]


def selected_anew(step: replaying.Step) -> None:
    """Where a window holds what is no number, select again: such scores rank before all numbers.

    A right step has none, so how one ranks is left open; on a GPU it is its bits that are compared.
    """
    seen = windows.visible(windows.decode_windows(step.context_lens, step.next_n), step.out.shape[1])
    if bool((step.out.isnan() & seen).any()):
        choose(step.out, step.context_lens, step.next_n, step.selected)


def choose(scores: Tensor, context_lens: Tensor, next_n: int, selected: Tensor) -> None:
    """The k best columns of each window to ``selected`` int32 [T, k], ties by position, no numbers first."""
    end = windows.decode_windows(context_lens, next_n).end[:, None]
    hidden = torch.arange(scores.shape[1]) >= end
    order = scores.masked_fill(hidden, -torch.inf).argsort(dim=1, descending=True, stable=True)
    taken = order[:, : selected.shape[1]]
    selected.fill_(-1)
    selected[:, : taken.shape[1]] = torch.where(torch.arange(taken.shape[1]) < end, taken, -1)


def _publish_step(build: Build, step: replaying.Step) -> None:
    step.schedule.copy_(build(step.context_lens, step.next_n, len(step.schedule), step.max_seq_len))


def _decode_schedule(build: Build, request: scoring.DecodeSchedule, right: Answer) -> Outcome:
    made = build(request.context_lens, request.next_n, request.units, request.max_seq_len)
    return Outcome(made)


def _publish(build: Build, request: publishing.Publish, right: Answer) -> Outcome:
    made = build(request.context_lens, request.next_n, len(request.out), request.max_seq_len)
    return Outcome(request.out.copy_(made))


def _draft_loop(build: Build, request: publishing.DraftLoop, right: Answer) -> Outcome:
    def told(launched: publishing.Launched) -> None:
        entries = launched.schedule
        made = build(launched.context_lens, launched.next_n, len(entries), request.max_seq_len)
        entries.copy_(made)
        request.launch(launched)

    return right(replace(request, launch=told))


def _decode_scores(build: Build, request: scoring.DecodeScores, right: Answer) -> Outcome:
    if request.schedule is not None:
        return right(request)
    chunks = max(1, -(-request.max_seq_len // schedule.BLOCK_K))
    units = request.units or len(request.planes.q_codes) * chunks
    made = build(request.context_lens, request.next_n, units, request.max_seq_len)
    return right(replace(request, schedule=made, out=cleared(request)))


def _prefill_schedule(build: BuildRagged, request: scoring.PrefillSchedule, right: Answer) -> Outcome:
    rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    return Outcome(build(rows, request.units, request.max_seq_len))


def _publish_prefill(build: BuildRagged, request: publishing.PublishPrefill, right: Answer) -> Outcome:
    rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    return Outcome(request.out.copy_(build(rows, len(request.out), request.max_seq_len)))


def _prefill_scores(build: BuildRagged, request: scoring.PrefillScores, right: Answer) -> Outcome:
    if request.schedule is not None:
        return right(request)
    rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    made = build(rows, _ragged_units(request), request.max_seq_len)
    return right(replace(request, schedule=made, out=cleared(request)))


def _varqlen_scores(build: BuildRagged, request: scoring.VarqlenScores, right: Answer) -> Outcome:
    """The scorer takes no schedule, so the chunks that ``build`` leaves out are cleared afterwards."""
    rows = windows.varqlen_windows(request.cu_seq_q, request.context_lens, len(request.planes.q_codes))
    made = build(rows, _ragged_units(request), request.max_seq_len)
    outcome = right(request)
    outcome.value.masked_fill_(
        ~covered(made[made[:, 4] < made[:, 5]][:, [0, 2, 3]], outcome.value), -torch.inf
    )
    return outcome


def _ragged_units(request: scoring.PrefillScores | scoring.VarqlenScores) -> int:
    chunks = max(1, -(-request.max_seq_len // schedule.BLOCK_K))
    return request.units or len(request.planes.q_codes) * chunks


def cleared(request: scoring.DecodeScores | scoring.PrefillScores) -> Tensor:
    """The request's buffer, or a new one, with minus infinity in every cell."""
    if request.out is None:
        return torch.full((len(request.planes.q_codes), request.max_seq_len), -torch.inf)
    return request.out.fill_(-torch.inf)


def covered(entries: Tensor, scores: Tensor) -> Tensor:
    """Cells bool [T, W] of ``scores`` in the chunks that ``entries`` int [E, 3] (row, first, count) name."""
    cells = torch.zeros(scores.shape, dtype=torch.bool)
    for row, first, count in entries.tolist():
        cells[row, first * schedule.BLOCK_K : (first + count) * schedule.BLOCK_K] = True
    return cells
