"""Operands for the tests of scores, and the scalar twins run over whole operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from oracles import score
from oracles.operands import Operands
from oracles.scalar import score as scalar


def bits(values: Tensor) -> list[int]:
    values = torch.where(values.isnan(), torch.nan, values.float())
    return values.contiguous().view(torch.int32).tolist()


def as_float32(values: list[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).float()


def make(
    seed: int,
    *,
    rows: int = 2,
    heads: int = 16,
    keys: int = 5,
    columns: int = 128,
    scales: tuple[int, int] = (124, 131),
    weights: str = "few",
    weight_scale: float = 0.125,
    silence: float = 0.0,
) -> Operands:
    """All codes, scale bytes in a half-open range; ``silence`` is the share of groups made all zero."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    def mute(codes: Tensor) -> Tensor:
        quiet = torch.rand(*codes.shape[:-1], columns // 32, 1, generator=generator) < silence
        zeros = draw(0, 2, *codes.shape) * 8  # +0 and -0
        return torch.where(quiet, zeros.unflatten(-1, (-1, 32)), codes.unflatten(-1, (-1, 32))).flatten(-2)

    groups = columns // 32
    chosen = {
        "few": draw(-2, 3, rows, heads).float(),
        "full": torch.randn(rows, heads, generator=generator),
        "one": torch.ones(rows, heads),
    }[weights]
    return Operands(
        mute(draw(0, 16, rows, heads, columns)).to(torch.uint8),
        draw(*scales, rows, heads, groups).to(torch.uint8),
        mute(draw(0, 16, keys, columns)).to(torch.uint8),
        draw(*scales, keys, groups).to(torch.uint8),
        chosen.bfloat16(),
        weight_scale,
    )


def pieces(case: Operands, row: int, head: int, key: int) -> tuple[list[int], ...]:
    return (
        case.q_codes[row, head].tolist(),
        case.q_scales[row, head].tolist(),
        case.k_codes[key].tolist(),
        case.k_scales[key].tolist(),
    )


def scalar_map(function: Callable[..., Any], case: Operands) -> list[Any]:
    """[T][H][L] of a scalar function of one dot's pieces."""
    rows, heads, _ = case.q_codes.shape
    keys = range(case.k_codes.shape[0])
    return [[[function(*pieces(case, r, h, t)) for t in keys] for h in range(heads)] for r in range(rows)]


def scalar_scores(function: Callable[..., Any], case: Operands, products: Tensor) -> Tensor:
    """[T, L] of a scalar function of one cell's dots, weights and scale."""
    scale = float(torch.tensor(case.weight_scale, dtype=torch.float32))
    rows, _, keys = products.shape
    weights = case.weights.float().tolist()
    return as_float32(
        [[function(products[r, :, t].tolist(), weights[r], scale) for t in range(keys)] for r in range(rows)]
    )


def dots_both(case: Operands) -> Tensor:
    products = score.dot_products(case)
    assert bits(products + 0.0) == bits(as_float32(scalar_map(scalar.dot, case)) + 0.0)  # zeros unsigned
    assert score.dot_budget(case).tolist() == scalar_map(scalar.over_budget, case)
    return products


def edge(spread: int, columns: int = 128) -> Operands:
    """All codes 6, group scales apart by ``spread``: the worst sum of the budget."""
    case = make(0, rows=1, keys=1, columns=columns, weights="one")
    case.q_codes.fill_(7)
    case.k_codes.fill_(7)
    case.q_scales.fill_(127 + spread // 2)
    case.k_scales.fill_(127 + spread - spread // 2)
    case.q_scales[..., 1], case.k_scales[..., 1] = 127, 127
    return case
