"""The `address` fill: a score whose bits spell which key, group and scale byte made it.

Group g of key t holds the base-4 digits of v = 2 * (t * G + g) + 1, one digit a dim, every
digit several times. Query row r looks at one group only: one head a digit, a single dim,
weight 4^j. So score = v * 2^(scale byte - 127): v is odd, hence the odd part of the score
names key and group and what is left of its exponent names the scale byte. Codes take all
sixteen values: a dim stores its digit as digit * {1/2, 1, 2} with a sign, and the query
undoes both. The other heads carry noise with weight zero.
Fails silently only past 4^MAX_DIGITS addresses, where addresses repeat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.fill import noise

GROUP = 32
MAX_DIGITS = 11
SCALE_BASE = 122
SCALE_COUNT = 7
QUERY_SCALE = 125
STEP_CODES = torch.tensor([[0, 1, 2, 3], [0, 2, 4, 5], [0, 4, 6, 7]], dtype=torch.uint8)
"""Codes of digits 0..3 times 1/2, times 1, times 2 (E2M1 magnitudes 0 .5 1 1.5 2 3 4 6)."""
INVERSE_CODES = torch.tensor([4, 2, 1], dtype=torch.uint8)
"""Codes of 2, 1, 1/2: what a query holds so that step times query is one."""


@dataclass(frozen=True)
class Address:
    """Global key (over all sequences), group of 32 and scale byte that a score spells."""

    key: int
    group: int
    scale: int


def digit_count(keys: int, dim: int) -> int:
    """Base-4 digits that hold every address of ``keys`` keys, at most `MAX_DIGITS`, at least 2."""
    largest = 2 * max(keys, 1) * (dim // GROUP)
    return max(2, min(MAX_DIGITS, -(-largest.bit_length() // 2)))


def make(
    rows: int, heads: int, dim: int, keys: int, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(q_codes [T,H,D], q_scales [T,H,G], k_codes [L,D], k_scales [L,G], weights bfloat16 [T,H])."""
    digits = digit_count(keys, dim)
    k_codes = _key_codes(keys, dim, digits)
    k_scales = scale_bytes(torch.arange(keys), dim)
    return *_queries(rows, heads, dim, digits, seed), k_codes, k_scales, _weights(rows, heads, digits, seed)


def scale_bytes(key: Tensor, dim: int) -> Tensor:
    """Scale bytes uint8 [L, G] of ``key`` int64 [L]: neighbours in row, tile, page and group differ."""
    group = torch.arange(dim // GROUP)
    return (
        SCALE_BASE + (key[:, None] + key[:, None] // 16 * 3 + key[:, None] // 64 + 2 * group) % SCALE_COUNT
    ).to(torch.uint8)


def decode(score: float, keys: int, dim: int) -> Address | None:
    """What ``score`` spells, or None when it is no address of a case of ``keys`` keys."""
    groups, digits = dim // GROUP, digit_count(keys, dim)
    if not math.isfinite(score) or score <= 0:
        return None
    fraction, exponent = math.frexp(score)
    odd = int(fraction * (1 << 24))
    exponent -= 24
    shift = (odd & -odd).bit_length() - 1
    odd, exponent = odd >> shift, exponent + shift
    if odd >= 4**digits or (odd - 1) // 2 >= keys * groups:
        return None
    return Address((odd - 1) // 2 // groups, (odd - 1) // 2 % groups, exponent + 127)


def _digit_of(dim: int, digits: int) -> Tensor:
    """Which digit each of the D dims holds, int64 [D]; shifted by group, so no two groups look alike."""
    place = torch.arange(dim)
    return (place % GROUP + 5 * (place // GROUP)) % digits


def _step_of(dim: int) -> Tensor:
    """Which row of `STEP_CODES` each dim uses, int64 [D]."""
    return torch.arange(dim) // 3 % 3


def _sign_of(dim: int) -> Tensor:
    """Sign bit (0 or 8) of each dim, uint8 [D]."""
    place = torch.arange(dim)
    return ((place ^ (place >> 1)) & 1).to(torch.uint8) * 8


def _key_codes(keys: int, dim: int, digits: int) -> Tensor:
    groups = dim // GROUP
    address = torch.arange(keys)[:, None] * groups + torch.arange(groups)  # [L, G]
    value = ((2 * address + 1) % 4**digits).to(torch.int32).repeat_interleave(GROUP, dim=1)  # [L, D]
    digit = (value >> (2 * _digit_of(dim, digits)).to(torch.int32)) & 3
    return STEP_CODES[_step_of(dim), digit.long()] | _sign_of(dim)


def _probe_heads(rows: int, heads: int, digits: int, seed: int) -> Tensor:
    """Which head carries digit j in row r, int64 [T, J]; another choice in every row."""
    return torch.argsort(noise.below(seed, "heads", (rows, heads), 1 << 30), dim=1, stable=True)[:, :digits]


def _head_scale(heads: int) -> Tensor:
    """Exponent above `QUERY_SCALE` of each head's scale byte, int64 [H]; tiles of 16 heads differ."""
    head = torch.arange(heads)
    return (head + head // 16) % 4


def _queries(rows: int, heads: int, dim: int, digits: int, seed: int) -> tuple[Tensor, Tensor]:
    groups = dim // GROUP
    codes = noise.octets(seed, "q", (rows, heads, dim)) & 15
    scales = (
        (QUERY_SCALE + _head_scale(heads))[None, :, None]
        .expand(rows, heads, groups)
        .to(torch.uint8)
        .contiguous()
    )
    probes = _probe_heads(rows, heads, digits, seed)
    codes.scatter_(
        1, probes[:, :, None].expand(rows, digits, dim), torch.zeros(rows, digits, dim, dtype=torch.uint8)
    )
    row = torch.arange(rows)[:, None]
    place = (row + seed) % groups * GROUP + _places(rows, dim, digits, seed)  # [T, J]
    codes[row, probes, place] = INVERSE_CODES[_step_of(dim)[place]] | _sign_of(dim)[place]
    return codes, scales


def _places(rows: int, dim: int, digits: int, seed: int) -> Tensor:
    """Which dim of the probed group row r reads digit j from, int64 [T, J]; copies take turns."""
    groups = dim // GROUP
    row, digit = torch.arange(rows)[:, None], torch.arange(digits)[None, :]
    first = (digit - 5 * ((row + seed) % groups)) % digits
    copies = (GROUP - 1 - first) // digits + 1
    return first + (row // groups + digit) % copies * digits


def _weights(rows: int, heads: int, digits: int, seed: int) -> Tensor:
    """4^j on the head of digit j, divided by that head's scale; zero elsewhere. bfloat16 [T, H]."""
    weights = torch.zeros(rows, heads)
    probes = _probe_heads(rows, heads, digits, seed)
    exponent = 2 * torch.arange(digits)[None, :] - _head_scale(heads)[probes] + 127 - QUERY_SCALE
    return weights.scatter(1, probes, torch.exp2(exponent.float())).bfloat16()
