"""Score matrices for the top-k, made directly: what selects well on them selects well on anything.

A selection by digits has its hard rows where most digits agree (`narrow`, `plateau`) and its wrong ones
where two patterns mean one number (zeros of both signs) or a legal score looks like padding (minus
infinity): Gaussian scores show none of that. Nothing here depends on windows, so that one matrix serves
rows of any length.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.case.lists.topk import FILLS
from harness.fill import noise

NARROW = 0x3F900000
"""Bits of 1.125, the base of `narrow` scores."""
LEVELS = (-3.5, -1.0, 0.0, 0.25, 1.0, 1.0000001, 7.0)
SPECIAL = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0xFF800000, 0x80000000, 0x00000000, 0x33800000,
)  # fmt: skip
"""Bit patterns of `special` scores; minus infinity and the zeros twice, so that they tie at the cut."""
NANS = (0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF)


def scores(name: str, rows: int, width: int, seed: int) -> Tensor:
    """float32 [rows, width] of fill ``name``. Raises ValueError on a name not in `FILLS`."""
    if name not in MAKERS:
        raise ValueError(f"fill is {name!r}, allowed are {', '.join(FILLS)}")
    return MAKERS[name](rows, width, seed)


def from_bits(patterns: Tensor) -> Tensor:
    """float32 of bit patterns int64 0..2^32-1."""
    return (
        torch.where(patterns >= 1 << 31, patterns - (1 << 32), patterns).to(torch.int32).view(torch.float32)
    )


def _orders(rows: int, width: int, seed: int) -> Tensor:
    """A permutation of the columns for each row, int64 [rows, width]."""
    return torch.stack([noise.permutation(seed, f"order {row}", width) for row in range(rows)])


def _distinct(rows: int, width: int, seed: int) -> Tensor:
    size = 2.0 ** (torch.arange(rows) % 5 - 2)
    return (_orders(rows, width, seed) - width // 2).float() * size[:, None]


def _ties(rows: int, width: int, seed: int) -> Tensor:
    return torch.tensor(LEVELS)[noise.below(seed, "level", (rows, width), len(LEVELS))]


def _plateau(rows: int, width: int, seed: int) -> Tensor:
    """Every third row is flat; in the others one key in 32 lies above its row's plateau, one below."""
    level = torch.tensor(LEVELS)[torch.arange(rows) % len(LEVELS)][:, None].expand(rows, width)
    chance = noise.below(seed, "off", (rows, width), 32)
    step = noise.below(seed, "step", (rows, width), 3).float() + 0.5
    moved = torch.where(chance == 0, level + step, torch.where(chance == 1, level - step, level))
    return torch.where((torch.arange(rows) % 3 == 1)[:, None], level, moved)


def _narrow(rows: int, width: int, seed: int) -> Tensor:
    """Consecutive numbers in any order; every third row has only two, its last bit 0 or 1; odd rows < 0."""
    order, row = _orders(rows, width, seed), torch.arange(rows)[:, None]
    low = torch.where(row % 3 == 2, order % 2, order)
    return from_bits(NARROW + low + (row % 2 << 31))


def _special(rows: int, width: int, seed: int) -> Tensor:
    return from_bits(torch.tensor(SPECIAL)[noise.below(seed, "special", (rows, width), len(SPECIAL))])


def _natural(rows: int, width: int, seed: int) -> Tensor:
    return noise.gaussian(seed, "scores", (rows, width))


def _nan(rows: int, width: int, seed: int) -> Tensor:
    lost = from_bits(torch.tensor(NANS)[noise.below(seed, "which", (rows, width), len(NANS))])
    return torch.where(noise.below(seed, "nan", (rows, width), 16) == 0, lost, _natural(rows, width, seed))


MAKERS: dict[str, Callable[[int, int, int], Tensor]] = {
    "distinct": _distinct,
    "ties": _ties,
    "plateau": _plateau,
    "narrow": _narrow,
    "special": _special,
    "natural": _natural,
    "nan": _nan,
}
