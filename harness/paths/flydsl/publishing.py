"""Schedules at fixed addresses, from device operations alone, and a draft loop that publishes them.

Contract: everything is written into the caller's buffer, nothing is read on the host, and every entry is
written every time, so that a captured stream may hold the whole publish. It fails silently when a number
of the step it was captured in, a split size say, goes into the grid or the entries of a later one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.flydsl import schedules
from harness.paths.flydsl.backends import BACKENDS
from harness.paths.requests import publishing as asked

FLOOR = 512
"""Entries that suffice to fill a chip."""

Write = Callable[[Tensor, int, int, Tensor], None]
"""Writes the schedule of (context_lens, next_n, max_seq_len) to a buffer."""


def answers(path: base.Path) -> base.Answers:
    return {
        asked.Units: units,
        asked.Publish: publish,
        asked.PublishPrefill: publish_prefill,
        asked.PublishWindows: publish_windows,
        asked.DraftLoop: partial(draft_loop, write_decode),
        asked.Backends: backends,
    }


def done(value: object) -> base.Outcome:
    return base.Outcome(value, facts={"executor": "torch"})


def units(request: asked.Units) -> base.Outcome:
    return done(torch.tensor([entries(request.next_n, request.max_bs)]))


def entries(next_n: int, max_bs: int) -> int:
    """Entries of a launch: at least `FLOOR`, at least one a row, and next_n for each slot."""
    slots = max(max_bs, (FLOOR + next_n - 1) // next_n)
    return slots * next_n


def publish(request: asked.Publish) -> base.Outcome:
    write_decode(request.context_lens, request.next_n, request.max_seq_len, request.out)
    return done(request.out)


def publish_prefill(request: asked.PublishPrefill) -> base.Outcome:
    rows = (request.row_seq, request.row_start, request.row_end)
    write_prefill(*rows, request.max_seq_len, request.out)
    return done(request.out)


def publish_windows(request: asked.PublishWindows) -> base.Outcome:
    buffers = (request.seq, request.start, request.end)
    write_windows(request.cu_seq_q, request.context_lens, request.total_q, buffers)
    return done(buffers)


def write_decode(context_lens: Tensor, next_n: int, max_seq_len: int, out: Tensor) -> None:
    """Entries (row, first chunk, chunk count, length) int32 [P, 4] of ``context_lens`` int32 [B].

    Raises ValueError when P is no multiple of next_n or leaves a sequence without a slot.
    """
    count, sequences = out.shape[0], context_lens.shape[0]
    if not 1 <= next_n <= 8:
        raise ValueError(f"next_n is {next_n}, allowed are 1 to 8")
    if count % next_n or count < sequences * next_n:
        low = sequences * next_n
        raise ValueError(f"out has {count} entries, allowed are multiples of {next_n} from {low}")
    slots = count // next_n
    chunks = schedules.chunk_counts(context_lens)
    owner, first, number, busy = slot_map(chunks, slots, max_seq_len)
    entry = torch.arange(count, device=out.device)
    slot, turn = entry // next_n, entry % next_n
    busy = busy[slot]
    out[:, 0] = torch.where(busy, owner[slot] * next_n + turn, 0)
    out[:, 1] = torch.where(busy, first[slot], 0)
    out[:, 2] = torch.where(busy, number[slot], 1)
    out[:, 3] = torch.where(busy, context_lens.long()[owner[slot]], 0)


def write_prefill(row_seq: Tensor, row_start: Tensor, row_end: Tensor, max_seq_len: int, out: Tensor) -> None:
    """Entries (row, sequence, first chunk, count, start, end) int32 [P, 6]. Raises ValueError when P < T."""
    count, rows = out.shape[0], row_seq.shape[0]
    if count < rows:
        raise ValueError(f"out has {count} entries, allowed are at least {rows}, one a row")
    owner, first, number, busy = slot_map(schedules.chunk_counts(row_end), count, max_seq_len)
    facts = (row_seq.long()[owner], first, number, row_start.long()[owner], row_end.long()[owner])
    for column, (fact, idle) in enumerate(zip((owner, *facts), schedules.IDLE_PREFILL, strict=True)):
        out[:, column] = torch.where(busy, fact, idle)


def slot_map(chunks: Tensor, slots: int, max_seq_len: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(owner, first chunk, chunk count, whether busy) of each slot, [slots] each, from chunks int64 [R]."""
    sizes = torch.arange(1, schedules.widest(max_seq_len) + 1, device=chunks.device)
    needed = ((chunks + sizes[:, None] - 1) // sizes[:, None]).sum(1)
    fits = needed <= slots
    smallest = fits.int().argmax() + 1
    size = torch.where(fits.any(), smallest, chunks.max().clamp(min=1))
    ends = ((chunks + size - 1) // size).cumsum(0)
    slot = torch.arange(slots, device=chunks.device)
    owner = torch.searchsorted(ends, slot, right=True)
    busy = owner < len(chunks)
    owner = owner.clamp(max=len(chunks) - 1)
    before = torch.where(owner > 0, ends[(owner - 1).clamp(min=0)], 0)
    first = (slot - before) * size
    return owner, first, torch.minimum(chunks[owner] - first, size), busy


def write_windows(
    cu_seq_q: Tensor, context_lens: Tensor, total_q: int, buffers: tuple[Tensor, Tensor, Tensor]
) -> None:
    """(sequence, start, end) of ``total_q`` rows to int32 buffers; rows past cu_seq_q[B] see nothing."""
    row = torch.arange(total_q, device=cu_seq_q.device)
    ends = cu_seq_q.long()[1:].contiguous()
    owner = torch.searchsorted(ends, row, right=True).clamp(max=len(context_lens) - 1)
    held_back = ends[owner] - 1 - row
    end = torch.where(row < ends[-1], (context_lens.long()[owner] - held_back).clamp(min=0), 0)
    for buffer, value in zip(buffers, (owner, torch.zeros_like(owner), end), strict=True):
        buffer[:total_q] = value


def draft_loop(write: Write, request: asked.DraftLoop) -> base.Outcome:
    """Publish and launch step by step; ``write`` is the schedule builder."""
    loop = Loop(write, request)
    loop.launches(0, request.next_n)
    for step in range(request.steps):
        if step:
            request.context_lens.add_(1)
        loop.launches(1 + step, 1)
    request.context_lens.add_(1)
    loop.launches(1 + request.steps, request.next_n)
    return done(request.buffers)


class Loop:
    """Publishes what each launch of a draft loop reads: after the reindex, and whenever lengths advance."""

    def __init__(self, write: Write, request: asked.DraftLoop) -> None:
        self._write = write
        self._asked = request
        whole, parts = len(request.context_lens), request.parts
        step = whole // parts
        self._bounds = [part * step for part in range(parts)] + [whole]

    def launches(self, step: int, next_n: int) -> None:
        """Publish for every micro-batch, as one prepares a step; then launch them."""
        ready = [self._published(step, part, next_n) for part in range(self._asked.parts)]
        for one in ready:
            self._asked.launch(one)

    def _published(self, step: int, part: int, next_n: int) -> asked.Launched:
        lengths = self._asked.context_lens[self._bounds[part] : self._bounds[part + 1]]
        schedule = self._asked.buffers[part][: entries(next_n, len(lengths))]
        self._write(lengths, next_n, self._asked.max_seq_len, schedule)
        return asked.Launched(step, part, schedule, lengths, next_n)


def backends(request: asked.Backends) -> base.Outcome:
    """Calls publish on every in-tree backend and looks at the buffer."""
    lengths, blank = torch.tensor([300], dtype=torch.int32), torch.full((512, 4), -1, dtype=torch.int32)
    rows = []
    for backend in BACKENDS:
        buffer = blank.clone()
        answers = getattr(backend(write_decode), "publish", None)
        if answers is not None:
            answers(lengths, 1, 512, buffer)
        rows.append((answers is not None, not torch.equal(buffer, blank), backend.scores_fp4))
    value = tuple(torch.tensor(column) for column in zip(*rows, strict=True))
    names = [backend.__name__ for backend in BACKENDS]
    return base.Outcome(value, facts={"executor": "torch", "backends": names})
