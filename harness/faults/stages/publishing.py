"""Faults of publishing: who answers the call, and what is in the caller's buffer afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Fault, Wrong
from harness.faults.plants import always, asking, telling
from harness.faults.publishers import launching, wherever_published
from harness.paths.requests import publishing as asked
from harness.paths.requests.publishing import DraftLoop, Launched

CALL = "ATOM atom/model_ops/attentions/aiter_mla.py: _publish_indexer_fp4_decode_schedule"
BASE = "ATOM atom/model_ops/attentions/backends.py: CommonAttentionBuilder"
WINDOWS = "aiter .../pa_mqa_logits_fp4_prefill.py: compute_varqlen_windows"
RAGGED = "aiter .../pa_mqa_logits_fp4_prefill.py: compute_prefill_schedule"
B21 = "ROCm/ATOM #2216 (B21)"
SHORT = "speculative-n2-h16-d128-ctx300-steps1-ub1-tshuffled-fbytes-s1"


def moved(request: DraftLoop, launched: Launched) -> Launched:
    return replace(launched, schedule=launched.schedule.clone())


def unchanged(buffer: Tensor, before: Tensor, made: Tensor) -> Tensor:
    return before


def tail_left(buffer: Tensor, before: Tensor, made: Tensor) -> Tensor:
    """Only entries that have work are written."""
    return torch.where((made[:, 3:] != 0), made, before)


def spare() -> Mapping[type, Wrong]:
    """Two schedules in turn: what is published goes to the one that is launched the next time."""
    kept: dict[int, tuple[Tensor, Tensor]] = {}  # the buffers are kept alive, so that addresses are names

    def change(buffer: Tensor, before: Tensor, made: Tensor) -> Tensor:
        _, other = kept.get(buffer.data_ptr(), (buffer, before))
        kept[buffer.data_ptr()] = (buffer, made)
        last = made.clone()
        last[: len(other)] = other[: len(last)]
        return last

    return wherever_published(change)


def copies(*names: str) -> Any:
    """The request with copies of its buffers ``names``."""
    return lambda request: replace(request, **{name: getattr(request, name).clone() for name in names})


def answering_only(request: asked.Backends, value: tuple[Tensor, Tensor, Tensor]) -> Any:
    answers, acts, should = value
    return answers & should, acts, should


def all_act(request: asked.Backends, value: tuple[Tensor, Tensor, Tensor]) -> Any:
    answers, _, should = value
    return answers, answers, should


def none_acts(request: asked.Backends, value: tuple[Tensor, Tensor, Tensor]) -> Any:
    answers, acts, should = value
    return answers, torch.zeros_like(acts), should


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="no-base-publish",
        stage="speculative",
        wrong="only the backend that scores FP4 has the publish call, and a draft of any other breaks",
        seen="fault catalogue; ROCm/ATOM #2216",
        weak="targets whose backend has it",
        case=SHORT,
        source=BASE,
        plant=always({asked.Backends: telling(answering_only)}),
    ),
    Fault(
        name="base-publish-acts",
        stage="speculative",
        wrong="the publish call of backends without FP4 writes a schedule too",
        seen="neighbour of no-base-publish",
        weak="targets that score FP4",
        case=SHORT,
        source=BASE,
        plant=always({asked.Backends: telling(all_act)}),
    ),
    Fault(
        name="acting-publish-missing",
        stage="speculative",
        wrong="the backend that scores FP4 inherits the publish call that does nothing",
        seen="neighbour of no-base-publish",
        weak="that every backend answers the call",
        case=SHORT,
        source=CALL,
        plant=always({asked.Backends: telling(none_acts)}),
    ),
    Fault(
        name="schedule-at-another-address",
        stage="replay",
        wrong="each launch is given a right schedule at an address of its own",
        seen="neighbour of stale-schedule",
        weak="the contents of the schedule; a captured launch reads the address it was captured with",
        case=SHORT,
        source=CALL,
        plant=always({DraftLoop: launching(moved)}),
    ),
    Fault(
        name="schedule-in-a-copy",
        stage="replay",
        wrong="the right schedule comes back, and the caller's buffer stays as it was",
        seen="neighbour of stale-schedule",
        weak="the returned schedule",
        case=SHORT,
        source="aiter .../pa_mqa_logits_fp4.py: compute_varctx_schedule, argument cta_info_out",
        plant=always(wherever_published(unchanged)),
    ),
    Fault(
        name="windows-in-a-copy",
        stage="replay",
        wrong="the windows of ragged rows are right in a copy, and the caller's buffers stay as they were",
        seen="neighbour of stale-schedule",
        weak="the returned windows",
        case="replay-n1-h16-d128-bucket1-v3_257-k8-tshuffled-fbytes-s1",
        source=f"{WINDOWS}, argument out",
        plant=always({asked.PublishWindows: asking(copies("seq", "start", "end"))}),
    ),
    Fault(
        name="prefill-schedule-in-a-copy",
        stage="replay",
        wrong="the right prefill schedule comes back, and the caller's buffer stays as it was",
        seen="neighbour of stale-schedule",
        weak="the returned schedule",
        case="replay-n1-h16-d128-bucket1-v3_257-k8-tshuffled-fbytes-s1",
        source=f"{RAGGED}, argument cta_info_out",
        plant=always({asked.PublishPrefill: asking(copies("out"))}),
    ),
    Fault(
        name="tail-not-idle",
        stage="schedule",
        wrong="only entries that have work are written, and the rest still holds work of an earlier step",
        seen="neighbour of ROCm/ATOM #2216 (B21)",
        weak="buffers that are cleared before, lengths that only grow",
        case="speculative-n2-h16-d128-ctx300-steps1-ub1-tshuffled-fbytes-s1",
        source="aiter .../pa_mqa_logits_fp4.py: _varctx_cta_info_kernel",
        plant=always(wherever_published(tail_left)),
    ),
    Fault(
        name="spare-schedule",
        stage="replay",
        wrong="of two schedules that are written in turn the launch reads the one published the time before",
        seen=f"neighbour of {B21}",
        weak="lengths that stay",
        case=SHORT,
        source=CALL,
        plant=spare,
    ),
)
