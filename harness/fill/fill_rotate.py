"""Fills of the V4 rotate-and-quantise kernels: rows bfloat16, no number of them subnormal.

Contract: a bfloat16 number below 2^-126 is taken to float32 by a shift, which no mode flushes, and what later
instructions do with it differs; so none is asked. ``walsh`` is what the transform takes to 6 and every
midpoint of E2M1, exactly where fl32(D^-0.5) is a power of two. Four bits hide the last bits of a sum, so
orders of additions look alike on most rows: ``cancel`` is there to tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.fill import noise
from harness.fill.fill_values import MIDPOINTS

LARGE = 2.0**22
GAP = 64
"""NaNs after each row of fill apart."""


@dataclass(frozen=True)
class Asked:
    """What a fill needs to know: rows T, heads H, columns D; ``hadamard``: whether they are transformed."""

    rows: int
    heads: int
    dim: int
    group: int
    hadamard: bool
    seed: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.rows, self.heads, self.dim


def fill(name: str, asked: Asked) -> Tensor:
    """x bfloat16 [T, H, D] of fill ``name``. Raises ValueError on a name that is none."""
    if name not in MAKERS:
        raise ValueError(f"fill is {name!r}, allowed for suite rotate are {', '.join(MAKERS)}")
    return MAKERS[name](asked)


def signs(dim: int, row: int) -> Tensor:
    """Row ``row`` of the Hadamard matrix, float32 [D] of +1 and -1."""
    column = torch.arange(dim)
    odd = torch.zeros(dim, dtype=torch.int64)
    both = column & row
    while bool(both.any()):
        odd, both = odd ^ (both & 1), both >> 1
    return 1.0 - 2.0 * odd.float()


def _natural(asked: Asked) -> Tensor:
    drawn = noise.gaussian(asked.seed, "rotate/x", asked.shape).bfloat16()
    return torch.where(drawn.abs() < 2.0**-30, torch.zeros_like(drawn), drawn)


def _spread(asked: Asked) -> Tensor:
    power = noise.below(asked.seed, "rotate/power", (*asked.shape[:2], asked.dim // 32), 12).float() - 4
    return (_natural(asked).float() * torch.exp2(power).repeat_interleave(32, -1)).bfloat16()


def _cancel(asked: Asked) -> Tensor:
    """Large numbers 32 apart: they meet when neighbours have been added, and cancel in half of the groups."""
    made = _natural(asked)
    made[..., 0], made[..., 32] = LARGE, -LARGE
    return made


def _whole(asked: Asked) -> Tensor:
    return (noise.below(asked.seed, "rotate/whole", asked.shape, 31) - 15).bfloat16()


def _walsh(asked: Asked) -> Tensor:
    row, head = torch.arange(asked.rows)[:, None], torch.arange(asked.heads)
    group = (row * asked.heads + head + asked.seed) % (asked.dim // asked.group)
    values = torch.tensor([6.0, *MIDPOINTS])
    wanted = torch.zeros(asked.shape)
    for place, value in enumerate(values.tolist()):
        column = group * asked.group + (place * 4 + row + head) % asked.group
        sign = 1.0 - 2.0 * ((row + head + place) % 2)
        wanted.scatter_(2, column[..., None], (value * sign)[..., None])
    if not asked.hadamard:
        return wanted.bfloat16()
    matrix = torch.stack([signs(asked.dim, column) for column in range(asked.dim)])
    return (wanted @ matrix).bfloat16()


def _onehot(asked: Asked) -> Tensor:
    row, head = torch.arange(asked.rows)[:, None], torch.arange(asked.heads)
    column = (row * asked.heads + head + asked.seed) % asked.dim
    value = torch.where((row + head) % 2 == 0, 1.0, -3.0)
    return torch.zeros(asked.shape).scatter(2, column[..., None], value[..., None]).bfloat16()


def _zero(asked: Asked) -> Tensor:
    lead = (*asked.shape[:2], asked.dim // 32)
    silent = noise.octets(asked.seed, "rotate/zero", lead).repeat_interleave(32, -1) < 150
    silent |= (torch.arange(asked.rows * asked.heads) % 5 == 1).view(asked.rows, asked.heads, 1)
    minus = noise.octets(asked.seed, "rotate/minus", asked.shape) < 128
    return torch.where(silent, torch.where(minus, -0.0, 0.0).bfloat16(), _natural(asked))


def _quiet(asked: Asked) -> Tensor:
    """Normal numbers 2^-126 to 2^-124, three of four bits of a significand."""
    power = noise.below(asked.seed, "rotate/power", asked.shape, 3).float() - 126
    plain = 1 + noise.below(asked.seed, "rotate/quiet", asked.shape, 8).float() / 8
    minus = noise.octets(asked.seed, "rotate/minus", asked.shape) < 128
    return (torch.where(minus, -plain, plain) * torch.exp2(power)).bfloat16()


def _apart(asked: Asked) -> Tensor:
    whole = torch.full((asked.rows, asked.heads, asked.dim + GAP), torch.nan, dtype=torch.bfloat16)
    whole[..., : asked.dim] = _natural(asked)
    return whole[..., : asked.dim]


MAKERS: Mapping[str, Callable[[Asked], Tensor]] = {
    "natural": _natural,
    "spread": _spread,
    "whole": _whole,
    "walsh": _walsh,
    "cancel": _cancel,
    "onehot": _onehot,
    "zero": _zero,
    "quiet": _quiet,
    "apart": _apart,
}
