"""Score requests that show how a scorer adds: one row a probe, one key, chosen terms.

Contract: a term is relu * weight of one head, exact by construction; the score of a probe is what is left of
its terms. Everything a probe does not speak about has a dot of zero. All values lie inside the exact budget
of the matrix instruction, but for those of `between_groups`, which ask what happens outside it. How it would
fail silently: a unit that M does not swallow looks like an addition after M was gone; M is therefore 2^60
units, and no scorer has 2^24 heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.paths.requests.scoring import DecodeScores, Planes, PrefillScores, VarqlenScores
from oracles import layout

KERNELS = ("decode", "prefill", "varqlen")
Request = DecodeScores | PrefillScores | VarqlenScores
ONE, NEUTRAL, GROUP, WIDTH = 2, 127, 32, 256
SWALLOW = 60
"""Exponent of M in units."""
FINE = 9
"""Exponent of the scales that make a dot of 22 bits."""
MOST = 512
"""Probes of one request."""


@dataclass(frozen=True)
class Operands:
    """q_codes uint8 [T, H, D], q_scales [T, H, G], k_codes [D], k_scales [G], weights float32 [T, H]."""

    q_codes: Tensor
    q_scales: Tensor
    k_codes: Tensor
    k_scales: Tensor
    weights: Tensor
    weight_scale: float = 1.0


def empty(rows: int, heads: int, dim: int) -> Operands:
    """Dots of zero, weights of one."""
    codes, groups = torch.zeros(rows, heads, dim, dtype=torch.uint8), dim // GROUP
    neutral = torch.full((rows, heads, groups), NEUTRAL, dtype=torch.uint8)
    return Operands(codes, neutral, codes[0, 0].clone(), neutral[0, 0].clone(), torch.ones(rows, heads))


def between_heads(pairs: Sequence[tuple[int, int]], heads: int, dim: int) -> Operands:
    """Row r: M in the first head of pair r, -M in the second, a unit in every other."""
    made = empty(len(pairs), heads, dim)
    made.q_codes[:, :, 0] = made.k_codes[0] = ONE
    for row, (first, second) in enumerate(pairs):
        made.weights[row, first], made.weights[row, second] = 2.0**SWALLOW, -(2.0**SWALLOW)
    return made


def between_groups(pairs: Sequence[tuple[int, int]], heads: int, dim: int) -> Operands:
    """Row r: M in the first group of 32 columns of pair r, -M in the second, a unit in each other; head 0."""
    made = empty(len(pairs), heads, dim)
    first_of = torch.arange(0, dim, GROUP)
    made.k_codes[first_of] = ONE
    made.q_codes[:, 0, first_of] = ONE
    for row, (first, second) in enumerate(pairs):
        made.q_scales[row, 0, [first, second]] = NEUTRAL + SWALLOW
        made.q_codes[row, 0, second * GROUP] = ONE + 8
    return made


def fused(first: int, second: int, heads: int, dim: int) -> Operands:
    """Row 0: -fl(p) in head ``first``, a product p that float32 cannot hold in ``second``; row 1: exchanged.

    What is left is 0 where products are rounded before they are added, and p - fl(p) = 2^-9 in the row
    whose p is added second where they are not.
    """
    made = empty(2, heads, dim)
    made.k_codes[:GROUP], made.k_codes[GROUP], made.k_codes[2 * GROUP] = 7, 1, 7
    for row, (rounded, product) in enumerate(((first, second), (second, first))):
        for head in (rounded, product):  # 1152 * 2^9 + 1/4
            made.q_codes[row, head, :GROUP], made.q_codes[row, head, GROUP] = 7, 1
            made.q_scales[row, head, [0, 2]] = NEUTRAL + FINE
        made.q_codes[row, rounded, 2 * GROUP] = 3  # and 9 * 2^9, which is p without its last bits
        made.weights[row, rounded], made.weights[row, product] = -1.0, 1.0 + 2.0**-7
    return made


LEFT = 2.0**-9
"""What `fused` leaves."""


def scaled(heads: int, dim: int) -> tuple[Operands, float, float]:
    """(operands, score with the weight scale applied to the sum, to each weight): one head, one product."""
    weight, scale = torch.tensor(1.0 + 2.0**-7), torch.tensor(0.1)
    for size in range(1, GROUP + 1):  # the first sum of so many 36s that tells the two apart
        relu = torch.tensor(36.0 * size + 0.25)
        after, before = (relu * weight) * scale, relu * (weight * scale)
        if after != before:
            break
    else:
        raise AssertionError("no product tells the two places of the weight scale apart")
    made = empty(1, heads, dim)
    made.k_codes[:size], made.k_codes[GROUP] = 7, 1
    made.q_codes[0, 0, :size], made.q_codes[0, 0, GROUP] = 7, 1
    made.weights[0, 0] = weight
    operands = Operands(made.q_codes, made.q_scales, made.k_codes, made.k_scales, made.weights, float(scale))
    return operands, float(after), float(before)


def requests(kernel: str, made: Operands) -> list[Request]:
    """What asks ``kernel`` for the scores of all rows against the one key, `MOST` rows at a time."""
    return [_request(kernel, made, slice(row, row + MOST)) for row in range(0, len(made.weights), MOST)]


def _request(kernel: str, made: Operands, rows: slice) -> Request:
    codes, scales, weights = made.q_codes[rows], made.q_scales[rows], made.weights[rows]
    count, dim = len(codes), codes.shape[2]
    k_codes = torch.zeros(1, dim // 128, 4, 64, 16, dtype=torch.uint8)
    k_scales = torch.full((1, dim // 128, 4, 64), NEUTRAL, dtype=torch.uint8)
    slot = torch.zeros(1, dtype=torch.int64)
    layout.write_keys(k_codes, k_scales, made.k_codes[None], made.k_scales[None], slot)
    batch = count if kernel == "decode" else 1
    planes = Planes(
        layout.pack_nibbles(codes),
        layout.write_query_scales(scales),
        k_codes,
        k_scales,
        torch.zeros(batch, 4, dtype=torch.int32),
        weights.bfloat16(),
    )
    one, scale = torch.ones(count, dtype=torch.int32), made.weight_scale
    if kernel == "decode":
        return DecodeScores(planes, one, 1, scale, WIDTH)
    if kernel == "prefill":
        zero = torch.zeros_like(one)
        return PrefillScores(planes, zero, zero.clone(), one, scale, WIDTH)
    # Rows of a sequence see one key fewer each than the next, so that all see the one key here only if
    # each is the newest of its own sequence.
    bounds, tables = torch.arange(count + 1, dtype=torch.int32), planes.block_tables.repeat(count, 1)
    own = Planes(planes.q_codes, planes.q_scales, k_codes, k_scales, tables, planes.weights)
    return VarqlenScores(own, bounds, one, scale, WIDTH)
