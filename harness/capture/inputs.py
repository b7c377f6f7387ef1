"""A capture as a case and its tensors, so that the scoring suites' own judges compare it.

What is asked keeps the tables as captured. What is judged has block 0 where a table is not in
use, so that looking for the reason of a wrong value never follows an entry that holds anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.capture.format import PAGE_ROWS, SUITE
from harness.capture.loading import Capture
from harness.case.cases import Case
from harness.fill.fills import Filled
from harness.fill.inputs import Inputs
from oracles import layout


@dataclass(frozen=True)
class CaptureCase(Case):
    """A case that is a file: its id is its digest, and no list or limit of cases applies to it."""

    capture: Capture | None = None

    def __post_init__(self) -> None:
        """Nothing to check: the capture was checked when it was read."""

    @property
    def held(self) -> Capture:
        assert self.capture is not None
        return self.capture

    @property
    def kind(self) -> str:
        return self.held.manifest.kind

    @property
    def id(self) -> str:
        return self.held.id

    @property
    def rows(self) -> int:
        return len(self.held.tensors["q_codes"])


def case_of(capture: Capture) -> CaptureCase:
    """The case that ``capture`` is; ``ctx`` holds one past the last visible key of each sequence."""
    planes, manifest = capture.planes, capture.manifest
    return CaptureCase(
        SUITE,
        n=manifest.next_n,
        h=planes.heads,
        d=planes.head_dim,
        ctx=tuple(lengths(capture).tolist()),
        l=manifest.max_seq_len,
        k=manifest.index_topk or 0,
        capture=capture,
    )


def lengths(capture: Capture) -> Tensor:
    """Keys of each sequence up to the last visible one, int64 [B]."""
    windows = capture.windows
    ends = windows.end * (windows.end > windows.start)
    return torch.zeros(len(capture.planes.block_tables), dtype=torch.int64).scatter_reduce_(
        0, windows.seq, ends, "amax"
    )


def inputs_of(case: CaptureCase) -> Inputs:
    """The tensors of a capture; its operands unpacked as a fill would have made them."""
    capture = case.held
    planes, windows, ctx = capture.planes, capture.windows, torch.tensor(case.ctx)
    keys = [
        layout.read_keys(planes.k_codes, planes.k_scales, row, length)
        for row, length in zip(planes.block_tables, case.ctx, strict=True)
    ]
    filled = Filled(
        layout.unpack_nibbles(planes.q_codes),
        layout.read_query_scales(planes.q_scales, planes.heads),
        torch.cat([codes for codes, _ in keys]),
        torch.cat([scales for _, scales in keys]),
        planes.weights,
        capture.manifest.weight_scale,
        exactable=True,
    )
    context_lens = capture.tensors.get("context_lens", ctx.to(torch.int32))
    return Inputs(
        case, filled, planes, windows.seq, windows.start, windows.end, context_lens, torch.zeros(1).int()
    )


def judged(inputs: Inputs) -> Inputs:
    """``inputs`` whose tables name block 0 past the pages in use."""
    table = inputs.planes.block_tables
    used = torch.arange(table.shape[1]) < -(-torch.tensor(inputs.case.ctx) // PAGE_ROWS).unsqueeze(1)
    return replace(inputs, planes=replace(inputs.planes, block_tables=table.masked_fill(~used, 0)))


def is_identity(inputs: Inputs) -> bool:
    """Whether page i of every sequence in use is block i, so that a table nobody reads would pass."""
    page = torch.arange(inputs.planes.block_tables.shape[1])
    used = page < -(-torch.tensor(inputs.case.ctx) // PAGE_ROWS).unsqueeze(1)
    return bool(((inputs.planes.block_tables == page) | ~used).all())
