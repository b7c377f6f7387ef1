"""Faults of windows and tables: which keys a row meets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Answer, Fault, Plant
from harness.faults.plants import asking
from harness.faults.scored import (
    in_scorers,
    lengths_of,
    newer_rows,
    on_planes,
    windows_of,
    with_windows,
)
from harness.paths.base import Outcome
from harness.paths.requests.scoring import (
    DecodeScores,
    Planes,
    PrefillScores,
    VarqlenScores,
    VarqlenWindows,
)
from oracles.layout import PAGE_ROWS
from oracles.schedule import BLOCK_K

DECODE = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"
TWO_ROWS = "decode-n2-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"
WINDOW = "prefill-h16-d128-ctx20-w0@3:12-c0-tshuffled-u0-l0-fbytes-s1"
FROM_ZERO = "prefill-h16-d128-ctx20-w0@0:12-c0-tshuffled-u0-l0-fbytes-s1"
COUNTED = (DecodeScores, VarqlenScores)
"""Scorers that count a row's window back from the end of the context."""
KERNELS = "aiter: ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py and pa_mqa_logits_fp4_prefill.py"
TILE = 16
LONGEST = 2048


def older_rows(step: int) -> Any:
    """The windows of all rows of a sequence but the newest end ``step`` keys later."""

    def changed(request: Any) -> Any:
        newer = newer_rows(request)
        held = torch.where(newer > 0, newer - step, 0)
        return with_windows(request, end=(lengths_of(request) - held).clamp(min=0))

    return asking(changed)


def all_ends(step: int) -> Any:
    """Every window ends ``step`` keys later, in the chunks that its schedule covers."""

    def changed(request: Any) -> Any:
        rows, chunks_of = windows_of(request), windows_of(request).end
        if isinstance(request, DecodeScores):  # chunks are the sequence's, so that an empty row has some
            end, chunks_of = lengths_of(request) - newer_rows(request), lengths_of(request)
        else:
            end = torch.where(rows.end > rows.start, rows.end, rows.end - step)
        last = (-(-chunks_of // BLOCK_K) * BLOCK_K).clamp(max=request.max_seq_len)
        return with_windows(request, end=torch.minimum(end + step, last).clamp(min=0))

    return asking(changed)


def all_starts(step: int) -> Any:
    """Every window that has a key starts ``step`` keys later."""

    def changed(request: Any) -> Any:
        rows = windows_of(request)
        start = (rows.start + step).clamp(min=0)
        return with_windows(request, start=torch.where(rows.end > rows.start, start, rows.start))

    return asking(changed)


def exchanged(request: Any) -> Any:
    """Row n of a sequence reads the query of the row as far from its other end."""
    rows, newer = windows_of(request), newer_rows(request)
    count = torch.bincount(rows.seq)[rows.seq]
    place = torch.arange(rows.rows)
    other = place + newer - (count - 1 - newer)
    if isinstance(request, VarqlenScores):
        other = torch.where(place < int(request.cu_seq_q[-1]), other, place)
    planes = request.planes
    read = {name: getattr(planes, name)[other] for name in ("q_codes", "q_scales", "weights")}
    return replace(request, planes=replace(planes, **read))


def from_the_tile(request: Any) -> Any:
    return with_windows(request, start=windows_of(request).start // TILE * TILE)


def to_the_tile(request: Any) -> Any:
    """Where a window has keys it goes on to the end of its tile."""
    rows = windows_of(request)
    end = (-(-rows.end // TILE) * TILE).clamp(max=request.max_seq_len)
    return with_windows(request, end=torch.where(rows.end > rows.start, end, rows.end))


def own_chunk(request: Any) -> Any:
    """Keys before those of the rows in hand are not scored: windows begin at the first row's own key."""
    rows, start = windows_of(request), windows_of(request).start.clone()
    for sequence in rows.seq.unique().tolist():
        mine = (rows.seq == sequence) & (rows.end > rows.start)
        if bool(mine.any()):
            start[mine] = torch.maximum(start[mine], rows.end[mine].min() - 1)
    return with_windows(request, start=start)


def counted_over_all(request: Any, context_lens: Tensor, row: Tensor, seq: Tensor) -> Tensor:
    """Ends counted back from the last row of the batch, not of the sequence."""
    last = int(request.cu_seq_q[-1])
    end = (context_lens.long()[seq] - (last - 1 - row)).clamp(min=0)
    return end.masked_fill(row >= last, 0)


def one_offset(request: Any, right: Answer) -> Outcome:
    if isinstance(request, VarqlenWindows):
        outcome = right(request)
        seq, start, end = outcome.value
        wrong = counted_over_all(request, request.context_lens, torch.arange(len(seq)), seq.long())
        return replace(outcome, value=(seq, start, wrong.to(end.dtype)))
    rows = windows_of(request)
    return right(
        with_windows(
            request, end=counted_over_all(request, request.context_lens, torch.arange(rows.rows), rows.seq)
        )
    )


def first_sequence(planes: Planes) -> dict[str, Tensor]:
    tables = planes.block_tables
    return {"block_tables": tables[:1].expand(tables.shape).contiguous()}


def wrapped_table(planes: Planes) -> dict[str, Tensor]:
    page = torch.arange(planes.block_tables.shape[1]) % (LONGEST // PAGE_ROWS)
    return {"block_tables": planes.block_tables[:, page].contiguous()}


def fault(name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant) -> Fault:
    return Fault(name, "mask", wrong, seen, weak, case, KERNELS, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "mask-off-by-one-early",
        "all rows of a sequence but the newest see one key too few",
        "fault catalogue: N-1-n applied wrongly",
        f"one row a sequence ({DECODE})",
        TWO_ROWS,
        in_scorers(older_rows(-1), COUNTED),
    ),
    fault(
        "mask-off-by-one-late",
        "all rows of a sequence but the newest see one key too many",
        "fault catalogue: N-1-n applied wrongly",
        f"one row a sequence ({DECODE})",
        TWO_ROWS,
        in_scorers(older_rows(1), COUNTED),
    ),
    fault(
        "mask-all-early",
        "every row, the newest too, sees one key too few at the end",
        "neighbour of mask-off-by-one-early",
        "top-k of contexts whose newest key is not among the k",
        DECODE,
        in_scorers(all_ends(-1)),
    ),
    fault(
        "mask-all-late",
        "every row, the newest too, sees one key too many at the end",
        "neighbour of mask-off-by-one-late",
        "scores inside the windows alone",
        DECODE,
        in_scorers(all_ends(1)),
    ),
    fault(
        "window-start-early",
        "every row sees the key before its window's start too",
        "neighbour of window-start-ignored",
        f"windows from 0 ({FROM_ZERO})",
        WINDOW,
        in_scorers(all_starts(-1), (PrefillScores,)),
    ),
    fault(
        "window-start-late",
        "every row misses the first key of its window",
        "neighbour of window-start-ignored",
        "top-k of windows whose first key is not among the k",
        WINDOW,
        in_scorers(all_starts(1), (PrefillScores,)),
    ),
    fault(
        "next-n-swap",
        "the rows of a sequence are taken in the opposite order",
        "fault catalogue",
        f"one row a sequence ({DECODE})",
        TWO_ROWS,
        in_scorers(asking(exchanged), COUNTED),
    ),
    fault(
        "window-start-ignored",
        "a row sees its sequence from the first key on, whatever its window's start",
        "sglang #12583 (B29)",
        f"windows from 0 ({FROM_ZERO})",
        WINDOW,
        in_scorers(
            asking(lambda request: with_windows(request, start=torch.zeros_like(request.row_start))),
            (PrefillScores,),
        ),
    ),
    fault(
        "window-start-rounded",
        "a window begins with its first tile of 16 keys: stores below its start are not masked",
        "ROCm/aiter #5285, ROCm/FlyDSL #494 (B26)",
        f"windows from a multiple of 16 ({FROM_ZERO})",
        WINDOW,
        in_scorers(asking(from_the_tile), (PrefillScores,)),
    ),
    fault(
        "window-end-rounded",
        "a window ends with its last tile of 16 keys: stores past its end are not masked",
        "ROCm/aiter #5285, ROCm/FlyDSL #494 (B26)",
        "windows that end with a tile (decode-n1-h16-d128-ctx16-tshuffled-u0-l0-fbytes-s1)",
        DECODE,
        in_scorers(asking(to_the_tile)),
    ),
    fault(
        "window-one-offset",
        "rows of all sequences count their windows back from the last row of the batch",
        "sglang #12583 (B29)",
        "one sequence (varqlen-h16-d128-ctx20-q2-p0-tshuffled-u0-l0-fbytes-s1)",
        "varqlen-h16-d128-ctx20x2-q1x2-p0-tshuffled-u0-l0-fbytes-s1",
        in_scorers(one_offset, (VarqlenScores, VarqlenWindows)),
    ),
    fault(
        "cached-prefix-ignored",
        "prefill scores only the keys of the chunk in hand, not those of the cached prefix",
        "vllm #51252, hw-native-sys/pypto-lib #592 (B31)",
        "prompts without a cached prefix (prefill-h16-d128-ctx20-w0@0:1+12-c0-tshuffled-u0-l0-fbytes-s1)",
        FROM_ZERO,
        in_scorers(asking(own_chunk), (PrefillScores,)),
    ),
    fault(
        "own-pages-only",
        "all rows read the pages of the first sequence",
        "fault catalogue",
        f"one sequence ({DECODE})",
        "decode-n1-h16-d128-ctx20x2-tshuffled-u0-l0-fbytes-s1",
        in_scorers(on_planes(first_sequence)),
    ),
    fault(
        "table-wraps-at-2048",
        "the pages of keys past 2048 are those of the first 2048 over again",
        "vllm #39303 (B28)",
        f"contexts up to 2048 ({DECODE})",
        "decode-n1-h16-d128-ctx2049-tshuffled-u0-l0-fbytes-s1",
        in_scorers(on_planes(wrapped_table)),
    ),
)
