"""The oracle as a path like any other: it answers every request from the tensors it is given.

It checks the harness, and proves nothing about kernels. It takes a schedule at its word, chunk
by chunk, so that a wrong schedule shows in its scores as it would in a kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests import scoring, writing
from oracles import formats, layout, schedule, score, windows
from oracles.trees import Tree
from oracles.windows import Windows

CHUNK = schedule.BLOCK_K


PARTS = (
    "harness.paths.oracle.eightbit",
    "harness.paths.oracle.gating",
    "harness.paths.oracle.sharding",
    "harness.paths.oracle.staging",
    "harness.paths.oracle.pooling",
    "harness.paths.oracle.publishing",
    "harness.paths.oracle.replaying",
    "harness.paths.oracle.rotating",
    "harness.paths.oracle.writing",
    "harness.paths.oracle.selecting",
)
"""Modules that answer the requests of other areas, each by a function ``answers(path)``."""


class OraclePath(base.Path):
    """Answers by ``oracles``; scores under the tree of the kernel the request belongs to."""

    name = "oracle"
    parts = PARTS

    @property
    def executor(self) -> str:
        return "torch"

    def answers(self) -> Mapping[type, Callable[[Any], base.Outcome]]:
        return {
            scoring.DecodeSchedule: self.decode_schedule,
            scoring.PrefillSchedule: self.prefill_schedule,
            scoring.VarqlenWindows: self.varqlen_windows,
            scoring.DecodeScores: self.decode,
            scoring.PrefillScores: self.prefill,
            scoring.VarqlenScores: self.varqlen,
            writing.Quantise: self.quantise,
            writing.WriteKeys: self.write_keys,
        }

    def tree(self, request: Any) -> str | None:
        return str(self.how(request))

    def how(self, request: Any) -> str | Tree:
        """The order in which heads are added up; what `tree` declares."""
        return "decode" if isinstance(request, scoring.DecodeScores) else "prefill"

    def decode_schedule(self, request: scoring.DecodeSchedule) -> base.Outcome:
        return base.Outcome(
            schedule.decode_schedule(
                request.context_lens,
                units=request.units,
                next_n=request.next_n,
                max_seq_len=request.max_seq_len,
            )
        )

    def prefill_schedule(self, request: scoring.PrefillSchedule) -> base.Outcome:
        rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
        return base.Outcome(
            schedule.prefill_schedule(rows, units=request.units, max_seq_len=request.max_seq_len)
        )

    def varqlen_windows(self, request: scoring.VarqlenWindows) -> base.Outcome:
        made = windows.varqlen_windows(request.cu_seq_q, request.context_lens, request.total_q)
        return base.Outcome(tuple(part.to(torch.int32) for part in (made.seq, made.start, made.end)))

    def decode(self, request: scoring.DecodeScores) -> base.Outcome:
        rows = windows.decode_windows(request.context_lens, request.next_n)
        entries = (
            None if request.schedule is None else request.schedule[:, [0, 1, 2]][request.schedule[:, 3] > 0]
        )
        return self._scores(request, rows, entries)

    def prefill(self, request: scoring.PrefillScores) -> base.Outcome:
        rows = windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
        busy = None if request.schedule is None else request.schedule[:, 4] < request.schedule[:, 5]
        entries = None if request.schedule is None else request.schedule[busy][:, [0, 2, 3]]
        return self._scores(request, rows, entries)

    def varqlen(self, request: scoring.VarqlenScores) -> base.Outcome:
        rows = windows.varqlen_windows(
            request.cu_seq_q, request.context_lens, request.planes.q_codes.shape[0]
        )
        return self._scores(request, rows, None)

    def _scores(self, request: Any, rows: Windows, entries: Tensor | None) -> base.Outcome:
        """Score ``rows``; with ``entries`` int32 [E, 3] (row, first chunk, count) only their chunks."""
        planes: scoring.Planes = request.planes
        made = score.score_windows(
            planes.q_codes,
            planes.q_scales,
            planes.k_codes,
            planes.k_scales,
            planes.block_tables,
            planes.weights,
            request.weight_scale,
            rows,
            request.max_seq_len,
            how=self.how(request),
        )
        out = request.out
        if out is None:
            out = torch.empty_like(made.value)
        visible = windows.visible(rows, request.max_seq_len)
        if entries is None:
            out.fill_(-torch.inf)
        else:
            visible &= covered(entries, len(visible), request.max_seq_len)
        out[visible] = made.value[visible]
        return base.Outcome(out, facts={"over_budget": made.over_budget})

    def quantise(self, request: writing.Quantise) -> base.Outcome:
        codes, scales = formats.quantise(request.x, formats.PRODUCTION)
        return base.Outcome((layout.pack_nibbles(codes), scales))

    def write_keys(self, request: writing.WriteKeys) -> base.Outcome:
        codes, scales = formats.quantise(request.k, formats.PRODUCTION)
        layout.write_keys(request.k_codes, request.k_scales, codes, scales, request.slots)
        return base.Outcome((request.k_codes, request.k_scales))


def covered(entries: Tensor, rows: int, width: int) -> Tensor:
    """bool [rows, width]: cells of the chunks that ``entries`` int [E, 3] (row, first chunk, count) name."""
    cells = torch.zeros(rows, width, dtype=torch.bool)
    for row, first, count in entries.tolist():
        cells[row, first * CHUNK : (first + count) * CHUNK] = True
    return cells
