"""What is true of exact scores, their proof and their bound, of the functions and their scalar twins."""

from __future__ import annotations

import math
import random

import pytest
import torch

from oracles import cells, operands, score
from oracles.operands import Operands
from oracles.scalar import score as scalar
from oracles.score import Tree
from oracles.trees import TREES
from suites.self.score_cases import bits, edge, make, scalar_scores


def relu_case(weights: tuple[float, float], values: tuple[float, float]) -> Operands:
    """Two heads of sixteen with the given weights and dots (the others weigh nothing)."""
    case = make(0, rows=1, keys=1, weight_scale=1.0)
    case.q_codes.zero_()
    case.k_codes.zero_()
    case.k_codes[0, 0] = 2
    case.q_scales.fill_(127)
    case.k_scales.fill_(127)
    case.weights.zero_()
    code = {-3.0: 13, 2.0: 4, 1.0: 2}
    for head in (0, 1):
        case.q_codes[0, head, 0] = code[values[head]]
        case.weights[0, head] = weights[head]
    return case


@pytest.mark.parametrize(
    ("weights", "values", "want"), [((1, 1), (-3.0, 2.0), 2.0), ((1, -1), (1.0, 2.0), -1.0)], ids=str
)
def test_relu_comes_before_the_weights_and_the_sum(
    weights: tuple[float, float], values: tuple[float, float], want: float
) -> None:
    """Field report B28: without ReLU or with ReLU after the sum these give -1, 0, -1, 0."""
    case = relu_case(weights, values)
    assert score.exact(case).value.item() == want and score.exact(case).proven.all()
    assert score.ordered(case, "decode").item() == score.ordered(case, "prefill").item() == want


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize("heads", (16, 64))
def test_proven_rows_come_out_the_same_in_every_order(heads: int, columns: int) -> None:
    """Both trees, a loop, a loop backwards, and the real value: one set of bits."""
    case = make(heads, heads=heads, keys=30, columns=columns, scales=(126, 129))
    found = score.exact(case)
    assert found.proven.all()
    backwards = Tree(
        "back", lambda heads: (tuple(range(heads - 1, -1, -1)),), 0, scale="before", step="rounded"
    )
    for tree in ("decode", "prefill", Tree("loop", score.one_chain, 0, "after", "fused"), backwards):
        assert bits(score.ordered(case, tree)) == bits(found.value)
    assert bits(found.value) == bits(scalar_scores(scalar.exact_score, case, score.dot_products(case)))


@pytest.mark.parametrize("seed", range(30))
def test_a_proof_is_never_wrong(seed: int) -> None:
    """Fills around the limit: what is proven is representable by the twin's largest unit, and in budget."""
    chance = random.Random(seed)
    low = chance.randrange(110, 130)
    case = make(
        seed,
        heads=chance.choice((16, 32)),
        keys=6,
        scales=(low, low + chance.randrange(1, 8)),
        weights=chance.choice(("few", "one", "full")),
        weight_scale=chance.choice((0.125, 1.0, 3.0, 0.75, 0.011)),
        silence=chance.choice((0.0, 0.5, 0.9)),
    )
    products = score.dot_products(case)
    part = cells.rows(case.q_codes, case.q_scales, case.weights, case.weight_scale)
    found = cells.exact_cells(part, operands.side(case.k_codes, case.k_scales))
    possible = scalar_scores(scalar.representable, case, products).bool()
    assert not (found.proven & ~possible).any()
    assert not (found.proven & score.dot_budget(case).any(1)).any()
    want = scalar_scores(scalar.exact_score, case, products)
    assert bits(found.value[found.proven]) == bits(want[found.proven])
    assert found.value.isfinite().all() and bool(
        (found.value - want).abs().max() <= want.abs().max() * 2.0**-24
    )


def test_the_edge_of_the_proof() -> None:
    """One head of dot 4608 * 3073 quarters = 2^23.75: weight 1 is proven, weight 1.25 is not."""
    for weight, proven in ((1.0, True), (2.0, True), (1.25, False)):
        case = edge(10)
        case.weights.zero_()
        case.weights[0, 3] = weight
        assert score.exact(case).proven.tolist() == [proven]
    case = edge(10)
    case.weights[0, 2:] = 0  # two heads: one bit too many
    assert score.exact(case).proven.tolist() == [False]


def test_what_is_over_budget_is_not_proven_however_small() -> None:
    """Small codes fit into 24 bits at any spread up to 16; the matrix instruction is not trusted with it."""
    for spread, proven in ((10, True), (11, False)):
        case = edge(spread)
        case.q_codes.fill_(1)
        case.k_codes.fill_(1)
        case.weights[0, 1:] = 0
        assert score.exact(case).proven.tolist() == [proven]


@pytest.mark.parametrize("scale", (0.0, -1.0, math.inf, math.nan, 2.0**-149, 1e-30))
def test_scales_that_prove_nothing(scale: float) -> None:
    """Zero, negative (sign of zero), not finite, subnormal, full significand."""
    assert not score.exact(make(1, scales=(126, 129), weight_scale=scale)).proven.any()


def test_weights_that_are_not_finite_prove_nothing() -> None:
    case = make(1, rows=3, scales=(126, 129))
    case.weights[0, 0], case.weights[1, 0] = math.inf, math.nan
    assert score.exact(case).proven.tolist() == [False, False, True]


def test_an_all_zero_score_is_plus_zero_and_proven() -> None:
    case = make(1)
    case.weights.fill_(-1.0)
    case.q_codes.zero_()
    found = score.exact(case)
    assert found.value.view(torch.int32).tolist() == [[0] * 5] * 2 and found.proven.all()
    for tree in TREES:
        assert score.ordered(case, tree).view(torch.int32).tolist() == [[0] * 5] * 2


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize("scales", [(124, 131), (90, 160), (0, 40)], ids=str)
def test_the_bound_holds_for_every_tree_and_is_not_idle(scales: tuple[int, int], columns: int) -> None:
    case = make(7, heads=64, keys=40, columns=columns, scales=scales, weights="full", weight_scale=0.011)
    bound = score.bounded(case, score.longest_chain(64, columns))
    for tree in TREES:
        error = (score.ordered(case, tree).double() - bound.exact).abs()
        assert bool((error <= bound.allowed).all())
    if scales[0] > 40:
        assert float((bound.allowed / bound.exact.abs()).median()) < 1e-2


def test_the_bound_of_nan_is_nan() -> None:
    case = make(8)
    case.k_scales[2, 0] = 255
    found = score.bounded(case, 100)
    assert found.exact.isnan().any(0).tolist() == [False, False, True, False, False]
    assert found.allowed.isnan().tolist() == found.exact.isnan().tolist()


def test_operands_of_the_wrong_shape_are_refused() -> None:
    case = make(1)
    with pytest.raises(ValueError, match=r"k_scales has shape \[5, 3\], allowed is \[5, 4\]"):
        Operands(case.q_codes, case.q_scales, case.k_codes, case.k_scales[:, :3], case.weights, 1.0)
    with pytest.raises(ValueError, match="q_codes has 64 columns, allowed are multiples of 128"):
        Operands(case.q_codes[..., :64], case.q_scales, case.k_codes, case.k_scales, case.weights, 1.0)
