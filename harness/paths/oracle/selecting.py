"""The oracle's selections; scores descending, ties by position, padding last."""

from __future__ import annotations

from torch import Tensor

from harness.paths import base
from harness.paths.requests.selecting import PlainTopK, SelectDecode, SelectPrefill
from oracles import topk, windows
from oracles.windows import Windows


def answers(path: base.Path) -> base.Answers:
    return {SelectDecode: decode, SelectPrefill: prefill, PlainTopK: plain}


def decode(request: SelectDecode) -> base.Outcome:
    return _selected(request, windows.decode_windows(request.context_lens, request.next_n))


def prefill(request: SelectPrefill) -> base.Outcome:
    nobody = request.row_start.new_zeros(request.row_start.shape)
    return _selected(request, windows.prefill_windows(nobody, request.row_start, request.row_end))


def plain(request: PlainTopK) -> base.Outcome:
    rows, width = request.scores.shape
    whole = windows.decode_windows(request.scores.new_full((rows,), width).int(), 1)
    return base.Outcome(topk.topk(numbers(request.scores), whole, request.k, stable=True).ids)


def _selected(request: SelectDecode | SelectPrefill, seen: Windows) -> base.Outcome:
    chosen = topk.topk(numbers(request.logits), seen, request.k, request.stable)
    request.ids.copy_(chosen.ids)
    return base.Outcome(request.ids)


def numbers(scores: Tensor) -> Tensor:
    """``scores`` with NaNs above all numbers by sign, which is one of the orders left open."""
    lost = scores.isnan()
    return scores.masked_fill(lost, float("inf")) if bool(lost.any()) else scores
