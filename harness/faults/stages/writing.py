"""Faults of the fused writer and of what it leaves alone: norm, rotation, weights, rows without a slot."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from harness.faults.fault import Fault, Plant
from harness.faults.written import How
from harness.paths.requests.writing import WriteTokens
from oracles import prepare
from oracles.formats import PRODUCTION

SPREAD = "writer-r4-h16-d128-pairneox-all0-p1-fspread-s1"
ALL = "writer-r4-h16-d128-pairneox-all1-p1-fspread-s1"
FULL = "writer-r3-h16-d128-pairneox-all0-p0-fspread-s1"
AT_ZERO = "writer-r1-h16-d128-pairneox-all0-p0-fspread-s1"
BOUNDARY = "writer-r3-h16-d128-pairneox-all0-p0-fboundary-s3"
NORM = "writer-r2-h16-d128-pairneox-all0-p0-ffp32norm-s11"
WRITE = "write-r4-h16-d128-fboundary-s1"
NO_PADDING = "write-r3-h16-d128-fboundary-s1"
SOURCE = "aiter: csrc/kernels/cache_kernels.cu, indexer_qk_rope_quant_and_cache"


def always_interleaved(pairing: str) -> str:
    return "interleaved"


def always_neox(pairing: str) -> str:
    return "neox"


def of_a_sample(request: WriteTokens, k: Tensor) -> Tensor:
    return prepare.layer_norm(
        k, request.norm_weight, request.norm_bias, eps=request.epsilon, variance="sample"
    )


def with_eps(eps: float) -> How:
    return How(
        normal=lambda request, k: prepare.layer_norm(k, request.norm_weight, request.norm_bias, eps=eps)
    )


def in_bfloat16(request: WriteTokens, k: Tensor) -> Tensor:
    weight, bias = (part.bfloat16().float() for part in (request.norm_weight, request.norm_bias))
    return prepare.layer_norm(k, weight, bias, eps=request.epsilon)


def folded(request: WriteTokens) -> Tensor:
    return request.weights.float() * request.weights_scale


def with_slot_only(slots: Tensor, every: bool) -> Tensor:
    return slots >= 0


def from_the_end(slots: Tensor, pool: int) -> Tensor:
    return torch.where(slots < 0, slots % pool, slots)


def first_slot(slots: Tensor, pool: int) -> Tensor:
    return slots.clamp(min=0)


def wrapped(positions: Tensor, table: int) -> Tensor:
    return positions % table


def fault(name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant) -> Fault:
    return Fault(name, "write", wrong, seen, weak, case, SOURCE, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "rope-interleaved",
        "dims 2i and 2i+1 are turned together, whatever pairing the model has",
        "sglang #30088, #30111, #13439, transformers #46842, ggml-org/llama.cpp #25407 (B08)",
        f"position 0 ({AT_ZERO}); models of that pairing",
        FULL,
        How(pairing=always_interleaved).in_fused,
    ),
    fault(
        "rope-neox",
        "dims i and i+32 are turned together, whatever pairing the model has",
        "sglang #30088, vllm-project/vllm-ascend #4641, ml-explore/mlx-lm #1431 (B08)",
        f"position 0; models of that pairing ({FULL})",
        FULL.replace("neox", "interleaved"),
        How(pairing=always_neox).in_fused,
    ),
    fault(
        "hadamard-query-only",
        "queries are rotated by a Hadamard matrix and keys are not",
        "ROCm/ATOM #1507, vllm #55459, sglang #34394 (B09)",
        "prompts below index_topk keys, where all are selected",
        AT_ZERO,
        How(turned=prepare.hadamard).in_fused,
    ),
    fault(
        "norm-population-eps",
        "the variance of the LayerNorm is that of a sample, divided by D - 1",
        "fault catalogue",
        "natural data: 1/256 of a deviation moves few codes",
        BOUNDARY,
        How(normal=of_a_sample).in_fused,
    ),
    fault(
        "norm-eps",
        "the LayerNorm's eps is 1e-5 instead of 1e-6",
        "fault catalogue",
        f"keys with a deviation of 1 ({BOUNDARY})",
        NORM,
        with_eps(1e-5).in_fused,
    ),
    fault(
        "norm-bf16",
        "weight and bias of the LayerNorm are rounded to bfloat16",
        "ROCm/aiter #3451, vllm #43907 (B04)",
        f"parameters that bfloat16 holds ({BOUNDARY})",
        NORM,
        How(normal=in_bfloat16).in_fused,
    ),
    fault(
        "query-scale-floor",
        "queries have another scale rule than keys: rounded down to a power of two",
        "ROCm/aiter #3451, vllm #43907 (B04)",
        "keys and cache bytes, which are right",
        FULL,
        How(query_rule=replace(PRODUCTION, scale="floor")).in_fused,
    ),
    fault(
        "weights-scaled-by-writer",
        "the head weights leave the writer with the weight scale in them, which the scorer applies again",
        "sglang #13459, vllm #43907 (B10)",
        "cosine and order of the scores",
        AT_ZERO,
        How(weights=folded).in_fused,
    ),
    fault(
        "pad-row-garbage",
        "rows without a slot are skipped whole although queries and weights of all rows are wanted",
        "ROCm/aiter #5066, ROCm/ATOM #2216 (B16)",
        f"full batches ({FULL.replace('all0', 'all1')})",
        ALL,
        How(rows=with_slot_only).in_fused,
    ),
    fault(
        "pad-row-weights",
        "rows without a slot get queries and no weights although both are wanted of all rows",
        "ROCm/aiter #5066 (B16)",
        f"full batches ({FULL.replace('all0', 'all1')})",
        ALL,
        How(spared=("weights_out",)).in_fused,
    ),
    fault(
        "position-wraps",
        "positions of rows without a slot are taken modulo the table instead of clamped into it",
        "ROCm/aiter #3235 (B15)",
        f"full batches ({FULL.replace('all0', 'all1')})",
        ALL,
        How(place=wrapped).in_fused,
    ),
    fault(
        "rows-past-the-slots",
        "more rows than slots are taken, and what lies behind the slots is used as one",
        "ROCm/aiter #3235 (B15)",
        f"one slot a row ({FULL})",
        SPREAD,
        How(refuses=False).in_fused,
    ),
    fault(
        "slot-negative-write",
        "a slot of -1 wraps to the end of the pool",
        "fault catalogue",
        f"full batches ({NO_PADDING}); caches with a spare page",
        WRITE,
        How(slots=from_the_end).in_writers,
    ),
    fault(
        "padding-slot-zero",
        "rows without a slot are written to slot 0, which is a real one",
        "ROCm/ATOM #2008 (B17)",
        f"full batches ({NO_PADDING}); a block 0 that nobody uses",
        WRITE,
        How(slots=first_slot).in_writers,
    ),
)
