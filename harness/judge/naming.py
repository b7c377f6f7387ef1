"""What a wrong score would be right for: another key, another scale, swapped nibbles, no ReLU.

A differing value is looked up among the oracle's own values first, and then among the
values that one wrong rule would give for the same cell. A match is a hint, never part of the
verdict: with few distinct values two rules can meet, so every match is told, the nearest
first, up to `MOST`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from harness.fill import fill_address, pages
from harness.fill.inputs import Inputs
from harness.judge.wanted import operands_of
from oracles import formats, layout
from oracles.score import Operands

MOST = 3
OTHERS = 64
"""Sequences whose pages are tried in place of the right ones."""


def explain(inputs: Inputs, want: Tensor, got: Tensor, row: int, column: int, most: int = MOST) -> list[str]:
    """Sentences about float32 scalar ``got`` at (row, column), where ``want`` [T, W] is the oracle's map."""
    if not bool(got.isfinite()) or float(got) == 0:
        return []
    said = list(_addressed(inputs, float(got))) if inputs.case.f == "address" else []
    said += list(_elsewhere(inputs, want, got, row, column))
    if len(said) < most and inputs.start[row] <= column < inputs.end[row]:
        said += list(_by_rule(inputs, got, row, column))
    return list(dict.fromkeys(said))[:most]


def _addressed(inputs: Inputs, got: float) -> Iterator[str]:
    """What the address fill spells."""
    address = fill_address.decode(got, sum(inputs.case.ctx), inputs.case.d)
    if address is None:
        return
    first = 0
    for sequence, length in enumerate(inputs.case.ctx):
        if address.key < first + length:
            right = int(
                fill_address.scale_bytes(torch.tensor([address.key]), inputs.case.d)[0, address.group]
            )
            odd = "" if right == address.scale else f", its own is {right}"
            token = address.key - first
            key = (
                f"key {token} of sequence {sequence} (page {token // pages.PAGE}, slot {token % pages.PAGE})"
            )
            yield f"the value spells {key}, group {address.group}, scale byte {address.scale}{odd}"
            return
        first += length


def _elsewhere(inputs: Inputs, want: Tensor, got: Tensor, row: int, column: int) -> Iterator[str]:
    """Cells of the oracle's map with this very value: in the row, then in the column."""
    in_row = (want[row] == got).nonzero().flatten()
    if len(in_row):
        nearest = int(in_row[(in_row - column).abs().argmin()])
        more = f" and {len(in_row) - 1} more" if len(in_row) > 1 else ""
        yield f"the value is that of key {nearest}{more} of this row"
    in_column = (want[:, column] == got).nonzero().flatten()
    if len(in_column):
        nearest = int(in_column[(in_column - row).abs().argmin()])
        yield f"the value is that of row {nearest} in this column"


def _by_rule(inputs: Inputs, got: Tensor, row: int, column: int) -> Iterator[str]:
    """Rules under which the right operands give this value."""
    operands = _cell(inputs, row, column)
    dots, weights, scale = _dots(operands), operands.weights[0].double(), operands.weight_scale
    right = dots.clamp(min=0) * weights
    if _gives(right * scale, got):
        yield "the value is right up to rounding: the order of the additions, or what is fused, differs"
        return
    for said, other in _variants(inputs, operands, row, column):
        terms = _dots(other).clamp(min=0) * other.weights[0].double()
        if _gives(terms * other.weight_scale, got):
            yield f"the value is right {said}"
    whole = (dots * weights).sum().clamp(min=0).unsqueeze(0)
    for said, terms in (
        ("with the weight scale applied twice", right * scale * scale),
        ("with no weight scale", right),
        ("without the ReLU", dots * weights * scale),
        ("with the ReLU after the sum over heads", whole * scale),
        ("with the ReLU after the weight", (dots * weights).clamp(min=0) * scale),
    ):
        if _gives(terms, got):
            yield f"the value is right {said}"


def _cell(inputs: Inputs, row: int, column: int) -> Operands:
    """Operands of one cell: one row, one key."""
    whole = operands_of(inputs, row)
    key = column - int(inputs.start[row])
    return replace(whole, k_codes=whole.k_codes[key : key + 1], k_scales=whole.k_scales[key : key + 1])


def _variants(inputs: Inputs, right: Operands, row: int, column: int) -> Iterator[tuple[str, Operands]]:
    """The cell under one wrong rule of layout each, the likely ones first."""
    yield from _other_pages(inputs, right, row, column)
    yield from _other_scales(inputs, right, row, column)
    yield "with the nibbles of the key swapped", replace(right, k_codes=_swapped(right.k_codes))
    yield "with the nibbles of the query swapped", replace(right, q_codes=_swapped(right.q_codes))
    if right.k_codes.shape[1] == 256:
        for first, said in ((0, "first"), (128, "second")):
            codes = right.k_codes.clone()
            codes[:, first : first + 128] = 0
            yield f"without the {said} 128 dims", replace(right, k_codes=codes)
            twice = right.k_codes[:, first : first + 128].repeat(1, 2)
            yield f"with the {said} 128 dims of the key read twice", replace(right, k_codes=twice)
    for head in range(0, inputs.case.h, 16):
        weights = right.weights.clone()
        weights[:, head : head + 16] = 0
        yield f"without heads {head} to {head + 15}", replace(right, weights=weights)


def _other_pages(inputs: Inputs, right: Operands, row: int, column: int) -> Iterator[tuple[str, Operands]]:
    """The same place in the pages of the other sequences (whatever lies there)."""
    planes = inputs.planes
    for sequence, table in enumerate(planes.block_tables[:OTHERS]):
        if sequence != int(inputs.seq[row]):
            codes, scales = layout.read_keys(planes.k_codes, planes.k_scales, table, column + 1, start=column)
            yield f"with the pages of sequence {sequence}", replace(right, k_codes=codes, k_scales=scales)


def _other_scales(inputs: Inputs, right: Operands, row: int, column: int) -> Iterator[tuple[str, Operands]]:
    """Scales of other slots of the page, other groups, other head tiles."""
    slot, table = column % pages.PAGE, inputs.planes.block_tables[int(inputs.seq[row])]
    block = int(table[column // pages.PAGE])
    plane = inputs.planes.k_scales[block].flatten(0, 1).T  # [64, G]: scales by position
    for position in range(pages.PAGE):
        if position == layout.bent_row(slot):
            continue
        where = "its flat row (no bend)" if position == slot else f"slot {layout.flat_row(position)}"
        yield f"with the scales of {where}", replace(right, k_scales=plane[position : position + 1])
    for turn in range(1, right.k_scales.shape[1]):
        yield f"with key scales moved by {turn} groups", replace(right, k_scales=right.k_scales.roll(turn, 1))
        yield (
            f"with query scales moved by {turn} groups",
            replace(right, q_scales=right.q_scales.roll(turn, 2)),
        )
    tiles = right.q_scales.unflatten(1, (-1, 16))  # [1, H/16, 16, G]
    for tile in range(tiles.shape[1]):
        moved = tiles.roll(tile, 1).flatten(1, 2)
        constant = tiles[:, tile : tile + 1].expand(tiles.shape).flatten(1, 2)
        yield f"with query scales moved by {tile} head tiles", replace(right, q_scales=moved)
        yield f"with the query scales of head tile {tile} in every tile", replace(right, q_scales=constant)


def _swapped(codes: Tensor) -> Tensor:
    return codes.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def _dots(operands: Operands) -> Tensor:
    """float64 [H] of a one-cell operand; exact for the fills that can be exact."""
    query = _values(operands.q_codes[0], operands.q_scales[0])  # [H, D]
    return query @ _values(operands.k_codes, operands.k_scales)[0]


def _values(codes: Tensor, scales: Tensor) -> Tensor:
    factor = formats.decode_e8m0(scales).double().repeat_interleave(formats.GROUP, dim=-1)
    return formats.decode(formats.E2M1, codes).double() * factor


def _gives(terms: Tensor, got: Tensor) -> bool:
    """Whether float32 ``got`` can be the sum of float64 ``terms`` [n], within n + 2 roundings."""
    roundings = (len(terms) + 2) * 2.0**-24
    allowed = terms.abs().sum() * (roundings / (1 - roundings))
    return bool((terms.sum() - got.double()).abs() <= allowed)
