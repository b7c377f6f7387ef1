"""The in-tree decode step as it is captured: publish and select from device operations, score by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from harness.emulator import backend
from harness.paths import base
from harness.paths.flydsl import captured_topk
from harness.paths.flydsl.path import PLANES, SCORER, FlydslPath
from harness.paths.flydsl.publishing import write_decode
from harness.paths.requests.replaying import Step
from harness.replay.parts import Part, Stepper


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, FlydslPath)
    return stepper(path).answers()


def stepper(path: FlydslPath) -> Stepper:
    """On a GPU the tensors live there; what has no kernel for it is emulated between the graphs."""
    live = path.executor.startswith("device")
    device = torch.device("cuda") if torch.cuda.is_available() else None
    executor = path.executor if device is None or live else f"{path.executor} between stream captures"

    def parts(step: Step) -> Sequence[Part]:
        made = [
            Part("publish", lambda: publish(step), True),
            Part("score", lambda: score(path, step, live), live),
            Part("select", lambda: select(step), True),
        ]
        return made[1:] if step.published else made

    return Stepper(parts, session if not live else lambda step: nullcontext(), executor, path.name, device)


def publish(step: Step) -> None:
    write_decode(step.context_lens, step.next_n, step.max_seq_len, step.schedule)


def score(path: FlydslPath, step: Step, live: bool) -> None:
    from harness.paths.flydsl import host

    planes = {field: getattr(step.planes, field) for field in PLANES}
    host.decode_scores(
        **planes,
        context_lens=step.context_lens,
        max_seq_len=step.max_seq_len,
        next_n=step.next_n,
        weight_scale=step.weight_scale,
        schedule=step.schedule,
        out=step.out,
        stream=None if live else 0,
    )


def select(step: Step) -> None:
    captured_topk.select(step.out, step.context_lens, step.next_n, step.selected)


def session(step: Step) -> Any:
    """Collects findings of the emulated kernels; the masks are those of the step's contents."""
    expected = {} if step.expected is None else {"out": step.expected}
    return backend.session(order=SCORER, defined=step.planes.defined, expected=expected)
