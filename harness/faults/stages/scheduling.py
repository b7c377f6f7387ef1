"""Faults of the schedule builders: chunks cut off, done twice, never done, and sizes that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from harness.faults import builders
from harness.faults.fault import Answer, Fault
from harness.faults.plants import always
from harness.paths.base import Outcome
from harness.paths.requests import publishing
from oracles import schedule
from oracles.windows import Windows

DECODE = "aiter aiter/ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py: compute_varctx_schedule"
PREFILL = "aiter aiter/ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4_prefill.py: compute_prefill_schedule"
ENTRIES = "aiter aiter/ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py: _varctx_cta_info_kernel"
RAGGED = "aiter aiter/ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4_prefill.py: _prefill_cta_info_kernel"
UNITS = "ATOM atom/model_ops/sparse_indexer_fp4.py: fp4_decode_parallel_units"

Slots = Callable[[Tensor, int], Tensor]
"""From (chunks of each row int64 [R], chunks a slot) to slots int64 [S, 3] of (row, first chunk, count)."""


def right_slots(per_row: Tensor, size: int) -> Tensor:
    """Slot j of a row takes chunks j * size to (j + 1) * size, the last one what is left."""
    return _slots(per_row, size, schedule.chunks(per_row, size))


def single(per_row: Tensor, size: int) -> Tensor:
    """A chunk a slot, whatever was to fit."""
    return right_slots(per_row, 1)


def pulled_back(per_row: Tensor, size: int) -> Tensor:
    """The last slot of a row starts early enough to be a full one."""
    made = right_slots(per_row, size)
    chunks = per_row[made[:, 0]]
    made[:, 1] = torch.minimum(made[:, 1], (chunks - size).clamp(min=0))
    made[:, 2] = torch.minimum(chunks - made[:, 1], torch.full_like(chunks, size))
    return made


def rounded_down(per_row: Tensor, size: int) -> Tensor:
    """As many slots as are full, one at least: what is left of a row is nobody's."""
    return _slots(per_row, size, torch.maximum(per_row // size, per_row.clamp(max=1)))


def _slots(per_row: Tensor, size: int, splits: Tensor) -> Tensor:
    row = torch.arange(len(per_row)).repeat_interleave(splits)
    first = (torch.arange(len(row)) - (splits.cumsum(0) - splits)[row]) * size
    return torch.stack([row, first, (per_row[row] - first).clamp(max=size)], 1)


def decode(slots: Slots, context_lens: Tensor, next_n: int, units: int, max_seq_len: int) -> Tensor:
    """Entries int32 [units, 4] of ``slots``, cut off where they end. Raises ValueError as it must."""
    schedule.decode_schedule(context_lens, units=units, next_n=next_n, max_seq_len=max_seq_len)
    return unchecked_decode(slots, context_lens, next_n, units, max_seq_len)


def unchecked_decode(slots: Slots, context_lens: Tensor, next_n: int, units: int, max_seq_len: int) -> Tensor:
    """The same for any number of units."""
    per_row = schedule.chunks(context_lens)
    largest = max(1, -(-max_seq_len // schedule.BLOCK_K))
    size = schedule.split_size(per_row, repeat=next_n, units=units, largest=largest)
    made = slots(per_row, size)
    entries = torch.cat([made, context_lens.long()[made[:, 0]].unsqueeze(1)], 1).repeat_interleave(next_n, 0)
    entries[:, 0] = entries[:, 0] * next_n + torch.arange(next_n).repeat(len(made))
    return _cut_off(entries, units, schedule.DECODE_IDLE)


def prefill(slots: Slots, rows: Windows, units: int, max_seq_len: int) -> Tensor:
    """Entries int32 [units, 6] of ``slots``, cut off where they end. Raises ValueError as it must."""
    schedule.prefill_schedule(rows, units=units, max_seq_len=max_seq_len)
    return unchecked_prefill(slots, rows, units, max_seq_len)


def unchecked_prefill(slots: Slots, rows: Windows, units: int, max_seq_len: int) -> Tensor:
    """The same for any number of units."""
    per_row = schedule.chunks(rows.end)
    largest = max(1, -(-max_seq_len // schedule.BLOCK_K))
    row, first, count = slots(per_row, schedule.split_size(per_row, repeat=1, units=units, largest=largest)).T
    seq, start, end = (part[row] for part in (rows.seq, rows.start, rows.end))
    return _cut_off(torch.stack([row, seq, first, count, start, end], 1), units, schedule.PREFILL_IDLE)


def from_window_start(rows: Windows, units: int, max_seq_len: int) -> Tensor:
    """Chunks counted from the chunk of the window's start, in number and in place."""
    made = schedule.prefill_schedule(
        Windows(rows.seq, torch.zeros_like(rows.start), (rows.end - rows.start).clamp(min=0)),
        units=units,
        max_seq_len=max_seq_len,
    )
    busy = made[:, 4] < made[:, 5]
    row = made[busy, 0].long()
    made[busy, 2] += (rows.start[row] // schedule.BLOCK_K).int()
    made[busy, 4], made[busy, 5] = rows.start[row].int(), rows.end[row].int()
    return made


def _cut_off(entries: Tensor, units: int, idle: tuple[int, ...]) -> Tensor:
    made = torch.tensor(idle, dtype=torch.int32).repeat(units, 1)
    made[: len(entries)] = entries[:units].int()
    return made


def floor_of_units(request: publishing.Units, right: Answer) -> Outcome:
    """The floor itself where rows need no more."""
    made = max(schedule.DECODE_UNITS_FLOOR, request.next_n * request.max_bs)
    return Outcome(torch.tensor([made]))


FITS = "lengths that fit: a chunk a slot is right wherever there are slots for all"
EVEN = "lengths whose chunks are a multiple of the split size"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="short-schedule",
        stage="schedule",
        wrong="the builder gives a chunk a slot whatever fits, and what lies past P entries is cut off",
        seen="fault catalogue; ROCm/aiter #4028 (B19)",
        weak=FITS,
        case="schedule-n1-ctx513-u2-l0",
        source=ENTRIES,
        plant=always(builders.decode(partial(decode, single))),
    ),
    Fault(
        name="short-prefill-schedule",
        stage="schedule",
        wrong="the prefill builder gives a chunk a slot whatever fits, and what is past P entries is lost",
        seen="ROCm/aiter #4028 (B19)",
        weak=FITS,
        case="schedule-w0@0:513-u2-l0",
        source=RAGGED,
        plant=always(builders.ragged(partial(prefill, single))),
    ),
    Fault(
        name="double-cover",
        stage="schedule",
        wrong="the last slot of a sequence is pulled back to be a full one, so a chunk is scored twice",
        seen="fault catalogue",
        weak=EVEN,
        case="schedule-n1-ctx513-u2-l0",
        source=ENTRIES,
        plant=always(builders.decode(partial(decode, pulled_back))),
    ),
    Fault(
        name="double-cover-prefill",
        stage="schedule",
        wrong="the last slot of a row is pulled back to be a full one, so a chunk is scored twice",
        seen="fault catalogue",
        weak=EVEN,
        case="schedule-w0@0:513-u2-l0",
        source=RAGGED,
        plant=always(builders.ragged(partial(prefill, pulled_back))),
    ),
    Fault(
        name="gap-cover",
        stage="schedule",
        wrong="a sequence gets as many slots as are full, so the chunks left over are never scored",
        seen="fault catalogue",
        weak=EVEN,
        case="schedule-n1-ctx513-u2-l0",
        source=ENTRIES,
        plant=always(builders.decode(partial(decode, rounded_down))),
    ),
    Fault(
        name="gap-cover-prefill",
        stage="schedule",
        wrong="a row gets as many slots as are full, so the chunks left over are never scored",
        seen="fault catalogue",
        weak=EVEN,
        case="schedule-w0@0:513-u2-l0",
        source=RAGGED,
        plant=always(builders.ragged(partial(prefill, rounded_down))),
    ),
    Fault(
        name="chunks-from-window-start",
        stage="schedule",
        wrong="chunks of a prefill row are counted from its window's start, not from column 0",
        seen="neighbour of ROCm/aiter #5285 (B26)",
        weak="windows that start at 0",
        case="schedule-w0@255:257-u1-l0",
        source=PREFILL,
        plant=always(builders.ragged(from_window_start)),
    ),
    Fault(
        name="short-units-accepted",
        stage="schedule",
        wrong="fewer slots than sequences, or no multiple of N, are taken, and what is past them is dropped",
        seen="ROCm/aiter #4028 (B19)",
        weak="grids at their floor of 512",
        case="schedule-n1-ctx1x2-u2-l0",
        source=DECODE,
        plant=always(builders.decode(partial(unchecked_decode, right_slots))),
    ),
    Fault(
        name="short-prefill-units-accepted",
        stage="schedule",
        wrong="fewer slots than rows are taken by the prefill builder, and rows past them are dropped",
        seen="ROCm/aiter #4028 (B19)",
        weak="grids at their floor of 4096",
        case="schedule-w0@0:1+2-u2-l0",
        source=PREFILL,
        plant=always(builders.ragged(partial(unchecked_prefill, right_slots))),
    ),
    Fault(
        name="units-not-multiple",
        stage="schedule",
        wrong="the number of slots is max(512, N * max_bs), which is no multiple of N",
        seen="fault catalogue",
        weak="N = 1, 2, 4",
        case="speculative-n3-h16-d128-ctx258-steps1-ub1-tshuffled-fbytes-s1",
        source=UNITS,
        plant=always({publishing.Units: floor_of_units}),
    ),
)
