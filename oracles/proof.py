"""When every partial sum of a score, in any order, is a float32: the proof behind grade exact.

Contract: a cell is proven when its dots are within the matrix instruction's budget, all terms
of the sum over heads are multiples of one unit, and the sum of their magnitudes (times the odd
part of the weight scale) stays below 2^24 units, in the range of normal float32. Then neither
order nor fusing nor the place of the weight scale can change a bit. It fails silently when it
proves too much: two right kernels would then be called different.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oracles.dots import LOWEST_UNIT, UNIT
from oracles.formats import power_of_two
from oracles.operands import NOWHERE

BITS = 24
"""Significant bits of float32: integers below 2^24 units are exact."""
HIGHEST_BIT = 126


def proven_cells(bound: Tensor, unit: Tensor, weight_scale: float) -> Tensor:
    """Cells bool [R, L] whose terms sum to less than 2^24 units and stay in range.

    ``bound`` float32 [R, L] is the sum over heads of |w| * relu, computed in float32 (rounding is
    monotone, so a sum of 2^24 units or more cannot come out below); ``unit`` int [R, L] is the
    exponent of a unit that divides every term, `NOWHERE` and above when there are none.
    """
    odd, power = odd_part(weight_scale)
    if odd <= 0:
        return torch.zeros_like(bound, dtype=torch.bool)
    unit = unit.long()
    least = torch.minimum(unit, unit + power)
    limit = power_of_two((unit + BITS).clamp(-1000, 1000))
    small = bound.double() * odd < limit
    top = torch.maximum(unit, unit + power) + BITS
    return (bound == 0) | (small & (least >= LOWEST_UNIT) & (top <= HIGHEST_BIT))


def term_unit(head_unit: Tensor, low: Tensor) -> Tensor:
    """Exponent int16 [R, L] of a unit dividing every w * relu: smallest over groups of q, weight and key.

    ``head_unit`` int16 [R, G] from `head_units`; ``low`` int16 [L, G] of the keys.
    """
    unit = head_unit[:, 0, None] + low[:, 0]
    for group in range(1, low.shape[1]):
        unit = torch.minimum(unit, head_unit[:, group, None] + low[:, group])
    return unit + UNIT


def head_units(low: Tensor, weights: Tensor) -> Tensor:
    """Smallest over heads of q exponent + last bit of the weight, int16 [R, G].

    ``low`` int16 [R, H, G]; heads of weight zero contribute nothing.
    """
    last = last_bits(weights).unsqueeze(-1)  # [R, H, 1]
    return (low + last).amin(1).short()


def last_bits(weights: Tensor) -> Tensor:
    """Exponent int16 [...] of the lowest set bit of finite float32 ``weights`` [...], `NOWHERE` for zero."""
    mantissa, exponent = torch.frexp(weights.double())
    whole = (mantissa * 2.0**53).long()
    lowest = (whole & -whole).double()  # a power of two
    power = torch.frexp(lowest)[1] - 1 + exponent - 53
    return power.masked_fill(weights == 0, NOWHERE).short()


def provable_weights(weights: Tensor, weight_scale: float) -> Tensor:
    """Rows bool [R] whose weights are finite, and exact and normal if the scale goes into them first."""
    odd, power = odd_part(weight_scale)
    finite = weights.isfinite().all(1)
    last = last_bits(torch.nan_to_num(weights, posinf=0.0, neginf=0.0))
    top = weights.abs().amax(1).double() * abs(weight_scale)
    normal = (last + power >= LOWEST_UNIT).all(1) & (last >= LOWEST_UNIT).all(1)
    return finite & normal & (top < 2.0**HIGHEST_BIT) & (odd > 0)


def odd_part(weight_scale: float) -> tuple[int, int]:
    """(odd, power) with weight_scale = odd * 2^power; odd is 0 when it is not positive and finite.

    A negative scale is not provable: whether a zero score comes out as -0 depends on where it goes.
    """
    if not math.isfinite(weight_scale) or weight_scale <= 0:
        return 0, 0
    numerator, denominator = weight_scale.as_integer_ratio()
    trailing = (numerator & -numerator).bit_length() - 1
    return numerator >> trailing, trailing - denominator.bit_length() + 1
