"""What is asked of prefill over shards: which rank reads what, and both planes staged in one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from oracles.staging import Shard

AllGather = Callable[[Tensor], Tensor]
"""From what a rank gives [n, ...] to what all ranks gave, laid end to end: [world * n, ...]."""


@dataclass(frozen=True)
class GatherPlan:
    """Plan the all-gather of B sequences, context_lens int32 [B], dealt to ``world`` ranks by ``inter`` keys.

    The value is (local_cu int32 [B+1], gather_index int32 [L]), the same on all ranks: each reads its
    first local_cu[b+1] - local_cu[b] keys of sequence b, some of them past its last, and key j is row
    gather_index[j] of what all ranks read, laid end to end.
    """

    written: ClassVar[tuple[str, ...]] = ()

    context_lens: Tensor
    world: int
    inter: int


@dataclass(frozen=True)
class StagePrefill:
    """Stage every key of B sequences, context_lens int32 [B], in order, on ``rank`` that holds ``shard``.

    ``all_gather`` is the collective; all ranks call it as often, with tensors of the same shapes. The
    staged table is ``max_batch`` * ``sequence_pages`` wide: a batch's pages, not one sequence's. The
    value is (k_codes uint8 [pages, K, 4, R, 16], k_scales uint8 [pages, K, 4, R], block_tables int32
    [B, columns]).
    """

    written: ClassVar[tuple[str, ...]] = ()

    shard: Shard
    context_lens: Tensor
    world: int
    inter: int
    rank: int
    max_batch: int
    sequence_pages: int
    all_gather: AllGather
