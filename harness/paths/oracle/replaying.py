"""The oracle's answers about replays: it records nothing and works everything out anew each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from harness.paths import base
from harness.paths.oracle.path import OraclePath
from harness.paths.requests import replaying as asked
from harness.paths.requests.replaying import Step
from harness.paths.requests.scoring import DecodeScores
from oracles import schedule, topk
from oracles.windows import decode_windows


@dataclass(frozen=True)
class Again:
    """Stands for a recording."""

    run: Callable[[], None]
    calls: None = None


def answers(path: base.Path) -> base.Answers:
    return {asked.Capture: capture, asked.Replay: replay, asked.Eager: eager}


def capture(request: asked.Capture) -> base.Outcome:
    return base.Outcome(Again(lambda: step(request.step)))


def replay(request: asked.Replay) -> base.Outcome:
    request.recording.run()
    return base.Outcome(request.step.written)


def eager(request: asked.Eager) -> base.Outcome:
    step(request.step)
    return base.Outcome(request.step.written)


def step(asked_of: Step) -> None:
    """Publish, score and select in turn."""
    if not asked_of.published:
        publish(asked_of)
    score(asked_of)
    select(asked_of)


def publish(step: Step) -> None:
    made = schedule.decode_schedule(
        step.context_lens, units=len(step.schedule), next_n=step.next_n, max_seq_len=step.max_seq_len
    )
    step.schedule.copy_(made)


def score(step: Step) -> None:
    OraclePath().run(
        DecodeScores(
            step.planes,
            step.context_lens,
            step.next_n,
            step.weight_scale,
            step.max_seq_len,
            schedule=step.schedule,
            out=step.out,
        )
    )


def select(step: Step) -> None:
    """NaN in a window (a column that no entry covered) counts as the smallest score."""
    rows = decode_windows(step.context_lens, step.next_n)
    scores = step.out.masked_fill(step.out.isnan(), -torch.inf)
    step.selected.copy_(topk.topk(scores, rows, step.selected.shape[1], stable=True).ids)
