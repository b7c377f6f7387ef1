"""Faults of the scorers: what is made of the dot products of a row and a key, and where it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Fault, Plant
from harness.faults.plants import asking
from harness.faults.scored import (
    computed,
    in_scorers,
    on_planes,
    tree_of,
    under,
)
from harness.paths.requests.scoring import Planes, PrefillScores, VarqlenScores
from oracles import layout, trees
from oracles.trees import Tree, one_chain

DECODE = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"
NATURAL = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fnatural-s1"
PREFILL = "prefill-h16-d128-ctx20-w0@3:12-c0-tshuffled-u0-l0-fnatural-s1"
TWO_TILES = "decode-n1-h16-d256-ctx20-tshuffled-u0-l0-fbytes-s1"
KERNELS = "aiter: ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py and pa_mqa_logits_fp4_prefill.py"
BENT = torch.tensor([layout.bent_row(row) for row in range(layout.PAGE_ROWS)])


def scales_at(planes: Planes, place: Tensor) -> dict[str, Tensor]:
    """The scale of page row r is read from ``place[r]`` of the scale plane, not from its bent row."""
    moved = planes.k_scales.clone()
    moved[..., BENT] = planes.k_scales[..., place]
    return {"k_scales": moved}


def next_tile(planes: Planes) -> dict[str, Tensor]:
    """Of the four scale bytes in a lane's dword, that of the tile of 16 keys after its own."""
    return scales_at(planes, BENT // 4 * 4 + (BENT + 1) % 4)


def next_head_tile(planes: Planes) -> dict[str, Tensor]:
    """Of the four scale bytes in a lane's dword, that of the tile of 16 heads after its own."""
    return {"q_scales": planes.q_scales.unflatten(4, (-1, 4)).roll(-1, 5).flatten(4).contiguous()}


def without_second_tile(planes: Planes) -> dict[str, Tensor]:
    """Zeros of a neutral scale in the place of all k-tiles but the first."""
    codes, scales = planes.k_codes.clone(), planes.k_scales.clone()
    codes[:, 1:], scales[:, 1:] = 0, 127
    return {"k_codes": codes, "k_scales": scales}


def relu_after_weight(request: Any, dots: Tensor, weights: Tensor, weight_scale: float) -> Tensor:
    """The products are rounded before they are compared with zero, so nothing is fused."""
    tree, scale = tree_of(request), torch.tensor(weight_scale, dtype=torch.float32)
    before = tree.scale == "before"
    terms = (dots * (weights * scale if before else weights).unsqueeze(-1)).clamp(min=0)
    plain = replace(tree, scale="after", step="rounded")
    return trees.run(plain, terms, torch.ones_like(weights), 1.0 if before else weight_scale)


def relu_after_sum(request: Any, dots: Tensor, weights: Tensor, weight_scale: float) -> Tensor:
    tree, scale = tree_of(request), torch.tensor(weight_scale, dtype=torch.float32)
    if tree.scale == "after":
        return trees.run(tree, dots, weights, 1.0).clamp(min=0) * scale
    return trees.run(tree, dots, weights, weight_scale).clamp(min=0)


def scaled_twice(request: Any, dots: Tensor, weights: Tensor, weight_scale: float) -> Tensor:
    tree, scale = tree_of(request), torch.tensor(weight_scale, dtype=torch.float32)
    if tree.scale == "after":
        return trees.run(tree, dots.clamp(min=0), weights, weight_scale) * scale
    return trees.run(tree, dots.clamp(min=0), weights * scale, weight_scale)


def other_end(tree: Tree) -> Tree:
    return replace(tree, scale="before" if tree.scale == "after" else "after")


def fault(
    name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant, source: str = KERNELS
) -> Fault:
    return Fault(name, "score", wrong, seen, weak, case, source, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "relu-missing",
        "the heads are added up without a ReLU",
        "1CatAI/1Cat-vLLM #250 (B28)",
        "positive dots",
        DECODE,
        in_scorers(computed(under(lambda tree: tree, relu=False))),
    ),
    fault(
        "relu-after-weight",
        "the ReLU comes after the head's weight, so that negative weights count for nothing",
        "1CatAI/1Cat-vLLM #250 (B28); fault catalogue",
        "positive weights",
        DECODE,
        in_scorers(computed(relu_after_weight)),
    ),
    fault(
        "relu-after-sum",
        "the ReLU comes after the sum over heads",
        "1CatAI/1Cat-vLLM #250 (B28)",
        "positive dots and weights",
        DECODE,
        in_scorers(computed(relu_after_sum)),
    ),
    fault(
        "opsel-wrong",
        "a key is scaled by the byte of another tile of 16 keys in the same dword",
        "fault catalogue; DeepGEMM #434 (B27)",
        "uniform scales",
        DECODE,
        in_scorers(on_planes(next_tile)),
    ),
    fault(
        "query-opsel-wrong",
        "a head is scaled by the byte of the next tile of 16 heads in the same dword",
        "fault catalogue; DeepGEMM #434 (B27)",
        "uniform scales",
        DECODE,
        in_scorers(on_planes(next_head_tile)),
    ),
    fault(
        "group-order",
        "a group of 32 columns is scaled by the byte of the group before it",
        "DeepGEMM #434 (B27): a hard-coded order gives the same garbage every time",
        "repetition; uniform scales",
        DECODE,
        in_scorers(on_planes(lambda planes: {"k_scales": planes.k_scales.roll(1, 2)})),
    ),
    fault(
        "k-tile-order",
        "of a head dim of 256 the two halves of a key are exchanged",
        "fault catalogue",
        f"a head dim of 128 ({DECODE})",
        TWO_TILES,
        in_scorers(
            on_planes(lambda planes: {"k_codes": planes.k_codes.flip(1), "k_scales": planes.k_scales.flip(1)})
        ),
    ),
    fault(
        "k-tile-dropped",
        "of a head dim of 256 the second half is left out",
        "fault catalogue",
        f"a head dim of 128 ({DECODE})",
        TWO_TILES,
        in_scorers(on_planes(without_second_tile)),
    ),
    fault(
        "weights-scaled-twice",
        "the weight scale is applied twice",
        "sglang #13459, vllm #43907 (B10)",
        "the order of keys and every measure without a scale: cosine > 0.99",
        NATURAL,
        in_scorers(computed(scaled_twice)),
    ),
    fault(
        "weights-unscaled",
        "the weight scale is never applied",
        "sglang #13459, vllm #43907 (B10)",
        "the order of keys and every measure without a scale: cosine > 0.99",
        NATURAL,
        in_scorers(asking(lambda request: replace(request, weight_scale=1.0))),
    ),
    fault(
        "head-scale-lost",
        "the weight scale lacks its factor of one over the root of the number of heads",
        "sglang #13459, vllm #43907 (B10)",
        "the order of keys and every measure without a scale: cosine > 0.99",
        NATURAL,
        in_scorers(
            asking(
                lambda request: replace(
                    request, weight_scale=request.weight_scale * request.planes.heads**0.5
                )
            )
        ),
        "ATOM: model_ops, the indexer's weights_scale",
    ),
    fault(
        "additions-in-one-chain",
        "the heads are added up one after the other, not in four chains",
        "numerics: the order of additions",
        f"sums that are exact in any order ({DECODE}); any tolerance, such as allclose 5e-2",
        PREFILL,
        in_scorers(computed(under(lambda tree: replace(tree, chains=one_chain, combine=0)))),
    ),
    fault(
        "weight-scale-order",
        "the weight scale comes in at the other end of the sum: before it in decode, after it in prefill",
        "numerics: the order of additions",
        f"a weight scale that is a power of two ({DECODE}); any tolerance, such as allclose 5e-2",
        NATURAL,
        in_scorers(computed(under(other_end))),
    ),
    fault(
        "product-rounded",
        "a product is rounded before it is added, where prefill adds it in one step",
        "numerics: the order of additions",
        f"decode, which rounds both ({NATURAL}); any tolerance, such as allclose 5e-2",
        PREFILL,
        in_scorers(
            computed(under(lambda tree: replace(tree, step="rounded"))), (PrefillScores, VarqlenScores)
        ),
    ),
)
