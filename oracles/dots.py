"""Dot products of scaled E2M1 vectors, exact and rounded once per k-tile, whatever the scales.

Contract: dot = fl32(exact sum of the first 128 columns), then fl32(exact sum of the next 128 +
what was accumulated), and so on: k-tiles run through the instruction's C operand in order.
Products are integers times 2^-2 and group sums stay below 4608 of them, so the exponents alone
say how many bits a sum can need; the arithmetic is chosen per block by that count. It fails
silently when the count is wrong by one bit, which only the widest scales show.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from oracles.fma import sum32
from oracles.formats import GROUP
from oracles.layout import GROUPS, K_TILE
from oracles.operands import Side

GROUP_UNITS = 4608
"""Largest group sum in units of 2^-2: 32 products of 6 * 6."""
BUDGET = {
    tiles: max(s for s in range(24) if GROUP_UNITS * ((GROUPS * tiles - 1) * 2**s + 1) <= 2**24)
    for tiles in range(1, 9)
}
"""Widest exponent spread that is exact in 24 bits, by k-tiles summed: 10 for one, 9 for two."""
WIDE_BUDGET = 36
"""The same for float64, with room for C and for eight k-tiles."""
UNIT = -2
"""A product of two E2M1 values is a multiple of 2^-2."""
LOWEST_UNIT = -126
"""Below this a sum can be a float32 subnormal, which matrix instructions need not keep."""
HIGHEST = 111
"""Above this exponent a sum can pass the largest float32: 4608 / 4 * 4 * K is below 2^16 for K <= 8."""


CACHED = 1 << 17
"""Dots held at once where many passes go over them; a matter of speed alone."""
Choose = Callable[[Tensor, Tensor], Tensor]


def dots(q: Side, k: Side) -> Tensor:
    """Dot products float32 [N, L] of every vector of ``q`` with every vector of ``k``."""
    if in_budget(q, k):
        result = q.scaled(torch.float32) @ k.scaled(torch.float32).T
    elif q.spread + k.spread <= WIDE_BUDGET:
        result = _in_float64(q, k)
    else:
        result = _by_groups(q, k)
    if q.any_nan or k.any_nan:
        result.masked_fill_(q.nan.unsqueeze(1) | k.nan, torch.nan)
    return result


def in_budget(q: Side, k: Side) -> bool:
    """Whether bounds alone show that every partial sum of every dot is an exact, normal float32."""
    ranged = q.least >= -62 and k.least >= -62 and q.most <= 55 and k.most <= 55  # operands too
    return ranged and q.spread + k.spread <= BUDGET[q.k_tiles]


def over_budget(q: Side, k: Side) -> Tensor:
    """Dots bool [N, L] outside the exact budget of the matrix instruction (spec numerics.md).

    True where some k-tile's sum, with what was accumulated before it, spreads over more
    exponents than `BUDGET`, or reaches float32 subnormals or the end of the range. NaN dots and
    all-zero groups do not count.
    """
    low, high = _end(q.low, k.low, torch.minimum), _end(q.high, k.high, torch.maximum)
    over = torch.zeros(low[0].shape, dtype=torch.bool, device=q.low.device)
    for tile, (least, most) in enumerate(zip(low, high, strict=True)):
        present = most >= least
        outside = (most - least > BUDGET[tile + 1]) | (least + UNIT < LOWEST_UNIT) | (most > HIGHEST)
        over |= present & outside
    return over


def _end(q: Tensor, k: Tensor, choose: Choose) -> list[Tensor]:
    """Smallest (largest) sum of exponents int16 [N, L] over the groups of k-tiles 0..j, for each j."""
    ends, end = [], None
    for group in range(q.shape[1]):
        total = q[:, group, None] + k[:, group]
        end = total if end is None else choose(end, total)
        if group % GROUPS == GROUPS - 1:
            ends.append(end.clone())
    return ends


def _in_float64(q: Side, k: Side) -> Tensor:
    """Every partial sum, C included, is exact in float64; narrowed once a k-tile."""
    left, right = q.scaled(torch.float64), k.scaled(torch.float64)
    result = None
    for first in range(0, left.shape[1], K_TILE):
        columns = slice(first, first + K_TILE)
        total = left[:, columns] @ right[:, columns].T
        result = (total if result is None else total + result.double()).float()
    return torch.zeros(()) if result is None else result


def _by_groups(q: Side, k: Side) -> Tensor:
    """A group's products share one exponent, so its sum is exact; the sum of groups is rounded once."""
    left, right = q.scaled(torch.float64), k.scaled(torch.float64)
    few = max(1, CACHED // len(left))
    return torch.cat([_groups_summed(left, part) for part in right.split(few)], 1)


def _groups_summed(left: Tensor, right: Tensor) -> Tensor:
    result = None
    for first in range(0, left.shape[1], K_TILE):
        groups = [slice(column, column + GROUP) for column in range(first, first + K_TILE, GROUP)]
        terms = [left[:, group] @ right[:, group].T for group in groups]
        if result is None:
            result = sum32(terms)
        else:
            carried = result.double()
            lost = carried.isinf()  # an overflow stays one: what is added is finite
            total = sum32([*terms, carried.masked_fill(lost, 0.0)])
            result = torch.where(lost, result, total)
    return torch.zeros(()) if result is None else result
