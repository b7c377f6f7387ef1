"""A publisher that leaves something else in the caller's buffer than the schedule of now.

Contract: a `Change` is told which buffer it is, what that held and what should be in it, and says what is. It
is asked at every publish of a path: into a caller's buffer, in a captured step at each replay, and for every
launch of a draft loop. What a rule remembers it keeps by the buffer, as a builder does by its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor

from harness.faults import builders
from harness.faults.fault import Answer, Wrong
from harness.paths.base import Outcome
from harness.paths.requests import publishing, replaying
from oracles import schedule

Change = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From (the buffer, what it held, what should be in it), int32 [P, 4] each, to what is in it afterwards."""
Told = Callable[[publishing.DraftLoop, publishing.Launched], publishing.Launched]
"""From a loop and one of its launches to what is launched instead; schedules are changed in place."""


def wherever_published(change: Change) -> dict[type, Wrong]:
    """``change`` at every publish of the decode schedule."""
    return {
        publishing.Publish: partial(_publish, change),
        publishing.DraftLoop: partial(_draft_loop, change),
        **builders.stepping(partial(_step, change)),
    }


def launching(told: Told) -> Wrong:
    """A draft loop each of whose launches is another one; for request `DraftLoop`."""
    return partial(_launching, told)


def drafting(request: publishing.DraftLoop, launched: publishing.Launched) -> bool:
    """Whether it is a draft step that is launched."""
    return 1 <= launched.step <= request.steps


def publish(launched: publishing.Launched, lengths: Tensor, max_seq_len: int) -> None:
    """The schedule of ``lengths`` int32 [B'] into the buffer of a launch."""
    made = schedule.decode_schedule(
        lengths, units=len(launched.schedule), next_n=launched.next_n, max_seq_len=max_seq_len
    )
    launched.schedule.copy_(made)


def _launching(told: Told, request: publishing.DraftLoop, right: Answer) -> Outcome:
    return right(replace(request, launch=lambda launched: request.launch(told(request, launched))))


def _publish(change: Change, request: publishing.Publish, right: Answer) -> Outcome:
    before = request.out.clone()
    outcome = right(request)
    request.out.copy_(change(request.out, before, request.out.clone()))
    return outcome


def _step(change: Change, step: replaying.Step) -> None:
    made = schedule.decode_schedule(
        step.context_lens, units=len(step.schedule), next_n=step.next_n, max_seq_len=step.max_seq_len
    )
    step.schedule.copy_(change(step.schedule, step.schedule.clone(), made))


def _draft_loop(change: Change, request: publishing.DraftLoop, right: Answer) -> Outcome:
    held = request.buffers.clone()

    def told(launched: publishing.Launched) -> None:
        entries = launched.schedule
        before = held[launched.part][: len(entries)]
        before.copy_(change(entries, before.clone(), entries.clone()))
        entries.copy_(before)
        request.launch(launched)

    return right(replace(request, launch=told))
