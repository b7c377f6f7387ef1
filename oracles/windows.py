"""Which keys each query row may see (spec indexer.md 4).

Contract: row r sees keys start <= t < end of its own sequence, and nothing else. It fails
silently by one key on either side, and only for N > 1: the newest draft row sees the whole
context, the ones before it lose one key each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """Sequence, first key and one past the last key of each row, int64 [T] each; empty when start >= end."""

    seq: Tensor
    start: Tensor
    end: Tensor

    def __post_init__(self) -> None:
        if not self.seq.shape == self.start.shape == self.end.shape or self.seq.dim() != 1:
            raise ValueError("windows has fields of unequal length, allowed are three vectors of one length")

    @property
    def rows(self) -> int:
        return self.seq.numel()


def prefill_windows(row_seq: Tensor, row_start: Tensor, row_end: Tensor) -> Windows:
    """Windows as given, int [T] each (the caller of the prefill scorer states them)."""
    return Windows(row_seq.long(), row_start.long(), row_end.long())


def decode_windows(context_lens: Tensor, next_n: int) -> Windows:
    """Row n of sequence b sees t < ctx[b] - (N-1-n); ``context_lens`` int [B], N = ``next_n``, T = B*N."""
    sequences = context_lens.numel()
    held_back = torch.arange(next_n - 1, -1, -1, device=context_lens.device)  # [N]
    end = (context_lens.long().unsqueeze(1) - held_back).clamp(min=0).flatten()
    seq = torch.arange(sequences, device=end.device).repeat_interleave(next_n)
    return Windows(seq, torch.zeros_like(end), end)


def varqlen_windows(cu_seq_q: Tensor, context_lens: Tensor, total_q: int) -> Windows:
    """As decode, with cu_seq_q[b+1] - cu_seq_q[b] rows for sequence b; ``cu_seq_q`` int [B+1].

    Rows from cu_seq_q[B] to ``total_q`` are padding: sequence B-1, empty window.
    """
    bounds, context = cu_seq_q.long(), context_lens.long()
    if bounds.numel() != context.numel() + 1 or bool((bounds.diff() < 0).any()):
        raise ValueError("cu_seq_q is not a running sum, allowed are B+1 values that never fall")
    if int(bounds[-1]) > total_q:
        raise ValueError(f"total_q is {total_q}, allowed are {int(bounds[-1])} and above")
    row = torch.arange(total_q, device=bounds.device)
    seq = torch.searchsorted(bounds[1:].contiguous(), row, right=True).clamp(max=context.numel() - 1)
    newer = bounds[seq + 1] - 1 - row  # rows of the same sequence after this one
    end = (context[seq] - newer).clamp(min=0).masked_fill(row >= bounds[-1], 0)
    return Windows(seq, torch.zeros_like(end), end)


def visible(windows: Windows, width: int) -> Tensor:
    """Mask bool [T, width]: true where the row's window holds the column."""
    column = torch.arange(width, device=windows.seq.device)
    return (column >= windows.start.unsqueeze(1)) & (column < windows.end.unsqueeze(1))
