"""Which slot (CTA) scores which chunk of which row, and whether a schedule covers its work.

Contract: spec indexer.md 5. A chunk is ``block_k`` columns counted from column 0. A schedule
is right when every visible (row, chunk) is covered exactly once and nothing else is. It fails
silently when it is short: the scores of the chunks that were cut off keep what the buffer held.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles.windows import Windows, decode_windows

BLOCK_K = 256
DECODE_UNITS_FLOOR = 512
PREFILL_UNITS_FLOOR = 4096
DECODE_IDLE = (0, 0, 1, 0)
PREFILL_IDLE = (0, 0, 0, 1, 0, 0)


def decode_units(next_n: int, max_bs: int) -> int:
    """f(N) = N * max(ceil(512/N), max_bs): never below f(1), which lets one buffer serve every N."""
    return next_n * max(-(-DECODE_UNITS_FLOOR // next_n), max_bs)


def chunks(lengths: Tensor, block_k: int = BLOCK_K) -> Tensor:
    """ceil(length / block_k) as int64, 0 for lengths of 0 and below."""
    return (lengths.long() + block_k - 1).div(block_k, rounding_mode="floor").clamp(min=0)


def split_size(per_row: Tensor, *, repeat: int, units: int, largest: int) -> int:
    """Smallest s in [1, ``largest``] with repeat * sum ceil(per_row / s) <= units; else max(per_row)."""
    for size in range(1, largest + 1):
        if repeat * int(chunks(per_row, size).sum()) <= units:
            return size
    return max(1, int(per_row.max()))


def decode_schedule(
    context_lens: Tensor, *, units: int, next_n: int, max_seq_len: int, block_k: int = BLOCK_K
) -> Tensor:
    """Entries int32 [P, 4] (row, first chunk, chunk count, context length); ``context_lens`` int [B].

    Raises ValueError when P is no multiple of N or P/N < B.
    """
    sequences = context_lens.numel()
    if next_n < 1 or units % next_n:
        raise ValueError(f"units is {units}, allowed are multiples of next_n = {next_n}")
    if units // next_n < sequences:
        raise ValueError(
            f"units is {units}, allowed are {sequences * next_n} and above for {sequences} sequences"
        )
    per_sequence = chunks(context_lens, block_k)
    size = split_size(per_sequence, repeat=next_n, units=units, largest=_widest(max_seq_len, block_k))
    slots = _slots(per_sequence, size)  # [S, 3]: sequence, first, count
    schedule = torch.tensor(DECODE_IDLE, dtype=torch.int32).repeat(units, 1)
    rows = slots[:, :1] * next_n + torch.arange(next_n)  # [S, N]
    entries = torch.cat([slots, context_lens.cpu().long()[slots[:, 0]].unsqueeze(1)], 1)  # [S, 4]
    expanded = entries.repeat_interleave(next_n, 0)
    expanded[:, 0] = rows.flatten()
    schedule[: expanded.shape[0]] = expanded.int()
    return schedule.to(context_lens.device)


def prefill_schedule(windows: Windows, *, units: int, max_seq_len: int, block_k: int = BLOCK_K) -> Tensor:
    """Entries int32 [P, 6] (row, sequence, first chunk, count, start, end), chunks from ceil(end/block_k).

    Chunks count from column 0 even when start > 0. Raises ValueError when P < rows.
    """
    if units < windows.rows:
        raise ValueError(f"units is {units}, allowed are {windows.rows} and above for {windows.rows} rows")
    schedule = torch.tensor(PREFILL_IDLE, dtype=torch.int32).repeat(units, 1)
    if windows.rows:
        per_row = chunks(windows.end, block_k)
        size = split_size(per_row, repeat=1, units=units, largest=_widest(max_seq_len, block_k))
        row, first, count = _slots(per_row, size).T
        facts = (field.cpu()[row] for field in (windows.seq, windows.start, windows.end))
        seq, start, end = facts
        schedule[: row.numel()] = torch.stack([row, seq, first, count, start, end], 1).int()
    return schedule.to(windows.end.device)


def _widest(max_seq_len: int, block_k: int) -> int:
    return max(1, -(-max_seq_len // block_k))


def _slots(per_row: Tensor, size: int) -> Tensor:
    """(row, first chunk, count) int64 [S, 3]: slot j of a row covers [j*size, min((j+1)*size, chunks))."""
    per_row = per_row.cpu()
    splits = chunks(per_row, size)
    row = torch.arange(per_row.numel()).repeat_interleave(splits)
    before = splits.cumsum(0) - splits
    first = (torch.arange(row.numel()) - before[row]) * size
    count = (per_row[row] - first).clamp(max=size)
    return torch.stack([row, first, count], 1)


@dataclass(frozen=True)
class Coverage:
    """What a schedule gets wrong, as (row, chunk) pairs; ``wrong`` are indices of entries with false facts.

    missing: visible and never covered. doubled: covered more than once. foreign: covered, but
    the row does not exist or has no such chunk (a run of them in one entry is named by its first).
    """

    missing: tuple[tuple[int, int], ...]
    doubled: tuple[tuple[int, int], ...]
    foreign: tuple[tuple[int, int], ...]
    wrong: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        return not (self.missing or self.doubled or self.foreign or self.wrong)


def coverage(entries: Tensor, visible: Tensor, allowed: Tensor | None = None) -> Coverage:
    """Check ``entries`` int [E, 3] (row, first chunk, count) against chunk ranges int [R, 2] (first, end).

    Every chunk of ``visible`` must be covered exactly once; chunks of ``allowed`` (default: the
    same) may be, once.
    """
    entries, visible = entries.cpu().long(), visible.cpu().long()
    allowed = visible if allowed is None else allowed.cpu().long()
    rows = visible.shape[0]
    width = int(torch.cat([visible.flatten(), allowed.flatten(), torch.zeros(1).long()]).max())
    entries = entries[entries[:, 2] > 0]
    known = (entries[:, 0] >= 0) & (entries[:, 0] < rows)
    foreign = {(row, first) for row, first, _ in entries[~known].tolist()}
    row, first, count = entries[known].T
    last = first + count
    foreign |= _outside(row, first, last, allowed)
    times = _times(row, first.clamp(0, width), last.clamp(0, width), rows, width)
    column = torch.arange(width)
    wanted = (column >= visible[:, :1]) & (column < visible[:, 1:])
    return Coverage(
        missing=_pairs(wanted & (times == 0)), doubled=_pairs(times > 1), foreign=tuple(sorted(foreign))
    )


def _outside(row: Tensor, first: Tensor, last: Tensor, allowed: Tensor) -> set[tuple[int, int]]:
    """First chunk of each entry that lies outside the row's allowed range."""
    low, high = allowed[row, 0], allowed[row, 1]
    below = (first < low) | (high <= low)
    above = ~below & (last > high)
    place = torch.where(below, first, torch.maximum(first, high))
    bad = below | above
    return set(zip(row[bad].tolist(), place[bad].tolist(), strict=True))


def _times(row: Tensor, first: Tensor, last: Tensor, rows: int, width: int) -> Tensor:
    """How often each (row, chunk) is covered, int64 [rows, width]: running sum of begins minus ends."""
    steps = torch.zeros(rows, width + 1, dtype=torch.int64)
    one = torch.ones_like(row)
    steps.index_put_((row, first), one, accumulate=True)
    steps.index_put_((row, last), -one, accumulate=True)
    return steps.cumsum(1)[:, :width]


def _pairs(mask: Tensor) -> tuple[tuple[int, int], ...]:
    return tuple((row, chunk) for row, chunk in mask.nonzero().tolist())


def visible_chunks(windows: Windows, block_k: int = BLOCK_K) -> Tensor:
    """Range of chunks int64 [T, 2] in which a row sees a key; (0, 0) for an empty window."""
    empty = windows.start >= windows.end
    first = windows.start.div(block_k, rounding_mode="floor")
    return torch.stack([first, chunks(windows.end, block_k)], 1).masked_fill(empty.unsqueeze(1), 0)


def decode_coverage(
    schedule: Tensor, context_lens: Tensor, next_n: int, *, block_k: int = BLOCK_K
) -> Coverage:
    """Check a decode schedule int [P, 4]; entries with context length 0 are idle.

    A row may cover every chunk of its sequence, although its own window can end one chunk earlier.
    """
    schedule, lengths = schedule.cpu().long(), context_lens.cpu().long().repeat_interleave(next_n)
    busy = schedule[:, 3] != 0
    allowed = torch.stack([torch.zeros_like(lengths), chunks(lengths, block_k)], 1)
    visible = visible_chunks(decode_windows(context_lens.cpu(), next_n), block_k)
    wrong = _contradictions(schedule, busy, schedule[:, 3:], lengths.unsqueeze(1))
    found = coverage(schedule[busy][:, :3], visible, allowed)
    return Coverage(found.missing, found.doubled, found.foreign, wrong)


def prefill_coverage(schedule: Tensor, windows: Windows, *, block_k: int = BLOCK_K) -> Coverage:
    """Check a prefill schedule int [P, 6]; entries with an empty window are idle.

    A row may cover the chunks before its start, which hold nothing it sees.
    """
    schedule = schedule.cpu().long()
    busy = schedule[:, 4] < schedule[:, 5]
    facts = torch.stack([windows.seq, windows.start, windows.end], 1).cpu()
    visible = visible_chunks(windows, block_k).cpu()
    allowed = visible.clone()
    allowed[:, 0] = 0
    wrong = _contradictions(schedule, busy, schedule[:, [1, 4, 5]], facts)
    found = coverage(schedule[busy][:, [0, 2, 3]], visible, allowed)
    return Coverage(found.missing, found.doubled, found.foreign, wrong)


def _contradictions(schedule: Tensor, busy: Tensor, said: Tensor, true: Tensor) -> tuple[int, ...]:
    """Busy entries of known rows whose facts (length, or sequence and window) are not the row's."""
    row = schedule[:, 0]
    known = busy & (row >= 0) & (row < true.shape[0])
    if not true.shape[0]:
        return ()
    false = (said != true[row.clamp(0, true.shape[0] - 1)]).any(1)
    return tuple((known & false).nonzero().flatten().tolist())
