"""The writer oracle against its scalar twin, on the operands of one case.

LayerNorm, RoPE, quantiser and scatter are run as one by ``oracles.prepare.write_tokens`` and step
by step in exact rational arithmetic; the bytes must be the same, also with negative slots and
with positions no table has. A disagreement is an error of the harness and of no path.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import noise, pages
from oracles import formats, layout, prepare
from oracles.scalar import formats as scalar_formats
from oracles.scalar import prepare as scalar

ROWS, HEADS = 5, 2
"""Rows written, and heads looked at of every row."""
POSITIONS = 300
BLOCKS = 2
SLOTS = (17, -1, 127, 64, -2)
PLACES = (1, 1 << 30, POSITIONS - 1, 0, -5)
"""Positions of the rows: 0 is the identity, those of negative slots are nonsense."""


@dataclass(frozen=True)
class Drawn:
    """Inputs of the writer: q bfloat16 [T, H, D], k bfloat16 [T, D], weights bfloat16 [T, H]."""

    writer: prepare.Writer
    q: Tensor
    k: Tensor
    weights: Tensor


def check(case: Case) -> None:
    """Raises AssertionError where the two part."""
    drawn = _drawn(case)
    codes, scales = pages.poisoned_pool(BLOCKS, case.d, strided=False)
    slots, places = torch.tensor(SLOTS), torch.tensor(PLACES)
    made = prepare.write_tokens(
        drawn.writer, drawn.q, drawn.k, drawn.weights, places, slots, codes, scales, compute_all_q_rope=True
    )
    held = layout.read_keys(codes, scales, torch.arange(BLOCKS), BLOCKS * pages.PAGE)
    written = set()
    for row, (slot, place) in enumerate(zip(SLOTS, PLACES, strict=True)):
        clamped = min(max(place, 0), POSITIONS - 1)
        if slot >= 0:
            _same("key", row, _key(drawn, row, clamped), held[0][slot], held[1][slot])
            written.add(slot)
        q_codes = layout.unpack_nibbles(made.q_codes[row])
        q_scales = layout.read_query_scales(made.q_scales[row : row + 1], case.h)[0]
        for head in range(HEADS):
            turned = _turned(drawn, drawn.q[row, head].float().tolist(), clamped)
            _same(
                "query",
                row,
                scalar_formats.quantise(turned, drawn.writer.rule),
                q_codes[head],
                q_scales[head],
            )
        assert torch.equal(made.weights[row], drawn.weights[row]), (
            f"the writer oracle changed the weights of row {row}"
        )
    others = torch.tensor([slot not in written for slot in range(BLOCKS * pages.PAGE)])
    assert bool((held[1][others] == 255).all()), "the writer oracle wrote a slot that no row has"


def _drawn(case: Case) -> Drawn:
    norm_weight = 1 + 0.1 * noise.gaussian(case.s, "writer/norm", (case.d,))
    norm_bias = 0.1 * noise.gaussian(case.s, "writer/bias", (case.d,))
    pairing = ("neox", "interleaved")[case.s % 2]
    writer = prepare.Writer(
        norm_weight, norm_bias, *prepare.rope_tables(POSITIONS), pairing, formats.PRODUCTION
    )
    q = noise.gaussian(case.s, "writer/q", (ROWS, case.h, case.d)).bfloat16()
    k = noise.gaussian(case.s, "writer/k", (ROWS, case.d)).bfloat16()
    return Drawn(writer, q, k, noise.gaussian(case.s, "writer/weights", (ROWS, case.h)).bfloat16())


def _key(drawn: Drawn, row: int, place: int) -> tuple[list[int], list[int]]:
    writer = drawn.writer
    vectors = (drawn.k[row].float(), writer.norm_weight, writer.norm_bias)
    normal = scalar.layer_norm(*(vector.tolist() for vector in vectors))
    return scalar_formats.quantise(_turned(drawn, normal, place), writer.rule)


def _turned(drawn: Drawn, x: list[float], place: int) -> list[float]:
    writer = drawn.writer
    tables = writer.cos[place].float().tolist(), writer.sin[place].float().tolist()
    return scalar.rope(x, *tables, pairing=writer.pairing)


def _same(what: str, row: int, twin: tuple[list[int], list[int]], codes: Tensor, scales: Tensor) -> None:
    if twin != (codes.tolist(), scales.tolist()):
        raise AssertionError(f"the writer oracle and its scalar twin differ in the {what} of row {row}")
