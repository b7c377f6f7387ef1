"""Tensor methods that bring contents to the host: what they answer is baked into a capture.

A stream that captures refuses them. On the CPU they would simply work, and a recording would hold a
branch, a grid or a number of the step it was made in; every replay over other contents would then be
wrong in a way that only other lengths show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from harness.replay.calls import CaptureRefused

METHODS = frozenset(
    (
        Tensor.tolist,
        Tensor.numpy,
        Tensor.item,
        Tensor.__array__,
        Tensor.__bool__,
        Tensor.__int__,
        Tensor.__float__,
        Tensor.__index__,
        Tensor.__contains__,
    )
)
"""Methods of a tensor that read it on the host."""

OPERATIONS = (
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::equal",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_dim",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::bincount",
    "aten::repeat_interleave.Tensor",
    "aten::lift_fresh",
)
"""Operations that wait for the device: a shape follows from contents, or contents come from the host."""


MASKED = ("aten::index", "aten::index_put", "aten::index_put_")
"""Operations that wait where they are given a mask."""


class Guard(TorchFunctionMode):
    """Refuses `METHODS` while ``watching()`` says so. Raises `CaptureRefused`."""

    def __init__(self, watching: Callable[[], bool]) -> None:
        super().__init__()
        self._watching = watching

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in METHODS and self._watching():
            raise CaptureRefused(
                f"the step reads a tensor on the host ({func.__name__}), which no stream holds"
            )
        return func(*args, **(kwargs or {}))


def refuse(func: torch._ops.OpOverload, args: Sequence[Any]) -> None:
    """Raise `CaptureRefused` for an operation that no stream can hold."""
    name = func.name()
    stem = name.partition(".")[0]
    if name in OPERATIONS or stem in OPERATIONS or (stem in MASKED and _by_mask(args)):
        raise CaptureRefused(f"the step calls {name}, which waits for the host and which no stream holds")


def _by_mask(args: Sequence[Any]) -> bool:
    """Whether an index is a mask, of which the host must know how many cells it takes.

    One value for all of them is filled in without counting.
    """
    indices = [index for index in args[1] if isinstance(index, Tensor)]
    fills = len(args) > 2 and isinstance(args[2], Tensor) and args[2].numel() == 1
    return not fills and any(index.dtype in (torch.bool, torch.uint8) for index in indices)
