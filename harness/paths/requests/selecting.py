"""What is asked of a top-k: which keys each row selects (spec indexer.md 9).

Rows of ``logits`` float32 [T, W] may lie further apart than W; cells outside a row's window hold anything
and are never read. ``ids`` int32 [T, k], packed, is written in place and is the value: columns of
the logits (window start included), in any order, and `PAD` for what a row has not, wherever it stands. A
row that sees at most k keys selects them all whatever its scores are, NaN included: below ``index_topk``
keys the selection is bypassed. Of equal scores any may be taken at the cut, and where ``stable`` is set those
at the smallest positions; whether -0 equals 0 the path declares (`Path.zeros`). What a NaN ranks as in a
longer window is not specified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

PAD = -1


@dataclass(frozen=True)
class SelectDecode:
    """T = B * next_n rows: row n of sequence b sees columns below ctx[b] - (next_n - 1 - n).

    context_lens int32 [B], none above W.
    """

    written: ClassVar[tuple[str, ...]] = ("ids",)

    logits: Tensor
    context_lens: Tensor
    next_n: int
    k: int
    stable: bool
    ids: Tensor


@dataclass(frozen=True)
class SelectPrefill:
    """Row r sees columns row_start[r] <= t < row_end[r], int32 [T] each."""

    written: ClassVar[tuple[str, ...]] = ("ids",)

    logits: Tensor
    row_start: Tensor
    row_end: Tensor
    k: int
    stable: bool
    ids: Tensor


@dataclass(frozen=True)
class PlainTopK:
    """The k largest of each whole row of ``scores`` float32 [R, M], M >= k: ids int [R, k], the value.

    What a general top-k of a library does; windows, padding and a rule for ties it does not know.
    """

    written: ClassVar[tuple[str, ...]] = ()

    scores: Tensor
    k: int
