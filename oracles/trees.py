"""The order in which a kernel adds up its heads: trees as values, and running one.

Contract: a tree is a set of chains of heads, how the chains' results combine, where the weight
scale goes and whether a step is fused. Every chain starts from +0. It fails silently by a unit
in the last place here and there, which a tolerance would swallow: two kernels with the same
terms in another order agree to 1e-7 and not in bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.fma import fma_wide

Chains = tuple[tuple[int, ...], ...]
Node = int | tuple["Node", "Node"]
"""A chain's number, or the sum of two nodes."""

SCALES = ("after", "before")
"""after: the total is multiplied by the weight scale; before: each weight is, rounded to float32."""
STEPS = ("rounded", "fused")
"""rounded: the product is rounded, then added; fused: one rounding (fma)."""


@dataclass(frozen=True)
class Tree:
    """``chains(heads)`` lists each chain's heads in order; ``combine`` adds the chains' results."""

    name: str
    chains: Callable[[int], Chains]
    combine: Node
    scale: str
    step: str

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"scale is {self.scale!r}, allowed are {', '.join(SCALES)}")
        if self.step not in STEPS:
            raise ValueError(f"step is {self.step!r}, allowed are {', '.join(STEPS)}")


def lane_groups(heads: int) -> Chains:
    """Four chains: lane group g owns heads 16*mi + 4*g + i, in the order of mi, then i (numerics.md)."""
    return tuple(
        tuple(16 * tile + 4 * group + i for tile in range(heads // 16) for i in range(4))
        for group in range(4)
    )


def one_chain(heads: int) -> Chains:
    """A plain loop over the heads (combine with node 0)."""
    return (tuple(range(heads)),)


TREES = {
    "decode": Tree("decode", lane_groups, ((0, 1), (2, 3)), scale="after", step="rounded"),
    "prefill": Tree("prefill", lane_groups, ((0, 1), (2, 3)), scale="before", step="fused"),
}
"""The declared trees of the two production kernels."""


def find(tree: str | Tree) -> Tree:
    """The tree itself, or the one of that name; ValueError for an unknown name."""
    if isinstance(tree, Tree):
        return tree
    if tree not in TREES:
        raise ValueError(f"tree is {tree!r}, allowed are {', '.join(TREES)} or a Tree")
    return TREES[tree]


def run(tree: Tree, relu: Tensor, weights: Tensor, weight_scale: float) -> Tensor:
    """Scores float32 [R, L] of ``relu`` float32 [R, H, L] and ``weights`` float32 [R, H] under ``tree``."""
    scale = torch.tensor(weight_scale, dtype=torch.float32, device=relu.device)
    if tree.scale == "before":
        weights = weights * scale
    accumulate = _rounded if tree.step == "rounded" else _fused
    chains = tree.chains(relu.shape[1])
    result = _combined(tree.combine, accumulate(chains, relu, weights.unsqueeze(-1)))
    return result * scale if tree.scale == "after" else result


def _combined(node: Node, results: Sequence[Tensor]) -> Tensor:
    if isinstance(node, int):
        return results[node]
    return _combined(node[0], results) + _combined(node[1], results)


def _rounded(chains: Chains, relu: Tensor, weights: Tensor) -> list[Tensor]:
    """acc = acc + (relu * w) along every chain at once; float32 [R, L] a chain."""
    total = relu.new_zeros(relu.shape[0], len(chains), relu.shape[2])
    product = torch.empty_like(total)
    for heads, active in _steps(chains):
        part = product[:, : total[:, active].shape[1]]
        torch.mul(relu[:, heads], weights[:, heads], out=part)
        total[:, active] += part
    return list(total.unbind(1))


def _fused(chains: Chains, relu: Tensor, weights: Tensor) -> list[Tensor]:
    """acc = fma(relu, w, acc) along every chain at once; operands float32, held as float64."""
    wide, weights = relu.double(), weights.double()
    total = wide.new_zeros(relu.shape[0], len(chains), relu.shape[2])
    for heads, active in _steps(chains):
        total[:, active] = fma_wide(wide[:, heads], weights[:, heads], total[:, active]).double()
    return list(total.float().unbind(1))


def _steps(chains: Chains) -> list[tuple[slice | list[int], slice | list[int]]]:
    """For each step: the heads taken, and the chains that take them (the longer ones go on alone)."""
    steps = []
    for step in range(max(map(len, chains), default=0)):
        active = [number for number, chain in enumerate(chains) if len(chain) > step]
        steps.append((_slice([chains[number][step] for number in active]), _slice(active)))
    return steps


def _slice(places: list[int]) -> slice | list[int]:
    """An evenly spaced list as a slice, so that indexing makes no copy."""
    gaps = {after - before for before, after in itertools.pairwise(places)} or {1}
    gap = gaps.pop()
    return places if gaps or gap < 1 else slice(places[0], places[-1] + 1, gap)
