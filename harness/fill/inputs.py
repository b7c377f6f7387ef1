"""From a case to the tensors that ask it, and nothing about the answer.

Everything a path must not use is poison: rows whose window is empty hold 0xFF codes, scales
of 255 and huge weights; a caller's score buffer holds `bits.SENTINEL`, also in the gaps
of a strided one. Operands depend on fill, seed and geometry only, never on units or chunks,
so that two schedules of one case are asked about the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from harness.case.cases import Case
from harness.fill import fills, pages
from harness.fill.fills import Filled
from harness.judge import bits
from harness.judge.coordinates import Grid, token_in_sequence
from harness.paths.requests.scoring import DecodeScores, Planes, PrefillScores, VarqlenScores
from oracles import layout, windows

HUGE = 2.0**120
REACH = {"far": (1 << 29) + 1024, "vast": (1 << 31) + 1024}
"""Elements before the last row of a score buffer by table style: past 2^31 bytes, past 2^31 elements."""
GAP = 37
"""Columns between the rows of a strided score buffer."""


@dataclass(frozen=True)
class Inputs:
    """One case as tensors. seq, start, end int64 [T] are the windows; context_lens int32 [B]."""

    case: Case
    filled: Filled
    planes: Planes
    seq: Tensor
    start: Tensor
    end: Tensor
    context_lens: Tensor
    cu_seq_q: Tensor

    @property
    def width(self) -> int:
        return self.case.width

    @cached_property
    def windows(self) -> windows.Windows:
        return windows.Windows(self.seq, self.start, self.end)

    @cached_property
    def visible(self) -> int:
        """Number of cells inside the windows."""
        return int((self.end - self.start).clamp(min=0).sum())

    @cached_property
    def expected(self) -> Tensor:
        """bool [T, width]: the cells that must be stored."""
        column = torch.arange(self.width)
        return (column >= self.start[:, None]) & (column < self.end[:, None])

    @cached_property
    def grid(self) -> Grid:
        return Grid(
            self.seq, self.start, self.end, token_in_sequence(self.seq), self.planes.block_tables.long()
        )

    def decode(
        self, *, units: int | None = None, schedule: Tensor | None = None, out: Tensor | None = None
    ) -> DecodeScores:
        return DecodeScores(
            self.planes,
            self.context_lens,
            self.case.n,
            self.filled.weight_scale,
            self.width,
            units,
            schedule,
            out,
            self.expected,
        )

    def prefill(
        self,
        rows: slice = slice(None),
        *,
        units: int | None = None,
        schedule: Tensor | None = None,
        out: Tensor | None = None,
    ) -> PrefillScores:
        """The request for ``rows`` of the batch; schedule and out are those of the rows alone."""
        seq, start, end = (
            window.to(torch.int32)[rows].contiguous() for window in (self.seq, self.start, self.end)
        )
        planes = rows_of(self.planes, rows)
        scale, expected = self.filled.weight_scale, self.expected[rows]
        return PrefillScores(planes, seq, start, end, scale, self.width, units, schedule, out, expected)

    def varqlen(self, *, units: int | None = None, out: Tensor | None = None) -> VarqlenScores:
        return VarqlenScores(
            self.planes,
            self.cu_seq_q,
            self.context_lens,
            self.filled.weight_scale,
            self.width,
            units,
            out,
            self.expected,
        )

    def buffer(self) -> Tensor:
        """A caller's score buffer full of `bits.SENTINEL`: float32 [T, width], with gaps by table style.

        The gaps hold the sentinel for `GAP` columns; what lies between far rows is never touched,
        so that it takes address space and no memory.
        """
        rows, stride = len(self.seq), self.row_stride
        whole = torch.empty((rows - 1) * stride + self.width + self.gap, dtype=torch.int32)
        whole.as_strided((rows, self.width + self.gap), (stride, 1)).fill_(bits.SENTINEL)
        return whole.view(torch.float32).as_strided((rows, self.width), (stride, 1))

    @property
    def gap(self) -> int:
        """Columns of sentinel after each row of `buffer`."""
        return GAP if self.case.t in ("strided", *REACH) else 0

    @property
    def row_stride(self) -> int:
        """Elements between rows of `buffer`."""
        near = self.width + self.gap
        return max(near, REACH.get(self.case.t, 0) // max(1, len(self.seq) - 1))


def build(case: Case) -> Inputs:
    """The tensors of a case of suite layout, decode, prefill, varqlen or identity."""
    seq, start, end = _windows(case)
    keys = sum(case.ctx)
    fill = "address" if case.suite == "layout" else case.f
    filled = fills.fill(fill, fills.Shape(len(seq), case.h, case.d, keys, case.s))
    poisoned = _poison_rows(filled, end <= start)
    counts = torch.tensor([0, *case.q]) if case.kind == "varqlen" else torch.zeros(1)
    return Inputs(
        case,
        poisoned,
        make_planes(case, poisoned),
        seq,
        start,
        end,
        torch.tensor(case.ctx, dtype=torch.int32),
        counts.cumsum(0).to(torch.int32),
    )


def _windows(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """(sequence, start, end) int64 [T] of the rows; ends below zero are zero."""
    if case.kind == "prefill":
        seq, start, end = torch.tensor(case.w, dtype=torch.int64).reshape(-1, 3).unbind(1)
        return seq, start, end
    lengths = torch.tensor(case.ctx)
    if case.kind == "decode":
        made = windows.decode_windows(lengths, case.n)
    elif case.kind == "varqlen":
        made = windows.varqlen_windows(torch.tensor([0, *case.q]).cumsum(0), lengths, case.rows)
    else:
        made = windows.decode_windows(lengths, 1)
    return made.seq.long(), made.start.long(), made.end.long().clamp(min=0)


def _poison_rows(filled: Filled, unread: Tensor) -> Filled:
    """Rows that see no key hold what would spoil any result they reached."""
    if not bool(unread.any()):
        return filled
    q_codes, q_scales, weights = filled.q_codes.clone(), filled.q_scales.clone(), filled.weights.clone()
    q_codes[unread], q_scales[unread], weights[unread] = 15, 255, HUGE
    return replace(filled, q_codes=q_codes, q_scales=q_scales, weights=weights)


def make_planes(case: Case, filled: Filled) -> Planes:
    """Pack the operands into the production layouts, keys scattered over a poisoned pool."""
    strided = case.t == "strided"
    placement = pages.place(case.ctx, case.t, case.s)
    k_codes, k_scales = pages.poisoned_pool(placement.blocks, case.d, strided=strided)
    slots = pages.slots(case.ctx, placement.tables)
    pages.fill_pool(k_codes, k_scales, filled.k_codes, filled.k_scales, slots)
    q_codes, weights, tables = layout.pack_nibbles(filled.q_codes), filled.weights, placement.tables
    q_scales = layout.write_query_scales(filled.q_scales)
    if strided:
        q_codes, q_scales = pages.embedded(q_codes, 0xFF), pages.embedded(q_scales, 255)
        weights, tables = pages.embedded(weights, HUGE), pages.embedded(tables, int(placement.tables[0, -1]))
    defined = pages.written(k_codes, k_scales, slots)
    return Planes(q_codes, q_scales, k_codes, k_scales, tables, weights, defined)


def rows_of(planes: Planes, rows: slice | Tensor) -> Planes:
    """The planes of some query rows; keys and tables are shared."""
    return replace(
        planes, q_codes=planes.q_codes[rows], q_scales=planes.q_scales[rows], weights=planes.weights[rows]
    )
