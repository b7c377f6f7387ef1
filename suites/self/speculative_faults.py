"""Draft loops with one wrong rule: what was got wrong on paths like this one, and near neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from harness.paths.base import Answers, Outcome
from harness.paths.oracle import OraclePath, publishing
from harness.paths.requests import publishing as asked
from oracles import publish
from oracles.publish import Launch

Rule = Callable[[asked.DraftLoop, Launch, Tensor], tuple[Tensor, int] | None]
"""From a launch and all lengths of its step to (lengths, rows a sequence) published; None: nothing is."""


class FaultyPath(OraclePath):
    """The oracle, but for the answers of fault ``fault``."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    @cached_property
    def table(self) -> Answers:
        return {**super().table, **FAULTS[self.fault]}


def loop(rule: Rule, request: asked.DraftLoop) -> Outcome:
    """The oracle's loop with the schedule that ``rule`` publishes."""
    start = request.context_lens.clone()
    every = publish.launches(start, request.next_n, request.steps, request.parts)
    for step, launches in groupby(every, key=lambda one: one.step):
        lengths = request.context_lens.copy_(start + max(0, step - 1))
        ready = []
        for one in launches:
            entries = request.buffers[one.part][: one.units]
            wrong = rule(request, one, lengths)
            if wrong is not None:
                seen, rows = wrong
                units = entries[: len(entries) // rows * rows]
                publishing.publish_decode(asked.Publish(seen, rows, request.max_seq_len, units))
            mine = lengths[one.first : one.first + len(one.lengths)]
            ready.append(asked.Launched(step, one.part, entries, mine, one.next_n))
        for launched in ready:
            request.launch(launched)
    return Outcome(request.buffers)


def right(request: asked.DraftLoop, one: Launch, lengths: Tensor) -> tuple[Tensor, int]:
    return one.lengths.to(torch.int32), one.next_n


def first_draft_step_only(
    request: asked.DraftLoop, one: Launch, lengths: Tensor
) -> tuple[Tensor, int] | None:
    return right(request, one, lengths) if one.step in (0, 1, request.steps + 1) else None


def verify_only(request: asked.DraftLoop, one: Launch, lengths: Tensor) -> tuple[Tensor, int] | None:
    """The draft replays the schedule of B * N rows over B rows."""
    return right(request, one, lengths) if one.step in (0, request.steps + 1) else None


def rows_as_sequences(request: asked.DraftLoop, one: Launch, lengths: Tensor) -> tuple[Tensor, int]:
    """B21: the draft takes the first of the verify step's rows for lengths of sequences."""
    if one.step in (0, request.steps + 1):
        return right(request, one, lengths)
    older = torch.arange(request.next_n - 1, -1, -1)
    rows = (one.lengths[:, None] - older).clamp(min=0).flatten().to(torch.int32)
    return rows[: len(one.lengths)], 1


def from_zero(request: asked.DraftLoop, one: Launch, lengths: Tensor) -> tuple[Tensor, int]:
    """Every micro-batch reads the lengths of the whole batch from the first on."""
    return lengths[: len(one.lengths)], one.next_n


def inflated(request: asked.DraftLoop, one: Launch, lengths: Tensor) -> tuple[Tensor, int]:
    """B50: draft lengths prepared for the verify step's rows."""
    more = 0 if one.step in (0, request.steps + 1) else request.next_n - 1
    return (one.lengths + more).to(torch.int32), one.next_n


def one_buffer(request: asked.DraftLoop) -> Outcome:
    """All micro-batches publish into one buffer before the first of them is launched."""
    ready: list[asked.Launched] = []
    shared = request.buffers[0]

    def told(launched: asked.Launched) -> None:
        shared[: len(launched.schedule)] = launched.schedule
        ready.append(replace(launched, schedule=shared[: len(launched.schedule)]))
        if len(ready) == request.parts:
            for each in ready:
                request.launch(each)
            ready.clear()

    return publishing.draft_loop(replace(request, buffers=request.buffers.clone(), launch=told))


def moving_buffer(request: asked.DraftLoop) -> Outcome:
    """Each launch has a schedule of its own, right and at another address."""

    def told(launched: asked.Launched) -> None:
        request.launch(replace(launched, schedule=launched.schedule.clone()))

    return publishing.draft_loop(replace(request, launch=told))


def last_step_missing(request: asked.DraftLoop) -> Outcome:
    def told(launched: asked.Launched) -> None:
        if launched.step <= request.steps:
            request.launch(launched)

    return publishing.draft_loop(replace(request, launch=told))


def lengths_behind(request: asked.DraftLoop) -> Outcome:
    """Lengths that the scorer reads stay those of the verify step."""
    old = request.context_lens.clone()
    bounds = publish.micro_batches(len(old), request.parts)

    def told(launched: asked.Launched) -> None:
        first, last = bounds[launched.part]
        request.launch(replace(launched, context_lens=old[first:last]))

    return publishing.draft_loop(replace(request, launch=told))


def no_base(request: asked.Backends) -> Outcome:
    """Only the backend that acts has the call at all."""
    acts = torch.tensor([True, False])
    return Outcome((acts, acts, acts), facts={"backends": ["sparse", "dense"]})


def acting_base(request: asked.Backends) -> Outcome:
    acts = torch.tensor([True, False])
    every = torch.ones_like(acts)
    return Outcome((every, every, acts), facts={"backends": ["sparse", "dense"]})


def idle(request: asked.Backends) -> Outcome:
    """The backend that scores FP4 inherits the call that does nothing."""
    acts = torch.tensor([True, False])
    return Outcome((torch.ones_like(acts), torch.zeros_like(acts), acts))


def floor_of_units(request: asked.Units) -> Outcome:
    return Outcome(torch.tensor([max(512, request.next_n * request.max_bs)]))


def looped(rule: Rule) -> dict[type, Callable[[Any], Outcome]]:
    return {asked.DraftLoop: partial(loop, rule)}


FAULTS: dict[str, dict[type, Callable[[Any], Outcome]]] = {
    "stale-draft-steps": looped(first_draft_step_only),
    "wide-rows-schedule": looped(verify_only),
    "rows-taken-for-sequences": looped(rows_as_sequences),
    "ubatch-global-zero": looped(from_zero),
    "draft-lengths-inflated": looped(inflated),
    "ubatch-one-buffer": {asked.DraftLoop: one_buffer},
    "schedule-at-another-address": {asked.DraftLoop: moving_buffer},
    "last-step-missing": {asked.DraftLoop: last_step_missing},
    "lengths-do-not-advance": {asked.DraftLoop: lengths_behind},
    "no-base-publish": {asked.Backends: no_base},
    "base-publish-acts": {asked.Backends: acting_base},
    "acting-publish-missing": {asked.Backends: idle},
    "units-not-multiple": {asked.Units: floor_of_units},
}
