"""Checks of the tensors a kernel is about to be given as bare pointers (spec indexer.md 3).

Contract: what passes is contiguous and of the shape and dtype the kernels compute offsets
for; only the score buffer and the block table may have any distance between rows. A kernel
cannot notice a transposed plane: all its offsets stay inside, and the scores are of other keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_K = 256
"""Columns of a chunk, the unit of a schedule."""
PAGE_ROWS = 64
"""Keys of a page."""
GROUP = 32
"""Columns that share a scale byte."""


def score_buffer(out: Tensor | None, rows: int, width: int, device: torch.device, *, fill: bool) -> Tensor:
    """The score buffer: the caller's, filled with minus infinity when ``fill``, or a new one."""
    if out is None:
        return torch.full((rows, width), -torch.inf, dtype=torch.float32, device=device)
    if out.shape != (rows, width) or out.dtype != torch.float32 or (width > 1 and out.stride(1) != 1):
        raise ValueError(
            f"out is {describe(out)}, allowed is float32 ({rows}, {width}) with columns side by side"
        )
    return out.fill_(-torch.inf) if fill else out


def planes(
    q_codes: Tensor,
    q_scales: Tensor,
    k_codes: Tensor,
    k_scales: Tensor,
    block_tables: Tensor,
    weights: Tensor,
) -> tuple[int, int]:
    """(heads, head dim) of planes that are of the ABI. Raises ValueError."""
    rows, heads, packed = q_codes.shape
    dim = packed * 2
    if heads % 16 or not 16 <= heads <= 128:
        raise ValueError(f"q_codes has {heads} heads, allowed are multiples of 16 from 16 to 128")
    pages(k_codes, k_scales, dim)
    require("q_codes", q_codes, (rows, heads, packed), torch.uint8)
    require("q_scales", q_scales, (rows, dim // 128, 4, 16, -(-heads // 64) * 4), torch.uint8)
    require("weights", weights, (rows, heads), torch.bfloat16)
    table(block_tables)
    return heads, dim


def table(block_tables: Tensor) -> None:
    """Raise ValueError unless block tables are packed int32 [B, W]: production's stride is their width."""
    if block_tables.dim() != 2 or block_tables.dtype != torch.int32 or not block_tables.is_contiguous():
        raise ValueError(f"block_tables is {describe(block_tables)}, allowed is packed int32 with two axes")


def pages(k_codes: Tensor, k_scales: Tensor, dim: int) -> None:
    """Raise ValueError unless the key planes are of the ABI for head dim ``dim``."""
    if dim not in (128, 256):
        raise ValueError(f"head dim is {dim}, allowed are 128 and 256")
    blocks = k_codes.shape[0]
    require("k_codes", k_codes, (blocks, dim // 128, 4, PAGE_ROWS, 16), torch.uint8)
    require("k_scales", k_scales, (blocks, dim // 128, 4, PAGE_ROWS), torch.uint8)


def rows_of_groups(name: str, x: Tensor, dtypes: tuple[torch.dtype, ...]) -> None:
    """Raise ValueError unless ``x`` has rows that the quantiser takes."""
    if x.dim() != 2 or x.dtype not in dtypes or x.shape[1] % GROUP or not x.is_contiguous():
        allowed = " or ".join(str(dtype) for dtype in dtypes)
        raise ValueError(
            f"{name} is {describe(x)}, allowed are contiguous {allowed} rows of a multiple of {GROUP}"
        )


def schedule_entries(schedule: Tensor, fields: int) -> None:
    """Raise ValueError unless ``schedule`` has entries of so many fields."""
    require("schedule", schedule, (schedule.shape[0], fields), torch.int32)


def require(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Raise ValueError unless ``tensor`` is contiguous and has this shape and dtype."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or not tensor.is_contiguous():
        raise ValueError(f"{name} is {describe(tensor)}, allowed is contiguous {dtype} {shape}")


def describe(tensor: Tensor) -> str:
    """dtype, shape and strides of a tensor, for a message."""
    return f"{tensor.dtype} {tuple(tensor.shape)} with strides {tensor.stride()}"
