"""In-tree attention backends as far as a draft knows them: all answer the publish call, one acts.

A draft publishes on whatever backend its target uses. A backend without the call breaks drafts of
targets that have no FP4 indexer at all, which the tests of the FP4 path never run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor


class Backend:
    """What all have in common: there is no FP4 schedule to refresh."""

    scores_fp4: ClassVar[bool] = False

    def __init__(self, write: Callable[[Tensor, int, int, Tensor], None]) -> None:
        self._write = write

    def publish(self, context_lens: Tensor, next_n: int, max_seq_len: int, out: Tensor) -> None:
        """Refresh the schedule in ``out``, where this backend has one."""


class Dense(Backend):
    """Attention over all keys."""


class Sparse(Backend):
    """Attention over the keys that the FP4 indexer selects."""

    scores_fp4 = True

    def publish(self, context_lens: Tensor, next_n: int, max_seq_len: int, out: Tensor) -> None:
        self._write(context_lens, next_n, max_seq_len, out)


class Hybrid(Dense):
    """Attention in some layers, a state in others."""


BACKENDS = (Backend, Dense, Sparse, Hybrid)
