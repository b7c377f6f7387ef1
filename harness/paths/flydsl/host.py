"""Host functions of the in-tree kernels, called as a server calls production's.

Contract: shapes and dtypes of spec indexer.md 3 and 4, checked before a launch, because a
kernel takes bare pointers and would read a transposed plane without complaint. Planes are
contiguous; the score buffer and the block table may have any distance between rows. A buffer
the functions allocate themselves holds minus infinity outside the windows; a caller's
``out`` keeps what it held there, or is filled first when the schedule is not the caller's.
``stream`` None is torch's current stream; 0 the null stream, which needs no GPU to ask for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.paths.flydsl import abi, schedules
from harness.paths.flydsl.decode import launch_decode
from harness.paths.flydsl.prefill import launch_prefill
from harness.paths.flydsl.quantise import THREADS, launch_quantise, launch_write_keys

DECODE_FLOOR = 512
"""Slots of a decode grid that suffice to fill a chip; fewer when there are fewer chunks."""
PREFILL_FLOOR = 4096


def decode_scores(
    q_codes: Tensor,
    q_scales: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    block_tables: Tensor,
    weights: Tensor,
    context_lens: Tensor,
    max_seq_len: int,
    *,
    next_n: int,
    weight_scale: float,
    units: int | None = None,
    schedule: Tensor | None = None,
    out: Tensor | None = None,
    stream: Any = None,
) -> Tensor:
    """Scores float32 [T, max_seq_len] of T = B * next_n rows (`harness.paths.base.DecodeScores`).

    Raises ValueError for planes that are not of the ABI, and as `schedules.decode_schedule`.
    """
    heads, dim = abi.planes(q_codes, q_scales, k_codes, k_scales, block_tables, weights)
    rows, sequences = q_codes.shape[0], context_lens.shape[0]
    if rows != sequences * next_n:
        raise ValueError(
            f"q_codes has {rows} rows, allowed are {sequences * next_n}, next_n for each sequence"
        )
    out = abi.score_buffer(out, rows, max_seq_len, q_codes.device, fill=schedule is None)
    if schedule is None:
        units = units or decode_units(sequences, next_n, max_seq_len)
        schedule = schedules.decode_schedule(
            context_lens, units=units, next_n=next_n, max_seq_len=max_seq_len
        )
    abi.schedule_entries(schedule, 4)
    if rows and len(schedule):
        launch_decode(
            out, q_codes, q_scales, k_codes, k_scales, block_tables, weights, schedule,
            out.stride(0), block_tables.stride(0), weight_scale, len(schedule),
            heads, dim, next_n, queue(stream),
        )  # fmt: skip
    return out


def prefill_scores(
    q_codes: Tensor,
    q_scales: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    block_tables: Tensor,
    weights: Tensor,
    row_seq: Tensor,
    row_start: Tensor,
    row_end: Tensor,
    max_seq_len: int,
    *,
    weight_scale: float,
    units: int | None = None,
    schedule: Tensor | None = None,
    out: Tensor | None = None,
    stream: Any = None,
) -> Tensor:
    """Scores float32 [T, max_seq_len] of ragged rows (`harness.paths.base.PrefillScores`).

    Raises ValueError for planes that are not of the ABI, and as `schedules.prefill_schedule`.
    """
    heads, dim = abi.planes(q_codes, q_scales, k_codes, k_scales, block_tables, weights)
    rows = q_codes.shape[0]
    out = abi.score_buffer(out, rows, max_seq_len, q_codes.device, fill=schedule is None)
    if schedule is None:
        units = units or prefill_units(rows, max_seq_len)
        schedule = schedules.prefill_schedule(
            row_seq, row_start, row_end, units=units, max_seq_len=max_seq_len
        )
    abi.schedule_entries(schedule, 6)
    if rows and len(schedule):
        launch_prefill(
            out, q_codes, q_scales, k_codes, k_scales, block_tables, weights, schedule,
            out.stride(0), block_tables.stride(0), weight_scale, len(schedule),
            heads, dim, queue(stream),
        )  # fmt: skip
    return out


def varqlen_scores(
    q_codes: Tensor,
    q_scales: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    block_tables: Tensor,
    weights: Tensor,
    cu_seq_q: Tensor,
    context_lens: Tensor,
    max_seq_len: int,
    *,
    weight_scale: float,
    units: int | None = None,
    out: Tensor | None = None,
    stream: Any = None,
) -> Tensor:
    """Scores float32 [T, max_seq_len]: windows from the query counts, then `prefill_scores`."""
    windows = schedules.varqlen_windows(cu_seq_q, context_lens, q_codes.shape[0])
    planes = (q_codes, q_scales, k_codes, k_scales, block_tables, weights)
    return prefill_scores(
        *planes, *windows, max_seq_len, weight_scale=weight_scale, units=units, out=out, stream=stream
    )


def quantise(x: Tensor, *, stream: Any = None) -> tuple[Tensor, Tensor]:
    """(packed codes uint8 [R, D/2], scale bytes uint8 [R, D/32]) of ``x`` bfloat16 or float32 [R, D]."""
    abi.rows_of_groups("x", x, (torch.bfloat16, torch.float32))
    rows, dim = x.shape
    codes = torch.empty(rows, dim // 2, dtype=torch.uint8, device=x.device)
    scales = torch.empty(rows, dim // abi.GROUP, dtype=torch.uint8, device=x.device)
    groups = scales.numel()
    if groups:
        launch_quantise(codes, scales, x, groups, -(-groups // THREADS), queue(stream))
    return codes, scales


def write_keys(k: Tensor, slots: Tensor, k_codes: Tensor, k_scales: Tensor, *, stream: Any = None) -> None:
    """Quantise ``k`` bfloat16 [R, D] and scatter it to ``slots`` int64 [R] of the planes, in place.

    slot = block * 64 + row; rows with a negative slot are skipped. Slots are distinct (else it
    is left to chance which row stays) and inside the planes; ValueError for one past the end.
    """
    abi.rows_of_groups("k", k, (torch.bfloat16,))
    rows, dim = k.shape
    abi.pages(k_codes, k_scales, dim)
    abi.require("slots", slots, (rows,), torch.int64)
    limit = k_codes.shape[0] * abi.PAGE_ROWS
    if rows and int(slots.max()) >= limit:
        raise ValueError(f"slots has {int(slots.max())}, allowed are values below {limit}")
    groups = rows * dim // abi.GROUP
    if groups:
        launch_write_keys(k_codes, k_scales, k, slots, groups, -(-groups // THREADS), dim, queue(stream))


def queue(stream: Any) -> Any:
    """The stream to launch on: the caller's, else torch's current one."""
    return torch.cuda.current_stream() if stream is None else stream


def decode_units(sequences: int, next_n: int, max_seq_len: int) -> int:
    """Slots of a decode grid: as many as chunks, but no more than fill a chip; one a row at least."""
    wanted = min(-(-DECODE_FLOOR // next_n), sequences * schedules.widest(max_seq_len))
    return next_n * max(1, sequences, wanted)


def prefill_units(rows: int, max_seq_len: int) -> int:
    """Slots of a prefill grid, likewise."""
    return max(1, rows, min(PREFILL_FLOOR, rows * schedules.widest(max_seq_len)))
