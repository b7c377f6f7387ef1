"""A writer case as a request: rows, slots, positions, and buffers that hold something already.

Everything to be written holds noise before, so a byte that is written though it must not be shows
wherever it is. With padding rows, page 0 and the last page are live and nobody's to write (a padding
value of 0 or a slot of -1 that wraps lands there); one page in between always is. Inputs of even seeds
have gaps between their rows, queries between their heads too, and no two tables have the same.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import fill_writer, noise, pages
from harness.paths.requests.writing import WriteTokens
from oracles import layout, prepare

POSITIONS = 4096
"""Rows of the cos and sin tables."""
NONSENSE = (1 << 30, -5, POSITIONS, 17)
"""Positions of rows without a slot, in turn."""
PADDED = 1 << 30
"""Position of padding rows."""
EDGE_ROWS = (0, 1, 2, 15, 16, 17, 63)
"""Page rows that are written first (field report B11)."""
EPSILON = 1e-6


def build(case: Case) -> WriteTokens:
    """The request of a case: ``case.r`` rows, every fifth without a slot, and ``case.p`` padding rows."""
    rows = case.r + case.p
    slots, blocks = slots_of(case)
    positions = positions_of(case, slots)
    clamped = torch.where(slots < 0, positions.clamp(0, POSITIONS - 1), positions)
    drawn = fill_writer.fill(case.f, fill_writer.Asked(case.h, clamped, case.s))
    weights = noise.gaussian(case.s, "writer/weights", (rows, case.h)).bfloat16()
    if case.f == "special":
        weights.view(-1)[::5] = torch.tensor([torch.nan, torch.inf, -0.0]).bfloat16()[case.s % 3]
    cos, sin = tables()
    if case.s % 2 == 0:
        weights, k, q = gapped(weights, 16), gapped(drawn.k, 64), gapped_queries(drawn.q)
        cos, sin = gapped(cos, 32), gapped(sin, 96)
    else:
        k, q = drawn.k, drawn.q
    sizes = (
        (rows, case.h, case.d // 2),
        (rows, 1, 4, 16, layout.tile_pad(case.h)),
        (rows, 2 * case.h),
        (blocks, 1, 4, pages.PAGE, 16),
        (blocks, 1, 4, pages.PAGE),
    )
    before = [noise.octets(case.s, f"writer/before/{place}", size) for place, size in enumerate(sizes)]
    before[2] = before[2].view(torch.bfloat16)
    return WriteTokens(
        q, k, weights, drawn.norm_weight, drawn.norm_bias, cos, sin, positions,
        slots, EPSILON, case.d**-0.5 * case.h**-0.5, case.pair, bool(case.all), *before,
    )  # fmt: skip


def slots_of(case: Case) -> tuple[Tensor, int]:
    """(slots int64 [T], pages of the pool); see the module's words for which pages stay untouched."""
    used = max(2, 2 * -(-case.r // pages.PAGE))
    live = 1 if case.p else 0
    blocks = used + 1 + 2 * live
    middle = live + 1 + case.s % (used - 1)
    mine = torch.tensor([page for page in range(live, blocks - live) if page != middle])
    row = noise.permutation(case.s, "writer/slots", used * pages.PAGE)
    edge = torch.isin(row % pages.PAGE, torch.tensor(EDGE_ROWS))
    row = torch.cat((row[edge][: len(EDGE_ROWS)], row[~edge], row[edge][len(EDGE_ROWS) :]))[: case.r]
    slots = mine[row // pages.PAGE] * pages.PAGE + row % pages.PAGE
    turn = torch.arange(case.r)
    slots = torch.where(turn % 5 == 3, -1 - turn % 2, slots)
    return torch.cat((slots, torch.full((case.p,), -1))), blocks


def positions_of(case: Case, slots: Tensor) -> Tensor:
    """Positions int64 [T]: 0, 1 and 4095 in turn, and any; nonsense where there is no slot."""
    row = torch.arange(len(slots))
    kinds = torch.tensor([0, 1, POSITIONS - 1])[row % 3]
    drawn = noise.below(case.s, "writer/positions", (len(slots),), POSITIONS)
    held = kinds if case.f == "onehot" else torch.where(row % 4 == 3, drawn, kinds)
    skipped = torch.where(row < case.r, torch.tensor(NONSENSE)[row // 5 % len(NONSENSE)], PADDED)
    return torch.where(slots < 0, skipped, held)


@cache
def tables() -> tuple[Tensor, Tensor]:
    return prepare.rope_tables(POSITIONS)


def gapped_queries(q: Tensor) -> Tensor:
    """``q`` [T, H, D] with 16 NaNs after each head and 128 more after each row."""
    rows, heads, _ = q.shape
    apart = gapped(q.flatten(0, 1), 16)
    stride = heads * apart.stride(0) + 128
    whole = torch.full((rows, stride), torch.nan, dtype=q.dtype)
    made = whole.as_strided(q.shape, (stride, apart.stride(0), 1))
    made.copy_(q)
    return made


def gapped(tensor: Tensor, gap: int) -> Tensor:
    """``tensor`` [T, N] with ``gap`` NaNs after each row."""
    rows, columns = tensor.shape
    whole = torch.full((rows, columns + gap), torch.nan, dtype=tensor.dtype)
    whole[:, :columns] = tensor
    return whole[:, :columns]
