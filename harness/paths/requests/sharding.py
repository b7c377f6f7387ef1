"""What is asked of decode over shards: who holds what, what a rank sends, and what all make of it.

Positions, lengths and ids are global or local as each request says; a path that mixes the two stays in
bounds. T rows are (sequence, draft position) pairs; -1 is padding, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor


@dataclass(frozen=True)
class Place:
    """Rank ``rank`` of ``world``; positions are dealt ``inter`` at a time."""

    world: int
    inter: int
    rank: int = 0


@dataclass(frozen=True)
class Owners:
    """Rank int64 [P] that holds each of ``positions`` int64 [P] (whatever the rank of ``place``)."""

    written: ClassVar[tuple[str, ...]] = ()

    positions: Tensor
    place: Place


@dataclass(frozen=True)
class LocalIndices:
    """Place int64 [P] of each of ``positions`` int64 [P] among its owner's keys."""

    written: ClassVar[tuple[str, ...]] = ()

    positions: Tensor
    place: Place


@dataclass(frozen=True)
class GlobalPositions:
    """Position int64 [P] of the rank's keys ``local`` int64 [P]."""

    written: ClassVar[tuple[str, ...]] = ()

    local: Tensor
    place: Place


@dataclass(frozen=True)
class LocalLengths:
    """How many of the first ``lengths`` int32 [P] positions the rank holds, int32 [P]."""

    written: ClassVar[tuple[str, ...]] = ()

    lengths: Tensor
    place: Place


@dataclass(frozen=True)
class RowLengths:
    """The rank's part of every row's window, int32 [B*next_n], for context_lens int32 [B]."""

    written: ClassVar[tuple[str, ...]] = ()

    context_lens: Tensor
    next_n: int
    place: Place


@dataclass(frozen=True)
class LocalWidth:
    """Columns of a rank's score matrix, int64 [1], for contexts up to ``max_seq_len``: the same on all."""

    written: ClassVar[tuple[str, ...]] = ()

    max_seq_len: int
    place: Place


@dataclass(frozen=True)
class WriteSlots:
    """Slot int64 [P] (block * page_rows + row) where the rank writes each of ``positions`` int64 [P].

    -1 where another rank does, and for padding (a position below zero). ``tables`` int32 [P, pages] are
    the rank's own, one row a position.
    """

    written: ClassVar[tuple[str, ...]] = ()

    positions: Tensor
    tables: Tensor
    page_rows: int
    place: Place


@dataclass(frozen=True)
class PackCandidates:
    """What the rank sends: (scores float32 [T, k], global ids int32 [T, k]).

    ``scores`` float32 [T, W'] over its own keys, ``ids`` int32 [T, k] its local top-k, ``lengths`` int32
    [T] its part of the windows. An id outside is padding and goes as (-inf, -1).
    """

    written: ClassVar[tuple[str, ...]] = ()

    scores: Tensor
    ids: Tensor
    lengths: Tensor
    place: Place


@dataclass(frozen=True)
class MergeCandidates:
    """The k best of all ranks' candidates, ids int32 [T, k]: the same set on every rank.

    ``scores`` float32 and ``ids`` int32 [W, T, k']; a negative id is padding. ``place`` is who asks.
    """

    written: ClassVar[tuple[str, ...]] = ()

    scores: Tensor
    ids: Tensor
    k: int
    place: Place


@dataclass(frozen=True)
class MergeColumns:
    """As `MergeCandidates` where no ids travel: columns int32 [T, k].

    Column c is candidate c % k' of rank c // k'. ``scores`` float32 [W, T, k']; -inf is padding.
    """

    written: ClassVar[tuple[str, ...]] = ()

    scores: Tensor
    k: int
    place: Place


@dataclass(frozen=True)
class LocaliseIds:
    """The rank's slots of the global ``ids`` int32 [T, k]: (bounds int32 [T+1], slots int32 [bounds[-1]]).

    Row t's slots are slots[bounds[t]:bounds[t+1]], those of the ids it holds and no others, in their
    order; ``tables`` int32 [T, pages] are the rank's own.
    """

    written: ClassVar[tuple[str, ...]] = ()

    ids: Tensor
    tables: Tensor
    page_rows: int
    place: Place


@dataclass(frozen=True)
class LocaliseColumns:
    """As `LocaliseIds` for merged ``columns`` int32 [T, k], of which the rank sent ``ids`` int32 [T, k']."""

    written: ClassVar[tuple[str, ...]] = ()

    columns: Tensor
    ids: Tensor
    tables: Tensor
    page_rows: int
    place: Place


@dataclass(frozen=True)
class Exchange:
    """All of a rank's decode step but its scorer and its top-k: (ids int32 [T, k], lengths int32 [T]).

    The ids are global (None where a finding ended it), the lengths the local ones it scored and selected
    over. ``scores`` float32 [T, W'] are what its scorer gives, ``lengths`` int32 [T] the rows' global
    windows; ``order`` int64 [k] is a permutation of the columns in which its local top-k leaves ids and
    padding; ``gather`` is the all-gather of the group, [W, *shape] of a tensor.
    """

    written: ClassVar[tuple[str, ...]] = ()

    scores: Tensor
    lengths: Tensor
    max_seq_len: int
    order: Tensor
    gather: Callable[[Tensor], Tensor]
    place: Place
