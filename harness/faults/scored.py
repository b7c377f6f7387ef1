"""A scorer with one rule wrong: another request to the right scorer, or its scores computed once more.

Contract: what is asked of the right scorer instead (another window, another plane) gives the bits that its
kernel gives with that defect, because that kernel computes them. What no request can say (a ReLU that is not
there, another order of additions) is computed from the oracle's dot products under the tree of the request's
kernel, in exactly the cells that the right scorer stored. It fails silently where a cell is changed that the
defective kernel would not have stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Plant, Wrong
from harness.faults.plants import asking
from harness.paths.base import Outcome
from harness.paths.oracle.path import covered
from harness.paths.requests.scoring import DecodeScores, Planes, PrefillScores, VarqlenScores
from oracles import layout, score, trees, windows
from oracles.trees import TREES, Tree
from oracles.windows import Windows

SCORERS = (DecodeScores, PrefillScores, VarqlenScores)
Compute = Callable[[Any, Tensor, Tensor, float], Tensor]
"""(request, dots float32 [1, H, L], weights float32 [1, H], weight scale) to scores float32 [1, L]."""


def in_scorers(wrong: Wrong, kinds: tuple[type, ...] = SCORERS) -> Plant:
    """``wrong`` planted in some scorers."""
    return lambda: dict.fromkeys(kinds, wrong)


def on_planes(change: Callable[[Planes], dict[str, Tensor]]) -> Wrong:
    """The scorer reads other planes: the fields that ``change`` returns; their masks change alike."""

    def changed(request: Any) -> Any:
        planes: Planes = request.planes
        made: dict[str, Any] = change(planes)
        masks = dict(planes.defined)
        known: dict[str, Any] = {name: masks[name].to(torch.uint8) for name in made if name in masks}
        if known:
            masks |= {
                name: mask.bool() for name, mask in change(replace(planes, **known)).items() if name in known
            }
        return replace(request, planes=replace(planes, **made, defined=masks))

    return asking(changed)


def windows_of(request: Any) -> Windows:
    """The windows of a request's rows."""
    if isinstance(request, DecodeScores):
        return windows.decode_windows(request.context_lens, request.next_n)
    if isinstance(request, PrefillScores):
        return windows.prefill_windows(request.row_seq, request.row_start, request.row_end)
    return windows.varqlen_windows(request.cu_seq_q, request.context_lens, len(request.planes.q_codes))


def tree_of(request: Any) -> Tree:
    """The tree of the kernel that answers."""
    return TREES["decode" if isinstance(request, DecodeScores) else "prefill"]


def stored(request: Any) -> Tensor:
    """bool [T, W]: cells that the right scorer stores a score in."""
    cells = windows.visible(windows_of(request), request.max_seq_len)
    schedule = getattr(request, "schedule", None)
    if schedule is None:
        return cells
    if isinstance(request, DecodeScores):
        entries = schedule[schedule[:, 3] > 0][:, [0, 1, 2]]
    else:
        entries = schedule[schedule[:, 4] < schedule[:, 5]][:, [0, 2, 3]]
    return cells & covered(entries, *cells.shape)


def computed(compute: Compute) -> Wrong:
    """The right answer, with ``compute`` of the dots in every cell that was stored."""

    def wrong(request: Any, right: Answer) -> Outcome:
        outcome = right(request)
        planes, rows, cells = request.planes, windows_of(request), stored(request)
        codes = layout.unpack_nibbles(planes.q_codes)
        scales = layout.read_query_scales(planes.q_scales, planes.heads)
        for row in cells.any(1).nonzero().flatten().tolist():
            reach = slice(int(rows.start[row]), int(rows.end[row]))
            table, own = planes.block_tables[int(rows.seq[row])], slice(row, row + 1)
            keys = layout.read_keys(planes.k_codes, planes.k_scales, table, reach.stop, start=reach.start)
            weights = planes.weights[own].cpu()
            dots = score.dot_products(score.Operands(codes[own], scales[own], *keys, weights, 1.0))
            made = compute(request, dots, weights.float(), request.weight_scale)[0]
            here = cells[row, reach]
            outcome.value[row, reach][here] = made[here].to(outcome.value.device)
        return outcome

    return wrong


def under(change: Callable[[Tree], Tree], *, relu: bool = True) -> Compute:
    """Scores under another tree than the kernel's; ``relu`` false: without one."""

    def compute(request: Any, dots: Tensor, weights: Tensor, weight_scale: float) -> Tensor:
        terms = dots.clamp(min=0) if relu else dots
        return trees.run(change(tree_of(request)), terms, weights, weight_scale)

    return compute


def with_windows(request: Any, start: Tensor | None = None, end: Tensor | None = None) -> Any:
    """``request`` with other windows, int [T] each (None: as they are); starts only where rows state theirs.

    A row of a decode or varqlen request becomes a sequence of its own, of so many keys: the same kernel, the
    same order of additions, and a given schedule that says the new lengths.
    """
    rows = windows_of(request)
    first, last = (
        (own if new is None else new).to(torch.int32) for own, new in ((rows.start, start), (rows.end, end))
    )
    if isinstance(request, PrefillScores):
        schedule = request.schedule
        if schedule is not None:
            schedule, busy = schedule.clone(), schedule[:, 4] < schedule[:, 5]
            row = schedule[busy, 0].long()
            schedule[busy, 4], schedule[busy, 5] = first[row], last[row]
        return replace(request, row_start=first, row_end=last, schedule=schedule)
    tables = request.planes.block_tables[rows.seq].contiguous()
    planes = replace(request.planes, block_tables=tables)
    if isinstance(request, VarqlenScores):
        count = torch.arange(len(last) + 1, dtype=torch.int32)
        return replace(request, planes=planes, cu_seq_q=count, context_lens=last)
    schedule = request.schedule
    if schedule is not None:
        schedule, busy = schedule.clone(), schedule[:, 3] > 0
        schedule[busy, 3] = last[schedule[busy, 0].long()]
    return replace(request, planes=planes, context_lens=last, next_n=1, schedule=schedule)


def newer_rows(request: Any) -> Tensor:
    """int64 [T]: rows of the same sequence after each row; 0 for padding."""
    rows = windows_of(request)
    if isinstance(request, DecodeScores):
        return torch.arange(request.next_n - 1, -1, -1).repeat(len(request.context_lens))
    bounds, row = request.cu_seq_q.long(), torch.arange(rows.rows)
    return (bounds[rows.seq + 1] - 1 - row).clamp(min=0)


def lengths_of(request: Any) -> Tensor:
    """int64 [T]: keys of each row's sequence; 0 for padding rows."""
    rows = windows_of(request)
    lengths = request.context_lens.long()[rows.seq]
    if isinstance(request, VarqlenScores):
        return lengths.masked_fill(torch.arange(rows.rows) >= int(request.cu_seq_q[-1]), 0)
    return lengths
