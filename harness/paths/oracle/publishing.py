"""The oracle's answers about publishing: each schedule from the definition, into the caller's buffer."""

from __future__ import annotations

from itertools import groupby

import torch

from harness.paths import base
from harness.paths.requests import publishing as asked
from oracles import publish, schedule, windows


def answers(path: base.Path) -> base.Answers:
    return {
        asked.Units: units,
        asked.Publish: publish_decode,
        asked.PublishPrefill: publish_prefill,
        asked.PublishWindows: publish_windows,
        asked.DraftLoop: draft_loop,
        asked.Backends: backends,
    }


def units(request: asked.Units) -> base.Outcome:
    return base.Outcome(torch.tensor([schedule.decode_units(request.next_n, request.max_bs)]))


def publish_decode(request: asked.Publish) -> base.Outcome:
    made = schedule.decode_schedule(
        request.context_lens,
        units=len(request.out),
        next_n=request.next_n,
        max_seq_len=request.max_seq_len,
    )
    return base.Outcome(request.out.copy_(made))


def publish_prefill(request: asked.PublishPrefill) -> base.Outcome:
    rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    made = schedule.prefill_schedule(rows, units=len(request.out), max_seq_len=request.max_seq_len)
    return base.Outcome(request.out.copy_(made))


def publish_windows(request: asked.PublishWindows) -> base.Outcome:
    made = windows.varqlen_windows(request.cu_seq_q, request.context_lens, request.total_q)
    buffers = (request.seq, request.start, request.end)
    for buffer, part in zip(buffers, (made.seq, made.start, made.end), strict=True):
        buffer[: request.total_q] = part
    return base.Outcome(buffers)


def draft_loop(request: asked.DraftLoop) -> base.Outcome:
    """Every launch of the definition, published a step at a time into the memory of the request."""
    start = request.context_lens.clone()
    every = publish.launches(start, request.next_n, request.steps, request.parts)
    for _, step in groupby(every, key=lambda one: one.step):
        ready = []
        for one in step:
            lengths = request.context_lens[one.first : one.first + len(one.lengths)].copy_(one.lengths)
            entries = request.buffers[one.part][: one.units]
            publish_decode(asked.Publish(lengths, one.next_n, request.max_seq_len, entries))
            ready.append(asked.Launched(one.step, one.part, entries, lengths, one.next_n))
        for launched in ready:
            request.launch(launched)
    return base.Outcome(request.buffers)


def backends(request: asked.Backends) -> base.Outcome:
    """One backend that scores FP4 and acts, one that does not and answers all the same."""
    acts = torch.tensor([True, False])
    named = {"backends": ["sparse", "dense"]}
    return base.Outcome((torch.ones_like(acts), acts, acts), facts=named)
