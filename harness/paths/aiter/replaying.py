"""aiter's decode step as a server captures it: its schedule builder and scorer on fixed buffers.

Its selection is a HIP kernel, so the in-tree one stands in for it where there is no gfx950; who did what
is in the outcome's facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from harness.emulator import backend
from harness.paths import base
from harness.paths.aiter import publishing
from harness.paths.aiter.path import _PLANES, _TENSORS, BLOCK_K, DECODE, AiterPath
from harness.paths.flydsl import captured_topk
from harness.paths.requests.replaying import Step
from harness.replay.parts import Part, Stepper

FIELDS = ("q_codes", "q_scales", "k_codes", "k_scales", "block_tables", "weights")


def answers(path: base.Path) -> base.Answers:
    assert isinstance(path, AiterPath)
    live = publishing.live(path)
    device = torch.device("cuda") if live else None
    subject = "aiter publish and scores, in-tree selection"
    opened: Any = (lambda step: nullcontext()) if live else partial(session, path)
    return Stepper(partial(parts, path), opened, path.executor, subject, device).answers()


def parts(path: AiterPath, step: Step) -> Sequence[Part]:
    made = [
        Part("publish", lambda: publish(path, step), True),
        Part("score", lambda: score(path, step), True),
        Part("select", lambda: select(step), True),
    ]
    return made[1:] if step.published else made


def publish(path: AiterPath, step: Step) -> None:
    publishing.write_decode(path, step.context_lens, step.next_n, step.max_seq_len, step.schedule)


def score(path: AiterPath, step: Step) -> None:
    split = (len(step.context_lens), step.next_n)
    planes = {name: getattr(step.planes, field) for name, field in zip(_PLANES, FIELDS, strict=True)}
    for name in ("q_fp4", "q_scale"):
        planes[name] = planes[name].view(*split, *planes[name].shape[1:])
    arguments = {
        **planes,
        "context_lens": step.context_lens,
        "next_n": step.next_n,
        "max_seq_len": step.max_seq_len,
        "weight_scale": step.weight_scale,
        "block_k": BLOCK_K,
        "out": step.out,
        "cta_info": step.schedule,
        "total_ctas": len(step.schedule),
        "stream": None if publishing.live(path) else 0,
    }
    publishing.function(path, DECODE, "flydsl_pa_mqa_logits_fp4", *arguments)(**arguments)


def select(step: Step) -> None:
    captured_topk.select(step.out, step.context_lens, step.next_n, step.selected)


def session(path: AiterPath, step: Step) -> Any:
    """Collects findings of the emulated scorer; the masks are those of the step's contents."""
    expected = {} if step.expected is None else {"out": step.expected}
    roots = (str(path.source()),)
    return backend.session(order=_TENSORS, defined=step.planes.defined, expected=expected, roots=roots)
