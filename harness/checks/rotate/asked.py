"""A rotate case as a request: rows, positions, slots, and buffers that hold noise already.

A byte that is written though it must not be shows wherever it is: every fifth key has no slot, and pages
between those in use are nobody's. Every third position is 0, where RoPE is the identity.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.case.lists.rotate import POSITIONS
from harness.fill import fill_rotate, noise
from harness.paths.requests.rotating import RotateKeys, RotateQueries
from oracles import layout, prepare

EPSILON = 1e-6
Request = RotateQueries | RotateKeys


def build(case: Case) -> Request:
    """The request of a case."""
    drawn = fill_rotate.Asked(case.r, case.h, case.d, case.g, bool(case.had), case.s)
    x, positions = fill_rotate.fill(case.f, drawn), positions_of(case)
    cos, sin = tables(case.rope) if case.rope else (None, None)
    if case.kind == "queries":
        codes, scales = (_noise(case, place, size) for place, size in enumerate(_query_sizes(case)))
        if case.to == "fp8":
            scales = scales.view(torch.float32)
        return RotateQueries(
            x, cos, sin, positions, bool(case.had), case.to, case.g, bool(case.shuf), codes, scales
        )
    assert cos is not None and sin is not None
    slots, blocks = slots_of(case)
    codes, scales = (_noise(case, place, size) for place, size in enumerate(_key_sizes(case, blocks)))
    weight = (1 + 0.1 * noise.gaussian(case.s, "rotate/norm", (case.d,))).bfloat16()
    return RotateKeys(
        x, weight, EPSILON, cos, sin, positions, slots, bool(case.had), case.page, case.g,
        bool(case.shuf), codes, scales,
    )  # fmt: skip


def positions_of(case: Case) -> Tensor:
    """Positions int64 [T]: 0, any, and the last of the tables in turn."""
    turn = torch.arange(case.r) % 3
    drawn = noise.below(case.s, "rotate/positions", (case.r,), POSITIONS)
    return torch.where(turn == 0, 0, torch.where(turn == 1, drawn, POSITIONS - 1))


def slots_of(case: Case) -> tuple[Tensor, int]:
    """(slots int64 [T], pages of the pool): every fifth none, every second page nobody's."""
    used = max(2, -(-case.r // case.page))
    place = noise.permutation(case.s, "rotate/slots", used * case.page)[: case.r]
    slots = 2 * (place // case.page) * case.page + place % case.page
    turn = torch.arange(case.r)
    return torch.where(turn % 5 == 3, -1 - turn % 2, slots), 2 * used


@cache
def tables(rope: int) -> tuple[Tensor, Tensor]:
    """(cos, sin) bfloat16 [positions, rope/2]."""
    return prepare.rope_tables(POSITIONS, dims=rope)


def _query_sizes(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    groups = case.d // case.g
    if case.to == "fp8":
        return (case.r, case.h, case.d), (case.r * case.h, 4 * groups)
    packed = case.r, case.h, case.d // 2
    if not case.shuf:
        return packed, (case.r * case.h, groups)
    return packed, (case.r, groups // 4, 4, 16, layout.tile_pad(case.h))


def _key_sizes(case: Case, blocks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not case.shuf:
        return (blocks * case.page, case.d // 2), (blocks * case.page, case.d // case.g)
    tiles = case.d // 128
    return (blocks, tiles, 4, case.page, 16), (blocks, tiles, 4, case.page)


def _noise(case: Case, place: int, size: tuple[int, ...]) -> Tensor:
    return noise.octets(case.s, f"rotate/before/{place}", size)
