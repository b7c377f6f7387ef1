"""Fills of the fused writer: queries, keys and LayerNorm parameters whose outcome is known to the last bit.

Queries are exact under any fill. Keys go through a LayerNorm in float32, whose last bits depend on the
order of summation; so all fills but `natural` draw keys until each comes out the same in every order
(`decided`), or make them of +1 and -1, which normalise to themselves up to eps, times a weight that is
the value wanted. A fill that leaves near misses everywhere would accept them everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.case.lists.writer import FILLS
from harness.fill import fill_values, noise
from oracles.normalise import layer_norm_range

GROUP, DIM, ROPE_DIMS = 32, 128, 64
EXACT_UNDER_ROTATION = (7e-6, 3e-5)
"""Of `fill_values.QUIET`, the maxima whose products with any cosine are exact float32 numbers."""


DRAWS = 4
"""Times that more keys are drawn; about half of the spread ones are decided."""


@dataclass(frozen=True)
class Drawn:
    """q bfloat16 [T, H, D], k bfloat16 [T, D], norm_weight and norm_bias float32 [D]."""

    q: Tensor
    k: Tensor
    norm_weight: Tensor
    norm_bias: Tensor


@dataclass(frozen=True)
class Asked:
    """What a fill needs to know; positions int64 [T], those of rows without a slot clamped."""

    heads: int
    positions: Tensor
    seed: int

    @property
    def rows(self) -> int:
        return len(self.positions)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.rows, self.heads, DIM


def fill(name: str, asked: Asked) -> Drawn:
    """The operands of fill ``name``. Raises ValueError on a name not in `FILLS`."""
    if name not in MAKERS:
        raise ValueError(f"fill is {name!r}, allowed for the writer are {', '.join(FILLS)}")
    return MAKERS[name](asked)


def decided(draw: Callable[[int], Tensor], rows: int, weight: Tensor, bias: Tensor) -> Tensor:
    """``rows`` of the keys that ``draw(count)`` makes, all of them the same in every order of summation.

    Draws twice as many as long as too few are. Raises RuntimeError when hardly any is.
    """
    count = 2 * rows + 32
    for _ in range(DRAWS):
        drawn = draw(count)
        kept = drawn[~layer_norm_range(drawn, weight, bias).open.any(-1)]
        if len(kept) >= rows:
            return kept[:rows]
        count *= 2
    raise RuntimeError(f"only {len(kept)} of {len(drawn)} drawn keys have one right value, {rows} are needed")


def _parameters(seed: int) -> tuple[Tensor, Tensor]:
    weight = 1 + 0.1 * noise.gaussian(seed, "writer/norm", (DIM,))
    return weight, 0.1 * noise.gaussian(seed, "writer/bias", (DIM,))


def _natural(asked: Asked) -> Drawn:
    q = noise.gaussian(asked.seed, "writer/q", asked.shape).bfloat16()
    k = noise.gaussian(asked.seed, "writer/k", (asked.rows, DIM)).bfloat16()
    return Drawn(q, k, *_parameters(asked.seed))


def _spread(asked: Asked) -> Drawn:
    weight, bias = _parameters(asked.seed)

    def keys(count: int) -> Tensor:
        raw = noise.gaussian(asked.seed, "writer/k", (count, DIM))
        return (raw * _powers(asked.seed, "writer/k", (count,))).bfloat16()

    scaled = noise.gaussian(asked.seed, "writer/q", asked.shape)
    q = (scaled * _powers(asked.seed, "writer/q", asked.shape[:2])).bfloat16()
    return Drawn(q, decided(keys, asked.rows, weight, bias), weight, bias)


def _powers(seed: int, stream: str, lead: tuple[int, ...]) -> Tensor:
    """2^0 to 2^7, one for each group, float32 [*lead, D]."""
    power = noise.below(seed, stream + "/power", (*lead, DIM // GROUP), 8)
    return torch.exp2(power.float()).repeat_interleave(GROUP, dim=-1)


def signs(rows: int, seed: int) -> Tensor:
    """Keys of +1 and -1, as many of each, float32 [R, D]; every third row has one group of them and zeros.

    Mean 0 and variance 1 (or 1/4) without any rounding, so a value is its weight (or twice it) times
    1 - 5e-7, which bfloat16 rounds back to the weight.
    """
    half = torch.tensor([1.0, -1.0]).repeat(DIM // 2)
    turns = [noise.permutation(seed, f"writer/signs/{row}", DIM) for row in range(rows)]
    made = torch.stack([half[turn] for turn in turns])
    for row in range(2, rows, 3):
        kept = slice(row // 3 % 4 * GROUP, (row // 3 % 4 + 1) * GROUP)
        order = noise.permutation(seed, f"writer/signs/{row}/group", GROUP)
        made[row] = 0
        made[row, kept] = half[:GROUP][order]
    return made


def _boundary(asked: Asked) -> Drawn:
    rows, heads, dim = asked.shape
    q = fill_values.boundary_values(rows * heads, dim, asked.seed, "writer/q", 40).reshape(asked.shape)
    weight = fill_values.boundary_values(1, dim, asked.seed, "writer/norm", 40)[0].float().abs()
    weight[-GROUP:] = torch.tensor([*fill_values.MIDPOINTS, 6.0] * 4) * 2.0 ** (asked.seed % 9 - 4)
    return Drawn(q, signs(rows, asked.seed).bfloat16(), weight, torch.zeros(dim))


def _zero(asked: Asked) -> Drawn:
    made = _natural(asked)
    lead = (asked.rows, asked.heads, DIM // GROUP)
    silent = noise.octets(asked.seed, "writer/zero", lead).repeat_interleave(GROUP, dim=-1)
    minus = noise.octets(asked.seed, "writer/minus", asked.shape) < 128
    zero = torch.where(minus, -0.0, 0.0).bfloat16()
    k = signs(asked.rows, asked.seed)
    k[1::3] = 3.0  # normalises to zero throughout
    return Drawn(torch.where(silent < 150, zero, made.q), k.bfloat16(), torch.ones(DIM), torch.zeros(DIM))


def _quiet(asked: Asked) -> Drawn:
    lead = (asked.rows, asked.heads, DIM // GROUP)
    loudest = torch.tensor(fill_values.QUIET)[
        noise.below(asked.seed, "writer/quiet", lead, len(fill_values.QUIET))
    ]
    rotated = torch.tensor(EXACT_UNDER_ROTATION)[noise.below(asked.seed, "writer/loud", lead, 2)]
    turns = (asked.positions != 0)[:, None, None] & (torch.arange(DIM // GROUP) < ROPE_DIMS // GROUP)
    size = torch.where(turns, rotated, loudest).repeat_interleave(GROUP, dim=-1)
    plus = noise.octets(asked.seed, "writer/sign", asked.shape) < 128
    quiet = torch.tensor((7e-6, 3e-5, 2.0**-126, 2.0**-125))
    weight = quiet.roll(asked.seed).repeat_interleave(GROUP).bfloat16().float()
    bias = torch.zeros(DIM)

    def keys(count: int) -> Tensor:
        low = torch.where(torch.arange(count) % 2 == 0, 2.0**-10, 1.0)  # a variance like eps, and 1
        return (signs(count, asked.seed) * low[:, None]).bfloat16()

    q = torch.where(plus, size, -size).bfloat16()
    return Drawn(q, decided(keys, asked.rows, weight, bias), weight, bias)


def _special(asked: Asked) -> Drawn:
    made = _spread(asked)
    drawn = noise.below(asked.seed, "writer/special", asked.shape, 300)
    chosen = torch.tensor([torch.nan, torch.inf, -torch.inf]).bfloat16()
    q = torch.where(drawn < 3, chosen[drawn.clamp(max=2)], made.q)
    k = made.k.clone()
    for first, value in enumerate(chosen.tolist()):
        k[4 + first :: 8, 5 * first + 64] = value
    return Drawn(q, k, made.norm_weight, made.norm_bias)


def _onehot(asked: Asked) -> Drawn:
    row, head = torch.arange(asked.rows)[:, None], torch.arange(asked.heads)
    dim = (row // 3 * asked.heads + head) % ROPE_DIMS
    value = torch.where((row + head) % 2 == 0, 1.0, -3.0)
    q = torch.zeros(asked.shape).scatter(2, dim[..., None], value[..., None])
    weight = torch.zeros(DIM)
    weight[asked.seed * 7 % ROPE_DIMS] = 1.0
    return Drawn(q.bfloat16(), signs(asked.rows, asked.seed).bfloat16(), weight, torch.zeros(DIM))


def _fp32norm(asked: Asked) -> Drawn:
    """Weight times root is 1 + u + t with t a bfloat16 number near 0.001 and u = 2^-12, the bias -1 - u.

    What is left of +1 is t. Neither weight nor bias is a bfloat16 number.
    """
    left = (0.001 + 0.0009 * noise.uniform(asked.seed, "writer/left", (DIM,))).bfloat16()
    more = 2.0**-12
    weight = ((left.double() + 1 + more) * (1 + 1e-6) ** 0.5).float()
    pairs = torch.tensor([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    plus = pairs[noise.below(asked.seed, "writer/pair", (asked.rows,), 6)]
    groups = torch.full((asked.rows, DIM // GROUP), -1.0).scatter(1, plus, 1.0)
    k = groups.repeat_interleave(GROUP, dim=1).bfloat16()
    return Drawn(_natural(asked).q, k, weight, torch.full((DIM,), -1.0 - more))


def _offset(asked: Asked) -> Drawn:
    """All columns of a key are M, but five or six are M + 1; M is 182 to 250, times 2^n.

    Sums, squares and centred squares are exact in any order. The square of the mean is not: it loses 25 or
    28 of 16384, where the variance is 5 * 123 or 6 * 122 of 16384, so their difference is off by 4 %.
    """
    weight, bias = _parameters(asked.seed)

    def keys(count: int) -> Tensor:
        level = 182.0 + noise.below(asked.seed, "writer/level", (count, 1), 69)
        raised = noise.octets(asked.seed, "writer/raised", (count, DIM)).argsort(dim=1, stable=True)
        power = torch.exp2(noise.below(asked.seed, "writer/power", (count, 1), 8) - 2.0)
        more = 5 + torch.arange(count)[:, None] % 2
        return ((level + (raised < more)) * power).bfloat16()

    return Drawn(_natural(asked).q, decided(keys, asked.rows, weight, bias), weight, bias)


MAKERS: Mapping[str, Callable[[Asked], Drawn]] = {
    "natural": _natural,
    "spread": _spread,
    "boundary": _boundary,
    "zero": _zero,
    "quiet": _quiet,
    "special": _special,
    "onehot": _onehot,
    "fp32norm": _fp32norm,
    "offset": _offset,
    "far": _spread,
    "slots32": _spread,
}
