"""A result that the same kernel may give in several ways, each of them its own.

Contract: a cell is right where one of the ways is; ways are never mixed to find out what must be there, as
each is held against what must be for it. How it would fail silently: with many ways anything is right, so
how many bytes they part in is told beside the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.judge.bits import bits_of


def met(ways: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """The first of ``ways``, with what is wanted of it in every cell where another is as wanted of that.

    All of one shape and type; ``wanted`` has one member a way.
    """
    first = ways[0].clone()
    for way, right in zip(ways[1:], wanted[1:], strict=True):
        cells = bits(way) == bits(right)
        first = torch.where(cells, wanted[0], first)
    return first


def bits(tensor: Tensor) -> Tensor:
    """float32 as int64 0..2^32-1, bfloat16 as int16; integers as they are."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16)
    return bits_of(tensor) if tensor.dtype == torch.float32 else tensor
