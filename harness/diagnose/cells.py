"""The form in which answers are held side by side: int64 tensors by name, with marks for what is left open.

Contract: two tensors of this form are equal where the answers are the same in what counts; a cell that
several values are right in holds `RIGHT`, one of a tie holds `TIE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness.checks.writer.wanted import as_bits
from harness.judge.bits import SENTINEL

RIGHT = 1 << 40
"""Stands for every right value of a cell that has several; no pattern of 32 bits is it."""
TIE = -(1 << 40)
QUIET = 0x7FC00000
LARGEST = 1 << 27
"""Elements of a tensor that is kept; a larger one is address space, and its verdict is what counts."""

ASKED = "asked"
"""Name of what an answer depends on, where an open choice may differ: answers about two are not compared."""

Outputs = Mapping[str, Tensor]
Compared = dict[str, Tensor]


def kept(tensor: Tensor) -> bool:
    return tensor.numel() <= LARGEST


def bits(tensor: Tensor) -> Tensor:
    """Bit patterns as int64; every NaN is one, but for the poison of score buffers."""
    if tensor.dtype == torch.float32:
        raw = tensor.contiguous().view(torch.int32).long() & 0xFFFFFFFF
        return torch.where(tensor.isnan() & (raw != SENTINEL), QUIET, raw)
    if tensor.is_floating_point():
        return as_bits(tensor).long() if tensor.dtype == torch.bfloat16 else tensor.double().view(torch.int64)
    return tensor.long()


def plain(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Every bit of every output."""
    found = {name: bits(tensor) for name, tensor in outputs.items()}
    given = getattr(request, "out", None)
    value = outputs.get("value")
    if isinstance(given, Tensor) and isinstance(value, Tensor) and value.shape == given.shape:
        found.pop("value")  # what is judged is the caller's buffer
    return found
