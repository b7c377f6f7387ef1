"""Faults of the layout: where codes and scale bytes of a page lie, on one side of the page or on both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.faults.fault import Fault, Plant, Wrong
from harness.faults.scored import SCORERS, in_scorers, on_planes
from harness.faults.stages.scoring import KERNELS, scales_at
from harness.faults.written import How
from harness.paths.requests.scoring import Planes
from oracles.layout import PAGE_ROWS

LAYOUT = "layout-h16-d128-ctx20-tshuffled-s1"
DECODE = "decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1"
WRITE = "write-r3-h16-d128-fboundary-s1"
ONE_ROW = "decode-n1-h16-d128-ctx1-tshuffled-u0-l0-fbytes-s1"
WRITER = "aiter: csrc/kernels/cache_kernels.cu, indexer_qk_rope_quant_and_cache"
LANES = 2
"""Rows of 32-row pages that share a lane: the bend's multiplier where it is taken from a constant."""


def lanes_of_other_pages(row: Any) -> Any:
    """Place of a page row under the bend of pages of 32 rows; in bounds, and no longer one to one."""
    return row % 16 * LANES + row // 16


def flat(row: int) -> int:
    return row


def swapped(name: str) -> Wrong:
    """The nibbles of each byte of plane ``name`` exchanged."""

    def changed(planes: Planes) -> dict[str, Tensor]:
        codes: Tensor = getattr(planes, name)
        return {name: codes >> 4 | (codes & 15) << 4}

    return on_planes(changed)


def in_rows(plane: Tensor, block: int, row: int, packed: Tensor) -> None:
    """A page's codes row after row, 64 bytes each, instead of group after group."""
    page = plane[block].flatten(1)  # [K, 4 * rows * 16], a view: planes are contiguous within a page
    size = packed[0].numel()
    page[:, row * size : (row + 1) * size] = packed.flatten(1)


def from_rows(planes: Planes) -> dict[str, Tensor]:
    """The key plane as a reader of rows of 64 bytes sees it."""
    codes = planes.k_codes
    blocks, tiles, groups, rows, size = codes.shape
    seen = codes.reshape(blocks, tiles, rows, groups, size).permute(0, 1, 3, 2, 4)
    return {"k_codes": seen.contiguous()}


def lanes_constant() -> Plant:
    """Wherever a scale is written and wherever one is read."""
    rows = torch.arange(PAGE_ROWS)
    wrong = on_planes(lambda planes: scales_at(planes, lanes_of_other_pages(rows)))
    writers = How(bend=lanes_of_other_pages).in_writers
    return lambda: {**writers(), **dict.fromkeys(SCORERS, wrong)}


def fault(name: str, wrong: str, seen: str, weak: str, case: str, source: str, plant: Plant) -> Fault:
    return Fault(name, "layout", wrong, seen, weak, case, source, plant)


FAULTS: tuple[Fault, ...] = (
    fault(
        "scale-lanes-constant",
        "the multiplier of the bend is a constant, that of pages of 32 rows, whatever the page",
        "ROCm/ATOM #2216, ROCm/aiter #4028 (B11)",
        f"uniform scales; the first row of a page ({ONE_ROW})",
        DECODE,
        KERNELS,
        lanes_constant(),
    ),
    fault(
        "scorer-scale-flat",
        "the scorer reads scales in token order, where they are bent",
        "ROCm/ATOM #2216, ROCm/aiter #4028 (B11)",
        f"uniform scales; the first row of a page ({ONE_ROW})",
        DECODE,
        KERNELS,
        in_scorers(on_planes(lambda planes: scales_at(planes, torch.arange(PAGE_ROWS)))),
    ),
    fault(
        "writer-scale-flat",
        "the writer puts scales in token order, where readers bend them",
        "ROCm/ATOM #2216, ROCm/aiter #4028 (B11)",
        "uniform scales; a reader that is flat as well",
        WRITE,
        WRITER,
        How(bend=flat).in_writers,
    ),
    *(
        replace(
            fault(
                name,
                f"the scorer takes the high nibble of a {side}'s byte first; a sum over pairs of codes is the"
                f" same where it is the {other}'s",
                "triton-lang/triton #5197, ROCm/composable_kernel #1889 (B07)",
                "pairs of equal codes; the other side swapped as well",
                DECODE,
                KERNELS,
                in_scorers(swapped(plane)),
            ),
            twin=twin,
        )
        for name, twin, side, other, plane in (
            ("nibble-swap-read", "nibble-swap-query", "key", "query", "k_codes"),
            ("nibble-swap-query", "nibble-swap-read", "query", "key", "q_codes"),
        )
    ),
    fault(
        "keys-written-in-rows",
        "the writer stores a page row after row, where readers expect groups of 16 bytes of all rows",
        "vllm #52109, #50455, sglang #31563 (B13)",
        "a reader of rows; pages of one row",
        WRITE,
        WRITER,
        How(stored=in_rows).in_writers,
    ),
    fault(
        "keys-read-in-rows",
        "the scorer reads a page row after row, where its groups of 16 bytes lie one after the other",
        "vllm #52109, #50455, sglang #31563 (B13)",
        "a writer of rows; pages of one row",
        DECODE,
        KERNELS,
        in_scorers(on_planes(from_rows)),
    ),
)
