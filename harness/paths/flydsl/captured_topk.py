"""The selection of a captured decode step: device operations alone, written where the caller says.

Contract: each row's k best visible columns, score descending, ties by position, -1 after the last; the
windows come from the lengths that lie at their address when it runs. Nothing outside a window is looked at:
a score buffer that a capture allocates holds there whatever the last replay left.
"""

from __future__ import annotations

import torch
from torch import Tensor


def select(scores: Tensor, context_lens: Tensor, next_n: int, selected: Tensor) -> None:
    """Write to ``selected`` int32 [T, k] what ``scores`` float32 [T, W] select; T = B * next_n rows."""
    rows, width = scores.shape
    row = torch.arange(rows, device=scores.device)
    end = context_lens.long()[row // next_n] - (next_n - 1 - row % next_n)
    hidden = torch.arange(width, device=scores.device) >= end[:, None]
    # Hidden columns come after all visible ones, so they are last among minus infinities too.
    order = scores.masked_fill(hidden, -torch.inf).argsort(dim=1, descending=True, stable=True)
    k = selected.shape[1]
    taken = order[:, :k]
    place = torch.arange(taken.shape[1], device=scores.device)
    selected.fill_(-1)
    selected[:, : taken.shape[1]] = torch.where(place < end[:, None], taken, -1)
