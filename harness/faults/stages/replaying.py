"""Faults of a captured step: what was baked in when it was captured, and what is done to rows of nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.faults import builders
from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always
from harness.faults.publishers import wherever_published
from harness.paths.base import Outcome
from harness.paths.requests.replaying import Capture, Eager, Replay, Step
from harness.replay.calls import CaptureRefused
from oracles import schedule

CAPTURE = "ATOM atom/model_ops/attentions/aiter_mla.py: build_for_cudagraph_capture"
V4_CAPTURE = "ATOM atom/model_ops/attentions/deepseek_v4_attn.py: build_for_cudagraph_capture"
SCORER = "ATOM atom/models/deepseek_v4.py: _score_topk_decode_fp4"
SAME = "replays of the lengths that were captured"

CASE = "replay-n1-h16-d128-bucket1-v3_257-k8-tshuffled-fbytes-s1"
DEAD = "replay-n1-h16-d128-bucket2-v255,3_257-k8-tshuffled-fbytes-s1"

FALLBACK = "eager fallback"


@dataclass(frozen=True)
class Listed:
    """A recording that holds other calls than the step makes."""

    inner: Any
    calls: list[str]


def unlisted(request: Replay, right: Answer) -> Outcome:
    """Replay what a `Listed` recording really holds."""
    inner = getattr(request.recording, "inner", request.recording)
    return right(replace(request, recording=inner))


def stale() -> Mapping[type, Wrong]:
    """Each buffer is published into once; a step that is captured is published for then."""
    seen: dict[int, Tensor] = {}  # the buffers are kept alive, so that addresses are names

    def change(buffer: Tensor, before: Tensor, made: Tensor) -> Tensor:
        first = buffer.data_ptr() not in seen
        seen.setdefault(buffer.data_ptr(), buffer)
        return made if first else before

    return wherever_published(change)


def of_the_capture() -> Mapping[type, Wrong]:
    """Each recording publishes the lengths it was made with."""
    lengths: dict[int, tuple[Tensor, Tensor]] = {}

    def publish(step: Step) -> None:
        home = step.schedule
        _, old = lengths.setdefault(home.data_ptr(), (home, step.context_lens.clone()))
        made = schedule.decode_schedule(
            old, units=len(home), next_n=step.next_n, max_seq_len=step.max_seq_len
        )
        home.copy_(made)

    return builders.stepping(publish)


def captured_with(change: Callable[[Step], Step]) -> dict[type, Wrong]:
    """The recording is that of a changed step."""
    return {Capture: partial(_captured_with, change)}


def _captured_with(change: Callable[[Step], Step], request: Capture, right: Answer) -> Outcome:
    return right(Capture(change(request.step)))


def selecting_anew(step: Step, recording: Any) -> None:
    builders.selected_anew(step)


def old_tables(step: Step) -> Step:
    """Block tables as they are now; entries that name no page name the first."""
    tables = step.planes.block_tables
    kept = torch.where(tables < len(step.planes.k_codes), tables, 0)
    return replace(step, planes=replace(step.planes, block_tables=kept))


def after_replay(change: Callable[[Step, Any], None]) -> Wrong:
    """``change`` is done to a step, given its recording, once it has been replayed."""
    return partial(_after_replay, change)


def _after_replay(change: Callable[[Step, Any], None], request: Replay, right: Answer) -> Outcome:
    outcome = right(request)
    change(request.step, request.recording)
    return outcome


def selecting_by_old_lengths() -> Mapping[type, Wrong]:
    """The lengths that the top-k is given are those of the capture."""
    return _by_old_lengths(lambda step, old: step)


def running_by_old_lengths() -> Mapping[type, Wrong]:
    """The lengths of the whole step are those of the capture."""
    return _by_old_lengths(lambda step, old: replace(step, context_lens=old))


def _by_old_lengths(recorded: Callable[[Step, Tensor], Step]) -> Mapping[type, Wrong]:
    lengths: dict[int, tuple[Any, Tensor]] = {}

    def capture(request: Capture, right: Answer) -> Outcome:
        old = request.step.context_lens.clone()
        outcome = right(Capture(recorded(request.step, old)))
        lengths[id(outcome.value)] = (outcome.value, old)
        return outcome

    def select(step: Step, recording: Any) -> None:
        builders.choose(step.out, lengths[id(recording)][1], step.next_n, step.selected)

    return {Capture: capture, Replay: after_replay(select)}


def dead_rows(step: Step, recording: Any) -> None:
    """A score of zero lands in the first column of every row of a dead sequence."""
    step.out[(step.context_lens == 0).repeat_interleave(step.next_n), :1] = 0.0


def dead_rows_eagerly(request: Eager, right: Answer) -> Outcome:
    outcome = right(request)
    dead_rows(request.step, None)
    return outcome


def fallback(request: Capture, right: Answer) -> Outcome:
    outcome = right(request)
    return replace(outcome, value=Listed(outcome.value, [FALLBACK]))


def listing(request: Eager, right: Answer) -> Outcome:
    """An eager run says what it runs."""
    outcome = right(request)
    return replace(outcome, facts={"calls": ["publish", "score", "select"], **outcome.facts})


def refused(request: Capture, right: Answer) -> Outcome:
    raise CaptureRefused("the step reads a tensor on the host (item), which no stream holds")


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="stale-schedule",
        stage="replay",
        wrong="the schedule is published when the step is captured and not refreshed between replays",
        seen="fault catalogue; ROCm/ATOM #2216 (B21)",
        weak=SAME,
        case=CASE,
        source=V4_CAPTURE,
        plant=stale,
    ),
    Fault(
        name="schedule-of-the-capture",
        stage="replay",
        wrong="each replay publishes the lengths of the capture, which were read on the host",
        seen="neighbour of ROCm/ATOM #2102 (B45)",
        weak=SAME,
        case=CASE,
        source=CAPTURE,
        plant=of_the_capture,
    ),
    Fault(
        name="lengths-of-the-capture",
        stage="replay",
        wrong="the whole step runs over the lengths of the capture, as a fallback that was captured does",
        seen="ROCm/ATOM #2102 (B45)",
        weak=SAME,
        case=CASE,
        source=CAPTURE,
        plant=running_by_old_lengths,
    ),
    Fault(
        name="tables-of-the-capture",
        stage="replay",
        wrong="the scorer reads the block tables of the capture",
        seen="neighbour of ROCm/ATOM #2102 (B45)",
        weak="sequences that keep their pages",
        case=CASE,
        source=CAPTURE,
        plant=always({**captured_with(old_tables), Replay: after_replay(selecting_anew)}),
    ),
    Fault(
        name="selection-of-the-capture",
        stage="replay",
        wrong="the top-k selects within the lengths of the capture",
        seen="neighbour of ROCm/ATOM #2102 (B45)",
        weak="scores alone",
        case=CASE,
        source=SCORER,
        plant=selecting_by_old_lengths,
    ),
    Fault(
        name="dead-rows-scored",
        stage="replay",
        wrong="rows of a bucket that belong to no sequence are scored too",
        seen="neighbour of ROCm/aiter #3235 (B15)",
        weak="full buckets",
        case=DEAD,
        source="aiter .../pa_mqa_logits_fp4.py: _varctx_cta_info_kernel",
        plant=always({Replay: after_replay(dead_rows), Eager: dead_rows_eagerly}),
    ),
    Fault(
        name="fallback-captured",
        stage="replay",
        wrong="the recording holds another branch than an eager run takes",
        seen="ROCm/ATOM #2102 (B45)",
        weak="values: both branches are right for what was captured",
        case=CASE,
        source=CAPTURE,
        plant=always({Capture: fallback, Replay: unlisted, Eager: listing}),
    ),
    Fault(
        name="host-read-in-capture",
        stage="replay",
        wrong="the step brings a length to the host, which no stream capture can hold",
        seen="neighbour of ROCm/ATOM #1984 (B48)",
        weak="eager runs",
        case=CASE,
        source="aiter .../pa_mqa_logits_fp4_prefill.py: compute_prefill_schedule",
        plant=always({Capture: refused}),
    ),
)
