"""Faults of the top-k: another window than the scorer's, another k, another order, padding that is a key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults import selected
from harness.faults.fault import Answer, Fault, Wrong
from harness.faults.plants import always, asking
from harness.faults.selected import wherever_selected
from harness.paths.base import Outcome
from harness.paths.requests.selecting import SelectDecode, SelectPrefill

DECODE = "aiter csrc/kernels/topk_per_row_kernels.cu: top_k_per_row_decode"
PREFILL = "aiter csrc/kernels/topk_per_row_kernels.cu: top_k_per_row_prefill"
CALLER = "ATOM atom/models/deepseek_v2.py: sparse_attn_indexer"
DEFAULT_K = 512
BYPASS = 2048


def from_column_0(request: SelectPrefill) -> SelectPrefill:
    return replace(request, row_start=torch.zeros_like(request.row_start))


def a_row_a_sequence(request: SelectDecode) -> SelectDecode:
    """All rows of a sequence see all of it."""
    return replace(request, context_lens=request.context_lens.repeat_interleave(request.next_n), next_n=1)


def one_longer(request: Any) -> Any:
    """The window's end is one column further, where there is one."""
    width = request.logits.shape[1]
    if isinstance(request, SelectDecode):
        return replace(request, context_lens=(request.context_lens + 1).clamp(max=width))
    return replace(request, row_end=(request.row_end + 1).clamp(max=width))


def in_place(change: Any) -> Wrong:
    """``change`` (request, ids) of what is in the caller's buffer."""

    def answer(request: Any, right: Answer) -> Outcome:
        outcome = right(request)
        request.ids.copy_(change(request, request.ids.clone()))
        return replace(outcome, value=request.ids)

    return answer


def from_the_window(request: SelectPrefill, ids: Tensor) -> Tensor:
    """Columns counted from the window's start."""
    return torch.where(ids >= 0, ids - request.row_start[:, None], ids)


def padded_with_0(request: Any, ids: Tensor) -> Tensor:
    return ids.clamp(min=0)


def default_k(request: Any, right: Answer) -> Outcome:
    """No more than the default's places are written."""
    if request.k <= DEFAULT_K:
        return right(request)
    ids = request.ids[:, :DEFAULT_K].contiguous()
    outcome = right(replace(request, k=DEFAULT_K, ids=ids))
    request.ids[:, :DEFAULT_K] = ids
    return replace(outcome, value=request.ids)


def both(wrong: Wrong) -> dict[type, Wrong]:
    return {SelectDecode: wrong, SelectPrefill: wrong}


PAIR = "topk-n1-ctx5,6-k3-stable0-l0-fdistinct-s1"
LATE = "topk-w0@2:8,0@3:9-k3-stable0-l0-fdistinct-s1"


def one(
    name: str, wrong: str, seen: str, weak: str, source: str, how: dict[type, Wrong], case: str = PAIR
) -> Fault:
    return Fault(name, "top-k", wrong, seen, weak, case, source, always(how))


FAULTS: tuple[Fault, ...] = (
    one(
        "topk-row-stride",
        "rows are taken to lie as far apart as they are wide, though the scorer pads them",
        "vllm #42169 (B35)",
        "one row; widths that are a multiple of 256",
        DECODE,
        wherever_selected(selected.packed_rows),
    ),
    one(
        "topk-start-ignored",
        "the top-k is not given where the windows start and selects from column 0",
        "sglang #12583 (B29)",
        "windows that start at 0",
        CALLER,
        {SelectPrefill: asking(from_column_0)},
        LATE,
    ),
    one(
        "topk-ids-from-window",
        "ids are counted from the start of the row's window, not from column 0",
        "neighbour of sglang #12583 (B29)",
        "windows that start at 0",
        PREFILL,
        {SelectPrefill: in_place(from_the_window)},
        LATE,
    ),
    one(
        "topk-window-one-longer",
        "the top-k's window ends a column after the scorer's, where the buffer holds anything",
        "vllm #33568, #50008, sglang #33247 (B32)",
        "buffers that hold minus infinity outside",
        CALLER,
        both(asking(one_longer)),
    ),
    one(
        "topk-ends-of-sequence",
        "all rows of a sequence select from the whole context, not each up to its own end",
        "ROCm/aiter #4661 (B38)",
        "N = 1; buffers that hold minus infinity outside",
        DECODE,
        {SelectDecode: asking(a_row_a_sequence)},
        "topk-n2-ctx5-k3-stable0-l0-fdistinct-s1",
    ),
    one(
        "topk-k-from-default",
        "a default of 512 keys overrides the checkpoint's, and the places after them are not written",
        "NVIDIA/TensorRT-LLM #14931 (B38)",
        "that all selected keys are right ones",
        "ATOM atom/models/deepseek_v2.py: Indexer, index_topk",
        both(default_k),
        "topk-n1-ctx515,514-k513-stable0-l0-fdistinct-s1",
    ),
    one(
        "topk-bypass-at-2048",
        "rows of up to 2048 keys take their first k whatever k is",
        "neighbour of NVIDIA/TensorRT-LLM #14931 (B38)",
        "k = 2048",
        CALLER,
        wherever_selected(selected.bypassed(BYPASS)),
    ),
    one(
        "topk-pads-with-0",
        "places that a short row has no key for hold 0, which is a key",
        "ROCm/ATOM #2008 (B17), ROCm/aiter #1567 (B35)",
        "rows of at least k keys; sets of ids",
        DECODE,
        both(in_place(padded_with_0)),
        "topk-n1-ctx5,2-k3-stable0-l0-fdistinct-s1",
    ),
    one(
        "topk-short-rows-ranked",
        "rows of at most k keys are ranked by score, and keys without a number are lost",
        "ROCm/aiter #4355, #1567 (B35)",
        "scores that are numbers",
        DECODE,
        wherever_selected(selected.short_rows_ranked),
        "topk-n1-ctx5,2-k3-stable0-l0-fdistinct-s1",
    ),
    one(
        "topk-tie-doubled",
        "of equal scores at the cut one key is taken twice and one not at all",
        "TensorRT-LLM #17550 (B64)",
        "the sorted values of what is selected",
        DECODE,
        wherever_selected(selected.tie_doubled),
        "topk-n1-ctx8,9-k4-stable0-l0-fplateau-s1",
    ),
    one(
        "topk-ties-to-last",
        "equal scores go to the largest positions though the smallest were asked for",
        "neighbour of merge-unstable",
        "scores without ties; sets up to ties",
        DECODE,
        wherever_selected(selected.ties_to_the_last),
        "topk-n1-ctx8,9-k4-stable1-l0-fplateau-s1",
    ),
    one(
        "topk-signed-zeros",
        "-0 ranks below 0, as the bits of floats do",
        "neighbour of relu-missing",
        "scores without zeros of both signs",
        DECODE,
        wherever_selected(selected.signed_zeros),
        "topk-n1-ctx60,61-k30-stable1-l0-fspecial-s1",
    ),
    one(
        "topk-infinite-padding",
        "a visible score of minus infinity is taken for a column outside the window",
        "neighbour of vllm #33568 (B32)",
        "finite scores",
        DECODE,
        wherever_selected(selected.infinite_padding),
        "topk-n1-ctx60,61-k58-stable0-l0-fspecial-s1",
    ),
    one(
        "topk-half-precision",
        "scores are rounded to half precision before they are compared",
        "vllm #52696 (B65)",
        "recall: 99.93 % of the keys are the same",
        DECODE,
        wherever_selected(selected.rounded),
        "topk-n1-ctx40,41-k20-stable0-l0-fnarrow-s1",
    ),
)
