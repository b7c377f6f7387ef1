"""Fills that are values before they are codes: natural data, quantiser edges, raw bit patterns.

They go through ``oracles.formats.quantise`` (production rule) for the scoring suites, and are
handed to the quantise and write suites as they are. An all-zero group gets scale byte 1,
which leaves the exact budget of a whole row; so such groups appear only where nothing is
scored.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.fill import noise
from oracles import formats, prepare

GROUP = 32
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
MAXIMA = (6.0, 6.03125, 6.5, 7.0, 8.0, 12.0, 13.0)
"""Group maxima that tell the scale rules apart (field report B01)."""
QUIET = (0.0, 7e-6, 3e-5, 2.0**-126, 6 * 2.0**-126, 2.0**-133)
"""Group maxima around the floor of the scale (field report B03)."""


def quantised(values: Tensor) -> tuple[Tensor, Tensor]:
    """(codes uint8 [R, D], scales uint8 [R, D/32]) of ``values`` [R, D] under the production rule."""
    return formats.quantise(values, formats.PRODUCTION)


def natural_keys(keys: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Codes and scales of Gaussian keys after LayerNorm and RoPE, as the writer makes them."""
    return quantised(natural_key_values(keys, dim, seed))


def natural_key_values(keys: int, dim: int, seed: int) -> Tensor:
    """bfloat16 [L, D]."""
    raw = noise.gaussian(seed, "natural/k", (keys, dim)).bfloat16()
    weight = 1 + 0.1 * noise.gaussian(seed, "natural/norm", (dim,))
    bias = 0.1 * noise.gaussian(seed, "natural/bias", (dim,))
    return prepare.rotate(prepare.layer_norm(raw, weight, bias), torch.arange(keys))


def natural_queries(rows: int, heads: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """(codes uint8 [T, H, D], scales uint8 [T, H, D/32]) of Gaussian queries after RoPE."""
    raw = noise.gaussian(seed, "natural/q", (rows, heads, dim)).bfloat16()
    turned = prepare.rotate(raw, torch.arange(rows))
    codes, scales = quantised(turned.reshape(rows * heads, dim))
    return codes.reshape(rows, heads, dim), scales.reshape(rows, heads, dim // GROUP)


def boundary_values(
    rows: int,
    dim: int,
    seed: int,
    stream: str,
    exponents: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    quiet: bool = False,
) -> Tensor:
    """Groups at the edges of the quantiser, ``dtype`` [R, D].

    Each group draws an exponent k from ``exponents`` consecutive ones and one pattern: all
    midpoints, maximum 6 * 2^k one ulp up or down, negatives that round to -0, all codes, a
    maximum of `MAXIMA`; with ``quiet`` also a maximum of `QUIET` (zero included).
    """
    count = rows * dim // GROUP
    exponent = noise.below(seed, stream + "/exponent", (count, 1), exponents) - exponents // 2
    pattern = noise.below(seed, stream + "/pattern", (count,), 7 if quiet else 6)
    noisy = (noise.uniform(seed, stream + "/values", (count, GROUP)) * 11.5 - 5.75).float()
    values = torch.stack([made.expand(count, GROUP) for made in _patterns(noisy, seed, stream, dtype)])
    chosen = values[pattern.clamp(max=5), torch.arange(count)] * torch.exp2(exponent.float())
    if quiet:
        loudest = torch.tensor(QUIET)[noise.below(seed, stream + "/quiet", (count, 1), len(QUIET))]
        chosen = torch.where((pattern == 6)[:, None], noisy.sign() * loudest, chosen)
    turned = torch.gather(chosen, 1, _turns(count, seed, stream))
    return turned.to(dtype).reshape(rows, dim)


def _patterns(noisy: Tensor, seed: int, stream: str, dtype: torch.dtype) -> list[Tensor]:
    """The six patterns before scaling and turning, each float32 [count or 1, 32]."""
    signed = torch.tensor([*MIDPOINTS, *(-m for m in MIDPOINTS)])
    midpoints = torch.cat([signed, signed, torch.tensor([6.0, -0.0, 0.0, -6.0])])
    six = torch.tensor(6.0, dtype=dtype)
    step = torch.finfo(dtype).eps * 4
    negatives = torch.cat([torch.tensor([6.0]), -torch.linspace(0.0, 0.25, GROUP - 1)])
    codes = torch.tensor([*GRID, *(-g for g in GRID)]).repeat(2)
    maximum = torch.tensor(MAXIMA)[noise.below(seed, stream + "/maximum", (noisy.shape[0],), len(MAXIMA))]
    up, down, drawn = noisy.clone(), noisy.clone(), noisy.clone()
    up[:, 0], down[:, 0], drawn[:, 0] = float(six) + step, float(six) - step, maximum
    return [midpoints, up, down, negatives, codes, drawn]


def _turns(count: int, seed: int, stream: str) -> Tensor:
    """A rotation of the 32 places for every group, so that no pattern sits at a fixed nibble."""
    turn = noise.below(seed, stream + "/turn", (count, 1), GROUP)
    return (torch.arange(GROUP) + turn) % GROUP


def values(name: str, rows: int, dim: int, seed: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Quantiser input of fill ``name`` (natural, boundary, bytes, wide), ``dtype`` [R, D]."""
    if name == "natural":
        return noise.gaussian(seed, "values", (rows, dim)).to(dtype)
    if name == "boundary":
        return boundary_values(rows, dim, seed, "values", 40, dtype=dtype, quiet=True)
    if name == "bytes":
        return _exact_values(rows, dim, seed).to(dtype)
    if name == "wide":
        return _any_bits(rows, dim, seed, dtype)
    raise ValueError(f"fill is {name!r}, allowed for values are natural, boundary, bytes, wide")


def _exact_values(rows: int, dim: int, seed: int) -> Tensor:
    """Values that are codes times a power of two already; every group holds a 4 or a 6."""
    codes = noise.octets(seed, "exact", (rows, dim)) & 15
    codes[:, ::GROUP] = codes[:, ::GROUP] & 8 | 7
    scale = noise.below(seed, "exact/scale", (rows, dim // GROUP), 60) - 30
    return formats.decode(formats.E2M1, codes) * torch.exp2(scale.float()).repeat_interleave(GROUP, dim=1)


def _any_bits(rows: int, dim: int, seed: int, dtype: torch.dtype) -> Tensor:
    """Any bit pattern of ``dtype``, one exponent window a group; a few groups with NaN or infinity."""
    base = noise.below(seed, "any/base", (rows, dim // GROUP, 1), 250)
    exponent = (base + noise.below(seed, "any/exponent", (rows, dim // GROUP, GROUP), 6)).clamp(0, 254)
    exponent[noise.octets(seed, "any/special", (rows, dim // GROUP, GROUP)) < 1] = 255
    bits = noise.below(seed, "any/bits", (rows, dim // GROUP, GROUP), 1 << 24)
    sign, mantissa = bits >> 23, bits & ((1 << 23) - 1)
    mantissa[noise.octets(seed, "any/infinite", tuple(bits.shape)) < 128] &= 0x7F0000
    mantissa[exponent == 255] &= 0x400000
    word = sign << 31 | exponent << 23 | mantissa
    return (word - (word >> 31 << 32)).to(torch.int32).view(torch.float32).reshape(rows, dim).to(dtype)
