"""Schedules and windows in plain torch, from spec indexer.md 4 and 5, on the device of their inputs.

A schedule says which workgroup (slot) scores which chunks of 256 columns of which row. Contract:
every chunk a row sees is in one slot. A schedule that is too short leaves scores as the buffer
held them and nothing else shows it, so too few slots are refused here, before a launch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.paths.flydsl.abi import BLOCK_K

IDLE_DECODE = (0, 0, 1, 0)
IDLE_PREFILL = (0, 0, 0, 1, 0, 0)


def decode_schedule(context_lens: Tensor, *, units: int, next_n: int, max_seq_len: int) -> Tensor:
    """int32 [units, 4] (row, first chunk, chunk count, context length) from ``context_lens`` int32 [B].

    Slots in the order of sequences, each for the ``next_n`` rows in turn; the rest idle. Raises
    ValueError when ``units`` is no multiple of ``next_n`` or leaves a sequence without a slot.
    """
    sequences = context_lens.shape[0]
    if not 1 <= next_n <= 8:
        raise ValueError(f"next_n is {next_n}, allowed are 1 to 8")
    if units % next_n:
        raise ValueError(f"units is {units}, allowed are multiples of next_n, {next_n}")
    if units // next_n < sequences:
        raise ValueError(f"units is {units}, allowed are at least {sequences * next_n}, one a row")
    chunks = chunk_counts(context_lens)
    size = split_size(chunks, units // next_n, max_seq_len)
    sequence, first, count = split(chunks, size, units // next_n)
    slots = torch.stack([sequence * next_n, first, count, context_lens.long()[sequence]], dim=1)
    entries = slots.repeat_interleave(next_n, dim=0)
    entries[:, 0] += torch.arange(next_n, device=entries.device).repeat(len(slots))
    return padded(entries, units, IDLE_DECODE)


def prefill_schedule(
    row_seq: Tensor, row_start: Tensor, row_end: Tensor, *, units: int, max_seq_len: int
) -> Tensor:
    """int32 [units, 6] (row, sequence, first chunk, chunk count, start, end) from windows int32 [T].

    Chunks count from column 0 whatever the start. Raises ValueError when ``units`` < T.
    """
    rows = row_seq.shape[0]
    if units < rows:
        raise ValueError(f"units is {units}, allowed are at least {rows}, one a row")
    chunks = chunk_counts(row_end)
    row, first, count = split(chunks, split_size(chunks, units, max_seq_len), units)
    facts = [fact.long()[row] for fact in (row_seq, row_start, row_end)]
    return padded(torch.stack([row, facts[0], first, count, *facts[1:]], dim=1), units, IDLE_PREFILL)


def chunk_counts(lengths: Tensor) -> Tensor:
    """Chunks that hold ``lengths`` columns, int64."""
    return (lengths.long().clamp(min=0) + BLOCK_K - 1) // BLOCK_K


def widest(max_seq_len: int) -> int:
    """Chunks of the longest row there may be, at least 1."""
    return max(1, -(-max_seq_len // BLOCK_K))


def split_size(chunks: Tensor, slots: int, max_seq_len: int) -> int:
    """Smallest number of chunks a slot must take for ``slots`` to hold all; else the longest row's."""
    for size in range(1, widest(max_seq_len) + 1):
        if int(((chunks + size - 1) // size).sum()) <= slots:
            return size
    return max(1, int(chunks.max()))


def split(chunks: Tensor, size: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """(row, first chunk, chunk count), int64 each, of slots that take ``size`` chunks of each row in turn.

    Raises ValueError when they are more than ``slots``.
    """
    parts = (chunks + size - 1) // size
    needed = int(parts.sum())
    if needed > slots:
        raise ValueError(f"units leaves {slots} slots, allowed are at least {needed} for these lengths")
    row = torch.repeat_interleave(torch.arange(len(chunks), device=chunks.device), parts)
    part = torch.arange(needed, device=chunks.device) - (parts.cumsum(0) - parts)[row]
    first = part * size
    return row, first, torch.minimum(chunks[row] - first, torch.full_like(first, size))


def padded(entries: Tensor, units: int, idle: tuple[int, ...]) -> Tensor:
    """``entries`` int64 [E, F] followed by idle ones, int32 [units, F]."""
    schedule = torch.tensor(idle, dtype=torch.int32, device=entries.device).repeat(units, 1)
    schedule[: len(entries)] = entries.to(torch.int32)
    return schedule


def varqlen_windows(cu_seq_q: Tensor, context_lens: Tensor, total_q: int) -> tuple[Tensor, Tensor, Tensor]:
    """(sequence, start, end), int32 [total_q] each, from cu_seq_q int32 [B+1] and context_lens int32 [B].

    The last row of a sequence sees its whole context, each row before it one key less. Rows
    past cu_seq_q[B] are padding: last sequence, empty window. Raises ValueError when cu_seq_q
    has another length, falls, or ends past ``total_q``.
    """
    sequences = context_lens.shape[0]
    if cu_seq_q.shape != (sequences + 1,):
        raise ValueError(
            f"cu_seq_q has {cu_seq_q.numel()} values, allowed are {sequences + 1}, one more than sequences"
        )
    counts = cu_seq_q.long().diff()
    used = int(cu_seq_q[-1])
    if int(cu_seq_q[0]) != 0 or bool((counts < 0).any()) or used > total_q:
        raise ValueError(f"cu_seq_q is no running sum from 0 to at most total_q, {total_q}")
    sequence = torch.full((total_q,), sequences - 1, dtype=torch.int64, device=cu_seq_q.device)
    sequence[:used] = torch.repeat_interleave(torch.arange(sequences, device=cu_seq_q.device), counts)
    row = torch.arange(total_q, device=cu_seq_q.device)
    later = cu_seq_q.long()[sequence + 1] - 1 - row
    end = torch.where(row < used, context_lens.long()[sequence] - later, 0).clamp(min=0)
    return sequence.int(), torch.zeros_like(sequence).int(), end.int()
