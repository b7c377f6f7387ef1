"""The oracle path with one wrong rule: what a suite must turn red for (spec faults.md).

A fault changes what the path reads, how it scores, or what it writes. `FAULTS` maps the
catalogue's name to the path and to the suites that can show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from harness.findings import Finding
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring, writing
from oracles import formats, layout, score
from oracles.formats import PRODUCTION, QuantRule
from oracles.trees import Tree, one_chain
from oracles.windows import Windows

Planes = scoring.Planes
LOOP = Tree("loop", one_chain, 0, scale="after", step="rounded")
POSITION = torch.arange(64)
BENT = torch.tensor([layout.bent_row(row) for row in range(64)])


def same(value: Any) -> Any:
    return value


@dataclass
class FaultyPath(OraclePath):
    """`OraclePath` with the fault in one of these places."""

    name = "faulty"
    planes: Callable[[Planes], Planes] = same
    rows: Callable[[Windows], Windows] = same
    scale: Callable[[float], float] = same
    stored: Callable[[Tensor, Windows, Any], Tensor] | None = None
    entries: Callable[[Tensor], Tensor] = same
    rule: QuantRule = PRODUCTION
    packing: str = "low-first"
    bend: bool = True
    slots: Callable[[Tensor], Tensor] = same
    summed: Tree | None = None
    builds_short: bool = False
    findings: tuple[Finding, ...] = field(default=())

    def tree(self, request: Any) -> str | None:
        return str(super().how(request))

    def how(self, request: Any) -> str | Tree:
        return self.summed or super().how(request)

    def run(self, request: Any) -> base.Outcome:
        return replace(super().run(request), findings=self.findings)

    def _scores(self, request: Any, rows: Windows, entries: Tensor | None) -> base.Outcome:
        changed = replace(
            request, planes=self.planes(request.planes), weight_scale=self.scale(request.weight_scale)
        )
        outcome = super()._scores(changed, self.rows(rows), entries)
        if self.stored is not None:
            return replace(outcome, value=self.stored(outcome.value, rows, request))
        return outcome

    def decode_schedule(self, request: scoring.DecodeSchedule) -> base.Outcome:
        if self.builds_short:
            slots = -(-request.units // request.next_n) + len(request.context_lens)
            roomy = replace(request, units=slots * request.next_n)
            return replace(
                super().decode_schedule(roomy), value=super().decode_schedule(roomy).value[: request.units]
            )
        return base.Outcome(self.entries(super().decode_schedule(request).value))

    def prefill_schedule(self, request: scoring.PrefillSchedule) -> base.Outcome:
        if self.builds_short:
            roomy = replace(request, units=max(request.units, len(request.row_seq)))
            return base.Outcome(super().prefill_schedule(roomy).value[: request.units])
        return base.Outcome(self.entries(super().prefill_schedule(request).value))

    def quantise(self, request: writing.Quantise) -> base.Outcome:
        codes, scales = formats.quantise(request.x, self.rule)
        return base.Outcome((layout.pack_nibbles(codes, order=self.packing), scales))

    def write_keys(self, request: writing.WriteKeys) -> base.Outcome:
        codes, scales = formats.quantise(request.k, self.rule)
        if self.packing == "high-first":
            codes = codes.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        last = request.k_codes.shape[0] * 64
        slots = (
            torch.where(request.slots < 0, self.slots(request.slots) % last, request.slots)
            if self.slots is not same
            else request.slots
        )
        fresh = torch.ones_like(slots, dtype=torch.bool)
        fresh[slots < 0] = False
        for row in range(len(slots)):  # later rows win, as stores in order would
            if fresh[row]:
                layout.write_keys(
                    request.k_codes,
                    request.k_scales,
                    codes[row : row + 1],
                    scales[row : row + 1],
                    slots[row : row + 1],
                    bend=self.bend,
                )
        return base.Outcome((request.k_codes, request.k_scales))


def scales_at(position: Tensor) -> Callable[[Planes], Planes]:
    """The scorer reads the key scale of a page row at ``position`` instead of at the bent row."""

    def changed(planes: Planes) -> Planes:
        moved = planes.k_scales.clone()
        moved[..., BENT] = planes.k_scales[..., position]
        return replace(planes, k_scales=moved)

    return changed


def on(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Planes], Planes]:
    """One plane changed before the scorer sees it."""

    def changed(planes: Planes) -> Planes:
        made: dict[str, Any] = {name: change(getattr(planes, name).clone())}
        return replace(planes, **made)

    return changed


def swap_nibbles(packed: Tensor) -> Tensor:
    return packed >> 4 | (packed & 15) << 4


def moved(*, start: int = 0, end: int = 0) -> Callable[[Windows], Windows]:
    """Windows whose bounds are off by a little."""

    def changed(rows: Windows) -> Windows:
        wide = rows.end > rows.start
        new_end = torch.where(wide, rows.end + end, rows.end)
        return Windows(rows.seq, torch.where(wide, (rows.start + start).clamp(min=0), rows.start), new_end)

    return changed


def next_n_swapped(planes: Planes) -> Planes:
    """Rows of a sequence read each other's queries: neighbours change places."""
    order = torch.arange(planes.q_codes.shape[0])
    order[: len(order) // 2 * 2] = order[: len(order) // 2 * 2].reshape(-1, 2).flip(1).flatten()
    return replace(
        planes, q_codes=planes.q_codes[order], q_scales=planes.q_scales[order], weights=planes.weights[order]
    )


def without_relu(kind: str) -> Callable[[Tensor, Windows, Any], Tensor]:
    """Scores with the ReLU dropped, or after the weight."""

    def stored(value: Tensor, rows: Windows, request: Any) -> Tensor:
        planes = request.planes
        codes, scales = (
            layout.unpack_nibbles(planes.q_codes),
            layout.read_query_scales(planes.q_scales, planes.heads),
        )
        for row in (rows.end > rows.start).nonzero().flatten().tolist():
            start, end = int(rows.start[row]), int(rows.end[row])
            table = planes.block_tables[rows.seq[row]]
            keys = layout.read_keys(planes.k_codes, planes.k_scales, table, end, start=start)
            weights = planes.weights[row : row + 1]
            dots = score.dot_products(
                score.Operands(codes[row : row + 1], scales[row : row + 1], *keys, weights, 1.0)
            )[0]
            terms = dots.double() * weights[0].double()[:, None]
            total = terms.sum(0) if kind == "missing" else terms.clamp(min=0).sum(0)
            value[row, start:end] = (total * request.weight_scale).float()
        return value

    return stored


def rows_past_two_gibibytes_lost(value: Tensor, rows: Windows, request: Any) -> Tensor:
    """Stores at a byte offset of 2^31 and more never happen."""
    from harness.judge.bits import SENTINEL

    lost = torch.arange(value.shape[0]) * value.stride(0) * 4 >= 1 << 31
    if request.schedule is not None:
        value.view(torch.int32)[lost] = SENTINEL
    return value


def chunk_lost(entries: Tensor) -> Tensor:
    """The last busy entry covers one chunk less."""
    entries = entries.clone()
    count = 2 if entries.shape[1] == 4 else 3
    busy = (entries[:, count] > 1).nonzero().flatten()
    if len(busy):
        entries[busy[-1], count] -= 1
    return entries


def chunk_twice(entries: Tensor) -> Tensor:
    """The first entry that starts past chunk 0 starts one chunk early."""
    entries = entries.clone()
    first, count = (1, 2) if entries.shape[1] == 4 else (2, 3)
    late = (entries[:, first] > 0).nonzero().flatten()
    if len(late):
        entries[late[0], first] -= 1
        entries[late[0], count] += 1
    return entries


def tile_rolled(position: Tensor) -> Tensor:
    """Position of the scale of the next tile of the same lane."""
    return position // 4 * 4 + (position + 1) % 4


def drop_head_tile(weights: Tensor) -> Tensor:
    weights[:, -16:] = 0
    return weights


OVERREAD = Finding(
    "out-of-bounds-load", "some_kernel", "block_tables", "kernels/some.py:9", 16, {"offset": 64}
)

SCORING = ("decode", "prefill", "varqlen")
FAULTS: dict[str, tuple[FaultyPath, tuple[str, ...]]] = {
    "scale-read-flat": (FaultyPath(planes=scales_at(POSITION)), (*SCORING, "layout")),
    "page-size-lanes": (
        FaultyPath(planes=scales_at(POSITION % 32 * 2 + POSITION // 32)),
        (*SCORING, "layout"),
    ),
    "opsel-wrong": (FaultyPath(planes=scales_at(tile_rolled(BENT))), (*SCORING, "layout")),
    "opsel-constant": (FaultyPath(planes=scales_at(BENT // 4 * 4)), (*SCORING, "layout")),
    "nibble-swap-read": (FaultyPath(planes=on("k_codes", swap_nibbles)), (*SCORING, "layout")),
    "query-scale-tile": (
        FaultyPath(planes=on("q_scales", lambda plane: plane.roll(1, 4))),
        ("decode", "prefill"),
    ),
    "group-order": (FaultyPath(planes=on("k_scales", lambda plane: plane.roll(1, 2))), (*SCORING, "layout")),
    "k-tile-order": (FaultyPath(planes=on("k_codes", lambda plane: plane.flip(1))), (*SCORING, "layout")),
    "own-pages-only": (
        FaultyPath(planes=on("block_tables", lambda tables: tables[:1].expand(tables.shape))),
        SCORING,
    ),
    "next-n-swap": (FaultyPath(planes=next_n_swapped), ("decode", "varqlen")),
    "heads-dropped": (FaultyPath(planes=on("weights", drop_head_tile)), SCORING),
    "weights-scaled-twice": (FaultyPath(scale=lambda scale: scale * scale), SCORING),
    "weights-unscaled": (FaultyPath(scale=lambda scale: 1.0), SCORING),
    "relu-missing": (FaultyPath(stored=without_relu("missing")), SCORING),
    "relu-after-weight": (FaultyPath(stored=without_relu("after")), SCORING),
    "mask-end-early": (FaultyPath(rows=moved(end=-1)), SCORING),
    "mask-start-late": (FaultyPath(rows=moved(start=1)), SCORING),
    "mask-start-early": (FaultyPath(rows=moved(start=-1)), ("prefill",)),
    "window-start-ignored": (FaultyPath(rows=moved(start=-(1 << 20))), ("prefill",)),
    "additions-in-one-chain": (FaultyPath(summed=LOOP), SCORING),
    "short-schedule": (FaultyPath(builds_short=True), ("schedule",)),
    "gap-cover": (FaultyPath(entries=chunk_lost), ("schedule",)),
    "double-cover": (FaultyPath(entries=chunk_twice), ("schedule",)),
    "nibble-swap": (FaultyPath(packing="high-first"), ("quantise", "write")),
    "tie-away": (FaultyPath(rule=replace(PRODUCTION, ties="away")), ("quantise", "write")),
    "tie-zero": (FaultyPath(rule=replace(PRODUCTION, ties="zero")), ("quantise", "write")),
    "tie-down": (FaultyPath(rule=replace(PRODUCTION, ties="down")), ("quantise", "write")),
    "scale-floor": (FaultyPath(rule=replace(PRODUCTION, scale="floor")), ("quantise", "write")),
    "scale-even": (FaultyPath(rule=replace(PRODUCTION, scale="even")), ("quantise", "write")),
    "scale-amax-over-7": (FaultyPath(rule=replace(PRODUCTION, divisor="seventh")), ("quantise", "write")),
    "scale-eps": (FaultyPath(rule=replace(PRODUCTION, amax_floor=1e-4)), ("quantise", "write")),
    "neg-zero-drop": (FaultyPath(rule=replace(PRODUCTION, keep_negative_zero=False)), ("quantise", "write")),
    "scale-write-flat": (FaultyPath(bend=False), ("write",)),
    "slot-negative-write": (FaultyPath(slots=lambda slots: slots), ("write",)),
    "padding-into-block-0": (FaultyPath(slots=torch.zeros_like), ("write",)),
    "table-overread": (FaultyPath(findings=(OVERREAD,)), ("decode", "prefill")),
}

FAR = FaultyPath(stored=rows_past_two_gibibytes_lost)
"""int32-overflow: shows only where rows lie far apart."""
