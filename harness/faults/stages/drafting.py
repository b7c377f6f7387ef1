"""Faults of a draft loop: a schedule, or lengths, of another step or another micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always
from harness.faults.publishers import drafting, launching, publish
from harness.paths.base import Outcome
from harness.paths.requests.publishing import DraftLoop, Launched

CALL = "ATOM atom/model_ops/attentions/aiter_mla.py: _publish_indexer_fp4_decode_schedule"
DRAFT = "ATOM atom/model_ops/attentions/aiter_mla.py: prepare_mtp_decode"
V4 = "ATOM atom/model_ops/attentions/deepseek_v4_attn.py: _build_v4_indexer_meta"
MICRO = "ATOM atom/model_ops/attentions/aiter_mla.py: _prepare_ubatch_decode"
B21 = "ROCm/ATOM #2216 (B21)"
ONE_STEP = "one draft step"
FIRST_PART = "a batch in one piece: the first micro-batch is right"
LOOP = "speculative-n2-h16-d128-ctx255-steps2-ub1-tshuffled-fbytes-s1"
SHORT = "speculative-n2-h16-d128-ctx300-steps1-ub1-tshuffled-fbytes-s1"
PARTS = "speculative-n2-h16-d128-ctx300,7-steps1-ub2-tshuffled-fbytes-s1"


def stale_steps() -> Mapping[type, Wrong]:
    """What draft step 0 was launched with is launched again."""
    kept: dict[int, Tensor] = {}

    def told(request: DraftLoop, launched: Launched) -> Launched:
        if launched.step == 1:
            kept[launched.part] = launched.schedule.clone()
        elif drafting(request, launched):
            launched.schedule.copy_(kept[launched.part])
        return launched

    return {DraftLoop: launching(told)}


def wide_rows() -> Mapping[type, Wrong]:
    """What the verify step was launched with is launched again, as far as the draft's grid reaches."""
    kept: dict[int, Tensor] = {}

    def told(request: DraftLoop, launched: Launched) -> Launched:
        if launched.step == 0:
            kept[launched.part] = launched.schedule.clone()
        elif drafting(request, launched):
            launched.schedule.copy_(kept[launched.part][: len(launched.schedule)])
        return launched

    return {DraftLoop: launching(told)}


def rows_as_sequences() -> Mapping[type, Wrong]:
    """The first of the verify step's rows, which advance as lengths do, are taken for sequences."""
    kept: dict[int, Tensor] = {}

    def told(request: DraftLoop, launched: Launched) -> Launched:
        if launched.step == 0:
            older = torch.arange(request.next_n - 1, -1, -1)
            rows = (launched.context_lens[:, None] - older).clamp(min=0).flatten()
            kept[launched.part] = rows.to(torch.int32)
        elif drafting(request, launched):
            rows = kept[launched.part][: len(launched.context_lens)]
            publish(launched, rows + (launched.step - 1), request.max_seq_len)
        return launched

    return {DraftLoop: launching(told)}


def from_zero(request: DraftLoop, launched: Launched) -> Launched:
    publish(launched, request.context_lens[: len(launched.context_lens)], request.max_seq_len)
    return launched


def scored_from_zero(request: DraftLoop, launched: Launched) -> Launched:
    from_zero(request, launched)
    return replace(launched, context_lens=request.context_lens[: len(launched.context_lens)])


def inflated(request: DraftLoop, launched: Launched) -> Launched:
    if not drafting(request, launched):
        return launched
    lengths = launched.context_lens + (request.next_n - 1)
    publish(launched, lengths, request.max_seq_len)
    return replace(launched, context_lens=lengths)


def lengths_of_verify() -> Mapping[type, Wrong]:
    """The scorer reads lengths that were copied for the verify step."""
    kept: dict[int, Tensor] = {}

    def told(request: DraftLoop, launched: Launched) -> Launched:
        if not drafting(request, launched):
            kept[launched.part] = launched.context_lens.clone()
        return replace(launched, context_lens=kept[launched.part])

    return {DraftLoop: launching(told)}


def one_buffer(request: DraftLoop, right: Answer) -> Outcome:
    """Every micro-batch publishes into the buffer of the first before any of them is launched."""
    shared, ready = request.buffers[0], []

    def told(launched: Launched) -> None:
        shared[: len(launched.schedule)] = launched.schedule
        ready.append(replace(launched, schedule=shared[: len(launched.schedule)]))
        if len(ready) == request.parts:
            for each in ready:
                request.launch(each)
            ready.clear()

    outcome = right(replace(request, buffers=request.buffers.clone(), launch=told))
    return replace(outcome, value=request.buffers)


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="stale-draft-steps",
        stage="speculative",
        wrong="the schedule is published at draft step 0 and serves the later ones, whose lengths have grown",
        seen=f"fault catalogue; {B21}",
        weak=ONE_STEP,
        case=LOOP,
        source=DRAFT,
        plant=stale_steps,
    ),
    Fault(
        name="wide-rows-schedule",
        stage="speculative",
        wrong="the draft replays the schedule of the verify step's B * N rows over its B rows",
        seen=f"fault catalogue; {B21}",
        weak="N = 1, where both have a row a sequence",
        case=SHORT,
        source=DRAFT,
        plant=wide_rows,
    ),
    Fault(
        name="rows-taken-for-sequences",
        stage="speculative",
        wrong="the draft takes the lengths of the verify step's first B rows for those of B sequences",
        seen=B21,
        weak="batch 1 at N = 1; lengths far from a multiple of 256",
        case=SHORT,
        source=CALL,
        plant=rows_as_sequences,
    ),
    Fault(
        name="draft-lengths-inflated",
        stage="speculative",
        wrong="the draft's lengths are those prepared for the verify step's N rows, N - 1 too many",
        seen="NVIDIA/TensorRT-LLM #15783, sgl-project/sglang #13236 (B50)",
        weak="accuracy: 0.948 on GSM8K before it was found by reading",
        case=SHORT,
        source=DRAFT,
        plant=always({DraftLoop: launching(inflated)}),
    ),
    Fault(
        name="draft-lengths-stay",
        stage="speculative",
        wrong="the draft's scorer reads the lengths of the verify step at every step",
        seen=f"neighbour of {B21}",
        weak=ONE_STEP,
        case=LOOP,
        source=DRAFT,
        plant=lengths_of_verify,
    ),
    Fault(
        name="ubatch-global-zero",
        stage="DCP",
        wrong="every micro-batch's schedule is built from the lengths of the whole batch, from the first on",
        seen=f"fault catalogue; {B21}",
        weak=FIRST_PART,
        case=PARTS,
        source=MICRO,
        plant=always({DraftLoop: launching(from_zero)}),
    ),
    Fault(
        name="ubatch-scores-from-zero",
        stage="DCP",
        wrong="schedule and scorer of every micro-batch read the whole batch's lengths from the first on",
        seen=f"neighbour of {B21}",
        weak="that schedule and lengths fit each other",
        case=PARTS,
        source=MICRO,
        plant=always({DraftLoop: launching(scored_from_zero)}),
    ),
    Fault(
        name="ubatch-one-buffer",
        stage="DCP",
        wrong="all micro-batches publish into one buffer before the first of them is launched",
        seen="ROCm/ATOM, DeepSeek-V4 decode with micro-batches (found by this harness)",
        weak=FIRST_PART,
        case=PARTS,
        source=V4,
        plant=always({DraftLoop: one_buffer}),
    ),
)
