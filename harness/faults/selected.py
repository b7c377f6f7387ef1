"""A top-k with one wrong rule, wherever a path selects keys.

Contract: a `Rule` is given scores, windows and k and says what is selected; that goes to the caller's buffer,
which is the value. It holds for both forms of the request and for the selection of a captured step, where
ties go to the smallest position. Cells outside the windows are looked at by wrong rules alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from harness.faults.fault import Answer, Wrong
from harness.paths.base import Outcome
from harness.paths.requests.replaying import Eager, Replay
from harness.paths.requests.selecting import SelectDecode, SelectPrefill
from oracles import topk
from oracles.topk import PAD
from oracles.windows import Windows, decode_windows, prefill_windows, visible

Rule = Callable[[Tensor, Windows, int, bool], Tensor]
"""From (scores float32 [T, W], windows, k, whether ties go to the smallest position) to ids int64 [T, k]."""
Request = SelectDecode | SelectPrefill


def wherever_selected(rule: Rule) -> dict[type, Wrong]:
    """``rule`` in every request that selects."""
    return {
        SelectDecode: partial(_selected, rule),
        SelectPrefill: partial(_selected, rule),
        Replay: partial(_in_a_step, rule),
        Eager: partial(_in_a_step, rule),
    }


def windows_of(request: Request) -> Windows:
    if isinstance(request, SelectDecode):
        return decode_windows(request.context_lens, request.next_n)
    nobody = torch.zeros_like(request.row_start)
    return prefill_windows(nobody, request.row_start, request.row_end)


def _selected(rule: Rule, request: Request, right: Answer) -> Outcome:
    made = rule(request.logits, windows_of(request), request.k, request.stable)
    return Outcome(request.ids.copy_(made))


def _in_a_step(rule: Rule, request: Replay | Eager, right: Answer) -> Outcome:
    outcome, step = right(request), request.step
    rows = decode_windows(step.context_lens, step.next_n)
    step.selected.copy_(rule(step.out, rows, step.selected.shape[1], True))
    return outcome


def right_ids(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """What is to be selected, scores descending, ties by position; NaNs rank as infinities."""
    return topk.topk(scores.masked_fill(scores.isnan(), torch.inf), rows, k, stable).ids


def packed_rows(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """Rows are taken to lie as far apart as they are wide."""
    return right_ids(scores.as_strided(scores.shape, (scores.shape[1], 1)), rows, k, stable)


def rounded(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """Scores are compared in half precision."""
    return right_ids(scores.half().float(), rows, k, stable)


def signed_zeros(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """-0 ranks below 0, as the integers of their bits do."""
    negative = (scores == 0) & scores.signbit()
    return right_ids(scores.double().masked_fill(negative, -5e-324), rows, k, stable)


def ties_to_the_last(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """Equal scores go to the largest positions."""
    width = scores.shape[1]
    turned = Windows(rows.seq, width - rows.end, width - rows.start)
    ids = right_ids(scores.flip(1), turned, k, True)
    return torch.where(ids >= 0, width - 1 - ids, PAD)


def infinite_padding(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """A visible score of minus infinity is taken for a column outside."""
    ids = right_ids(scores, rows, k, stable)
    return ids.masked_fill(scores.gather(1, ids.clamp(min=0)) == -torch.inf, PAD)


def short_rows_ranked(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """Rows of at most k keys are ranked too, and keys whose score is NaN are lost."""
    ids = right_ids(scores, rows, k, stable)
    short = (rows.end - rows.start)[:, None] <= k
    return ids.masked_fill(short & scores.gather(1, ids.clamp(min=0)).isnan(), PAD)


def tie_doubled(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
    """Where equal scores lie on both sides of the cut, one key is taken twice and one not at all."""
    ids = right_ids(scores, rows, k, stable)
    if k < 2:
        return ids
    seen = visible(rows, scores.shape[1])
    taken = scores.gather(1, ids.clamp(min=0))
    level = ((scores == taken[:, -1:]) & seen).sum(1) > (taken == taken[:, -1:]).sum(1)
    full = (ids[:, -1] >= 0) & (taken[:, -1] == taken[:, -2]) & level
    ids[full, -1] = ids[full, -2]
    return ids


def bypassed(most: int) -> Rule:
    """Rows of at most ``most`` keys take their first k."""

    def rule(scores: Tensor, rows: Windows, k: int, stable: bool) -> Tensor:
        ids = right_ids(scores, rows, k, stable)
        first = rows.start[:, None] + torch.arange(k)
        return torch.where(((rows.end - rows.start)[:, None] <= most) & (ids >= 0), first, ids)

    return rule
