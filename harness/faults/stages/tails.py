"""Faults of a scorer's stores: cells that are not written, or that must not be."""

from __future__ import annotations

from typing import Any

import torch

from harness.faults.fault import Answer, Fault, Plant
from harness.faults.scored import SCORERS, in_scorers, stored, windows_of
from harness.paths.base import Outcome
from harness.paths.requests.scoring import DecodeScores, PrefillScores, VarqlenScores
from oracles import schedule, windows

DECODE = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"
WHOLE_CHUNK = "decode-n1-h16-d128-ctx256-tshuffled-u0-l0-fbytes-s1"
KERNELS = "aiter: ops/flydsl/kernels/mqa_logits/pa_mqa_logits_fp4.py and pa_mqa_logits_fp4_prefill.py"
TILE = 16


def bytes_past_two_gibibytes(request: Any, right: Answer) -> Outcome:
    """A store at byte 2^31 of the caller's buffer or later never happens."""
    out = request.out
    if out is None:
        return right(request)
    row, column = torch.arange(out.shape[0])[:, None], torch.arange(out.shape[1])
    lost = (row * out.stride(0) + column) * 4 >= 1 << 31
    before = out[lost].clone()
    outcome = right(request)
    # The host clears the buffer, not the kernel, where the schedule is not the caller's.
    outcome.value[lost] = before if getattr(request, "schedule", None) is not None else -torch.inf
    return outcome


def tail_not_cleared(request: Any, right: Answer) -> Outcome:
    """Cells outside the windows hold what the buffer held (zero in a new one), not minus infinity."""
    before = None if request.out is None else request.out.clone()
    outcome = right(request)
    if getattr(request, "schedule", None) is None:
        outside = ~windows.visible(windows_of(request), request.max_seq_len)
        outcome.value[outside] = 0.0 if before is None else before[outside]
    return outcome


def tail_overwritten(request: Any, right: Answer) -> Outcome:
    """Masked lanes store minus infinity, so that the rest of a window's last chunk is lost to the caller."""
    outcome = right(request)
    column, ends = torch.arange(request.max_seq_len), windows_of(request).end[:, None]
    chunk = -(-ends // schedule.BLOCK_K) * schedule.BLOCK_K
    outcome.value[(column >= ends) & (column < chunk)] = -torch.inf
    return outcome


def idle_lane(request: Any, right: Answer) -> Outcome:
    """Lanes past the window park at an offset of its length, as if it began at 0, and store there.

    They have computed the last visible key, and there are some unless the window ends with a tile.
    """
    outcome, rows = right(request), windows_of(request)
    parked = (rows.start > 0) & (rows.end > rows.start) & (rows.end % TILE > 0)
    parked &= stored(request).any(1)
    for row in parked.nonzero().flatten().tolist():
        start, end = int(rows.start[row]), int(rows.end[row])
        outcome.value[row, end - start] = outcome.value[row, end - 1]
    return outcome


def missing_sync() -> dict[type, Any]:
    """In every second launch the last tile of 16 keys is scored before it has been loaded."""
    launches = 0

    def wrong(request: Any, right: Answer) -> Outcome:
        nonlocal launches
        launches, outcome, rows = launches + 1, right(request), windows_of(request)
        if launches % 2 == 0:
            for row in stored(request).any(1).nonzero().flatten().tolist():
                end = int(rows.end[row])
                late = torch.arange((end - 1) // TILE * TILE, end)
                late = late[late - TILE >= int(rows.start[row])]
                outcome.value[row, late] = outcome.value[row, late - TILE]
        return outcome

    return dict.fromkeys(SCORERS, wrong)


def fault(name: str, wrong: str, seen: str, weak: str, case: str, plant: Plant) -> Fault:
    return Fault(name, "store", wrong, seen, weak, case, KERNELS, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "int32-overflow",
        "stores past 2 GiB of the caller's buffer are dropped, since their offset has 32 bits",
        "ROCm/aiter #4244 (B23)",
        f"small outputs ({DECODE})",
        "decode-n1-h16-d128-ctx20x2-tfar-u0-l0-fbytes-s1",
        in_scorers(bytes_past_two_gibibytes),
    ),
    fault(
        "tail-not-cleared",
        "a buffer whose schedule is the path's own is not cleared outside the windows",
        "vllm #33568, #50008, sglang #33247 (B32)",
        f"windows as wide as the buffer ({WHOLE_CHUNK})",
        DECODE,
        in_scorers(tail_not_cleared),
    ),
    fault(
        "tail-overwritten",
        "minus infinity is stored past a window, to the end of its chunk, in a buffer that is the caller's",
        "vllm #33568, #50008, sglang #33247 (B32)",
        f"windows that end with a chunk ({WHOLE_CHUNK})",
        DECODE,
        in_scorers(tail_overwritten, (DecodeScores, PrefillScores)),
    ),
    fault(
        "idle-lane-store",
        "lanes past a window store at an offset of its length, as if the window began at 0",
        "ROCm/aiter #5285, ROCm/FlyDSL #494 (B26)",
        "windows from 0, or that end with a tile"
        " (prefill-h16-d128-ctx20-w0@0:12,0@3:16-c0-tshuffled-u0-l0-fbytes-s1)",
        "prefill-h16-d128-ctx20-w0@3:12-c0-tshuffled-u0-l0-fbytes-s1",
        in_scorers(idle_lane, (PrefillScores, VarqlenScores)),
    ),
    fault(
        "missing-sync",
        "in every second launch the last tile is scored before its keys have been loaded",
        "DeepGEMM #392 (B27)",
        "a single launch; contexts of one tile (decode-n1-h16-d128-ctx16-tshuffled-u0-l0-fbytes-s1)",
        DECODE,
        missing_sync,
    ),
)
