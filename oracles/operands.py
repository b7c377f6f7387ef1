"""The operands of one set of scores, and each side of them prepared for exact arithmetic.

Contract: a side holds decoded codes and scale exponents apart, so that exactness can be judged
before anything is multiplied. Groups whose 32 codes are all zero have no exponent (their
products are zero whatever the scale); a scale byte of 255 makes the whole vector NaN. It fails
silently when a poisoned scale is read as 2^128 or a zero group widens the spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from oracles.formats import E2M1, E8M0_BIAS, E8M0_NAN, GROUP, decode, power_of_two
from oracles.layout import GROUPS, K_TILE

NOWHERE = 4096
"""Stands for the exponent of an all-zero group: above every minimum, below (negated) every maximum."""


@dataclass(frozen=True)
class Operands:
    """T rows of H heads against L keys: D columns, G = D/32 groups.

    q_codes uint8 [T, H, D]; q_scales uint8 [T, H, G]; k_codes uint8 [L, D]; k_scales uint8 [L, G];
    weights bfloat16 [T, H] (any float type whose values bfloat16 holds); weight_scale is rounded
    to float32. D is a multiple of 128.
    """

    q_codes: Tensor
    q_scales: Tensor
    k_codes: Tensor
    k_scales: Tensor
    weights: Tensor
    weight_scale: float

    def __post_init__(self) -> None:
        rows, heads, columns = self.q_codes.shape
        groups = columns // GROUP
        if columns % K_TILE:
            raise ValueError(f"q_codes has {columns} columns, allowed are multiples of {K_TILE}")
        _shape("q_scales", self.q_scales, (rows, heads, groups))
        _shape("k_codes", self.k_codes, (self.k_codes.shape[0], columns))
        _shape("k_scales", self.k_scales, (self.k_codes.shape[0], groups))
        _shape("weights", self.weights, (rows, heads))


def _shape(field: str, tensor: Tensor, wanted: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != wanted:
        raise ValueError(f"{field} has shape {list(tensor.shape)}, allowed is {list(wanted)}")


@dataclass(frozen=True)
class Side:
    """N vectors of D columns: what one operand of the dot products is made of.

    values float32 [N, D], the decoded codes; exponent int16 [N, G], scale byte - 127 (0 for NaN);
    low and high int16 [N, G], the same with `NOWHERE` and -`NOWHERE` for all-zero groups;
    nan bool [N]. ``least`` and ``most`` bound low and high, ``spread`` bounds high - low of a vector.
    """

    values: Tensor
    exponent: Tensor
    low: Tensor
    high: Tensor
    nan: Tensor
    least: int
    most: int
    spread: int
    any_nan: bool

    @property
    def groups(self) -> int:
        return self.exponent.shape[1]

    @property
    def k_tiles(self) -> int:
        return self.groups // GROUPS

    def scaled(self, dtype: torch.dtype) -> Tensor:
        """Values times 2^exponent in ``dtype`` [N, D]; exact where the range suffices."""
        factor = power_of_two(self.exponent).to(dtype).unsqueeze(-1)  # [N, G, 1]
        return (self.values.to(dtype).unflatten(1, (-1, GROUP)) * factor).flatten(1)


def side(codes: Tensor, scales: Tensor) -> Side:
    """Prepare ``codes`` uint8 [N, D] with ``scales`` uint8 [N, G]."""
    values = _values(codes)
    lost = scales == E8M0_NAN
    exponent = (scales.short() - E8M0_BIAS).masked_fill(lost, 0)
    nan = lost.any(1)
    silent = (values.unflatten(1, (-1, GROUP)).abs().amax(-1) == 0) | nan.unsqueeze(1)
    low, high = exponent.masked_fill(silent, NOWHERE), exponent.masked_fill(silent, -NOWHERE)
    spread = (high.amax(1) - low.amin(1)).amax() if len(codes) else torch.zeros(())
    return Side(
        values,
        exponent,
        low,
        high,
        nan,
        least=int(low.min()) if len(codes) else NOWHERE,
        most=int(high.max()) if len(codes) else -NOWHERE,
        spread=max(0, int(spread)),
        any_nan=bool(nan.any()),
    )


def _values(codes: Tensor) -> Tensor:
    table = _table(str(codes.device))
    return table[codes.int()] if codes.numel() else torch.zeros_like(codes, dtype=torch.float32)


@lru_cache
def _table(device: str) -> Tensor:
    """The sixteen values of E2M1 for every byte, float32 [256]; the high nibble is ignored."""
    return decode(E2M1, torch.arange(256, dtype=torch.uint8)).to(device)
