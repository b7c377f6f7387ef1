"""In-tree top-k: host functions around `selecting_kernel`, interpreted without a GPU, native with one.

Lengths come from the caller and bound every load, so a length beyond the matrix is refused here: the
kernel would read the next row and select columns that do not exist.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from harness.paths import base
from harness.paths.requests.selecting import SelectDecode, SelectPrefill

BLOCK, WHOLE = 4096, 1 << 15
"""Keys that one program looks at at a time, on a GPU and interpreted."""


def answers(path: base.Path) -> base.Answers:
    return {SelectDecode: decode, SelectPrefill: prefill}


@cache
def kernels() -> ModuleType:
    """The kernels, interpreted where nothing else can be."""
    from harness.paths import registry

    if not torch.cuda.is_available():
        registry.prepare_environment("flydsl")
    from harness.paths.flydsl import selecting_kernel

    return selecting_kernel


def decode(request: SelectDecode) -> base.Outcome:
    newer = torch.arange(request.next_n - 1, -1, -1, dtype=torch.int32)
    ends = (request.context_lens[:, None] - newer).clamp(min=0).flatten()
    return _select(request, torch.zeros_like(ends), ends)


def prefill(request: SelectPrefill) -> base.Outcome:
    return _select(request, request.row_start, request.row_end)


def _select(request: SelectDecode | SelectPrefill, starts: Tensor, ends: Tensor) -> base.Outcome:
    rows, width = request.logits.shape
    if len(ends) != rows or bool((ends > width).any()) or bool((starts < 0).any()):
        raise ValueError(f"the windows are not those of {rows} rows of {width} columns")
    if request.ids.shape != (rows, request.k) or not request.ids.is_contiguous():
        raise ValueError(f"ids is {list(request.ids.shape)}, allowed is a packed [{rows}, {request.k}]")
    logits, ids = _put(request.logits), _put(request.ids)
    most = BLOCK if torch.cuda.is_available() else WHOLE
    block = min(most, max(128, 1 << (width - 1).bit_length()))
    kernels().select_kernel[(rows,)](
        logits, _put(starts), _put(ends), ids, logits.stride(0), request.k, request.stable, block
    )
    if ids is not request.ids:
        request.ids.copy_(ids)
    ran = "device" if torch.cuda.is_available() else "interpreted"
    return base.Outcome(request.ids, facts={"executor": ran})


def _put(tensor: Tensor) -> Tensor:
    """On the device when there is one, with its strides."""
    if not torch.cuda.is_available() or not tensor.numel():
        return tensor
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((reach + 1,), (1,)).to("cuda").as_strided(tensor.shape, tensor.stride())
