"""What is true of ordered scores: they follow the declared tree to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from oracles import score
from oracles.scalar import fma
from oracles.scalar import score as scalar
from oracles.score import Tree, lane_groups
from suites.self.score_cases import bits, make, scalar_scores


@pytest.mark.parametrize("columns", (128, 256))
@pytest.mark.parametrize("scales", [(124, 131), (0, 256)], ids=str)
@pytest.mark.parametrize(
    ("tree", "twin"),
    [
        ("decode", scalar.decode_score),
        ("prefill", scalar.prefill_score),
        (Tree("loop", score.one_chain, 0, scale="after", step="rounded"), scalar.one_chain_score),
    ],
    ids=["decode", "prefill", "loop"],
)
def test_ordered_scores_follow_the_tree(
    tree: str | Tree, twin: Callable[..., Any], scales: tuple[int, int], columns: int
) -> None:
    """Full bf16 weights of both signs and a scale that is no power of two."""
    for heads in (16, 48):
        case = make(
            heads, heads=heads, keys=8, columns=columns, scales=scales, weights="full", weight_scale=0.011
        )
        want = scalar_scores(twin, case, score.dot_products(case))
        assert bits(score.ordered(case, tree)) == bits(want)


def test_trees_differ_from_each_other() -> None:
    """Otherwise a test of order proves nothing."""
    case = make(1, heads=64, keys=50, weights="full", weight_scale=0.011)
    loop = Tree("loop", score.one_chain, 0, scale="after", step="rounded")
    skewed = Tree("skewed", lane_groups, (((0, 1), 2), 3), scale="after", step="rounded")
    maps = [score.ordered(case, tree) for tree in ("decode", "prefill", loop, skewed)]
    for one, two in itertools.combinations(maps, 2):
        assert int((one != two).sum()) > 0


def test_lane_groups_own_four_heads_in_sixteen() -> None:
    """numerics.md: lane group g owns heads 16*mi + 4*g + i."""
    assert lane_groups(32)[1] == (4, 5, 6, 7, 20, 21, 22, 23)
    assert sorted(itertools.chain(*lane_groups(128))) == list(range(128))


def test_chains_of_unequal_length_are_run_to_their_ends() -> None:
    """A declared tree may be anything: here heads 0-9 alone, then 10-15 backwards."""
    uneven = Tree(
        "uneven", lambda heads: (tuple(range(10)), tuple(range(15, 9, -1))), (0, 1), "after", "rounded"
    )
    case = make(2, keys=7, weights="full")

    def twin(values: list[float], weights: list[float], scale: float) -> float:
        first = scalar.one_chain_score(values[:10], weights[:10], 1.0)
        second = scalar.one_chain_score(values[:9:-1], weights[:9:-1], 1.0)
        return fma.multiply(fma.add(first, second), scale)

    assert bits(score.ordered(case, uneven)) == bits(scalar_scores(twin, case, score.dot_products(case)))


def test_unknown_trees_and_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="tree is 'random', allowed are decode, prefill or a Tree"):
        score.ordered(make(1), "random")
    with pytest.raises(ValueError, match="step is 'twice'"):
        Tree("x", lane_groups, 0, scale="after", step="twice")
    with pytest.raises(ValueError, match="scale is 'never'"):
        Tree("x", lane_groups, 0, scale="never", step="fused")
