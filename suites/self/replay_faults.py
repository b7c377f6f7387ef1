"""Captured steps with one wrong rule: what was got wrong on paths like this one, and near neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from harness.paths.base import Answers, Outcome
from harness.paths.oracle import OraclePath, publishing, replaying
from harness.paths.requests import publishing as publish
from harness.paths.requests import replaying as asked
from harness.paths.requests.replaying import Step
from harness.replay.calls import CaptureRefused
from oracles import schedule, topk
from oracles.windows import Windows, decode_windows

Table = dict[type, Callable[[Any], Outcome]]


class FaultyPath(OraclePath):
    """The oracle, but for the answers of fault ``fault``."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    @cached_property
    def table(self) -> Answers:
        return {**super().table, **FAULTS[self.fault]}


@dataclass(frozen=True)
class Listed:
    """A recording that lists its calls."""

    run: Callable[[], None]
    calls: list[str]


def captures(made: Callable[[Step], Callable[[], None]]) -> Table:
    """A capture that records ``made`` of the step."""
    return {asked.Capture: lambda request: Outcome(replaying.Again(made(request.step)))}


def without_publish(step: Step) -> Callable[[], None]:
    """The schedule was published when the step was captured, and never again."""
    if not step.published:
        replaying.publish(step)
    return lambda: replaying.step(replace(step, published=True))


def with_old_lengths(step: Step) -> Callable[[], None]:
    """The schedule is that of the captured lengths, worked out on the host."""
    old = replace(step, context_lens=step.context_lens.clone())

    def run() -> None:
        if not step.published:
            replaying.publish(old)
        replaying.step(replace(step, published=True))

    return run


def with_old_tables(step: Step) -> Callable[[], None]:
    """Pages are those of the capture."""
    tables = step.planes.block_tables.clone()

    def run() -> None:
        replaying.step(replace(step, planes=replace(step.planes, block_tables=tables.clamp(max=0))))

    return run


def selecting_by_old_lengths(step: Step) -> Callable[[], None]:
    old = step.context_lens.clone()

    def run() -> None:
        if not step.published:
            replaying.publish(step)
        replaying.score(step)
        replaying.select(replace(step, context_lens=old))

    return run


def selecting_nothing(step: Step) -> Callable[[], None]:
    def run() -> None:
        if not step.published:
            replaying.publish(step)
        replaying.score(step)

    return run


def selecting_the_last_of_equals(step: Step) -> Callable[[], None]:
    """Equal scores go to the largest positions."""

    def run() -> None:
        replaying.step(step)
        rows, width = decode_windows(step.context_lens, step.next_n), step.out.shape[1]
        turned = Windows(rows.seq, width - rows.end.clamp(min=0), width - rows.start)
        ids = topk.topk(step.out.flip(1), turned, step.selected.shape[1], stable=True).ids
        step.selected.copy_(torch.where(ids >= 0, width - 1 - ids, ids))

    return run


def dropping_minus_infinities(step: Step) -> Callable[[], None]:
    """A visible minus infinity is taken for a column outside the window."""

    def run() -> None:
        replaying.step(step)
        lost = step.out.gather(1, step.selected.long().clamp(min=0)) == -torch.inf
        step.selected.masked_fill_(lost, -1)

    return run


def scoring_dead_rows(step: Step) -> Callable[[], None]:
    """Dead rows of a bucket are scored too: something lands in their rows."""

    def run() -> None:
        replaying.step(step)
        dead = (step.context_lens == 0).repeat_interleave(step.next_n)
        step.out[dead, :1] = 0.0

    return run


def another_buffer(request: publish.Publish) -> Outcome:
    """Right entries come back, and the caller's buffer stays as it was."""
    return publishing.publish_decode(replace(request, out=request.out.clone()))


def another_windows_buffer(request: publish.PublishWindows) -> Outcome:
    copies = {name: getattr(request, name).clone() for name in ("seq", "start", "end")}
    return publishing.publish_windows(replace(request, **copies))


def another_prefill_buffer(request: publish.PublishPrefill) -> Outcome:
    return publishing.publish_prefill(replace(request, out=request.out.clone()))


def short(request: publish.Publish) -> Outcome:
    """One chunk an entry, cut off where the buffer ends; any size of buffer is taken."""
    slots = int(schedule.chunks(request.context_lens).sum()) + len(request.context_lens) + len(request.out)
    made = schedule.decode_schedule(
        request.context_lens,
        units=slots * request.next_n,
        next_n=request.next_n,
        max_seq_len=request.max_seq_len,
    )
    return Outcome(request.out.copy_(made[: len(request.out)]))


def any_size(request: publish.Publish) -> Outcome:
    """Buffers that cannot hold the work are taken, and filled as far as they go."""
    units = request.next_n * max(-(-len(request.out) // request.next_n), len(request.context_lens))
    roomy = replace(request, out=torch.empty(units, 4, dtype=torch.int32))
    return Outcome(request.out.copy_(publishing.publish_decode(roomy).value[: len(request.out)]))


def floor_of_units(request: publish.Units) -> Outcome:
    """At least 512 and one a row, and no multiple of N."""
    return Outcome(torch.tensor([max(512, request.next_n * request.max_bs)]))


def fallback(request: asked.Capture) -> Outcome:
    """The capture holds another branch than an eager run takes."""
    return Outcome(Listed(lambda: replaying.step(request.step), ["eager fallback"]))


def listed_eager(request: asked.Eager) -> Outcome:
    return replace(replaying.eager(request), facts={"calls": ["scorer"]})


def refused(request: asked.Capture) -> Outcome:
    raise CaptureRefused("the step reads a tensor on the host (item), which no stream holds")


FAULTS: dict[str, Table] = {
    "stale-schedule": captures(without_publish),
    "schedule-of-the-capture": captures(with_old_lengths),
    "tables-of-the-capture": captures(with_old_tables),
    "selection-of-the-capture": captures(selecting_by_old_lengths),
    "selection-missing": captures(selecting_nothing),
    "ties-to-the-last": captures(selecting_the_last_of_equals),
    "minus-infinity-is-padding": captures(dropping_minus_infinities),
    "dead-rows-scored": captures(scoring_dead_rows),
    "schedule-in-a-copy": {publish.Publish: another_buffer},
    "windows-in-a-copy": {publish.PublishWindows: another_windows_buffer},
    "prefill-schedule-in-a-copy": {publish.PublishPrefill: another_prefill_buffer},
    "short-schedule": {publish.Publish: short},
    "any-size-accepted": {publish.Publish: any_size},
    "units-not-multiple": {publish.Units: floor_of_units},
    "fallback-captured": {asked.Capture: fallback, asked.Eager: listed_eager},
    "not-capturable": {asked.Capture: refused},
}
