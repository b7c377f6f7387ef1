"""What stands for the GPU kernels inside ATOM's exchange: its scorer, its top-k, its collective.

The scorer gives the scores it was given, as far as the caller's buffer and lengths reach; the top-k is
the oracle's, its local ids put into another order, padding between them. Where a length reaches past the
buffer's row, that is a finding, and the selection goes on with the columns there are: the other ranks
wait in the collective.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.findings import Finding
from harness.paths.requests.sharding import Exchange
from oracles import topk
from oracles.windows import Windows


class AsOnCpu:
    """``torch``, but what is allocated on a GPU is allocated here."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        if name not in ("empty", "zeros", "full", "arange", "tensor"):
            return found
        return lambda *sizes, **options: found(*sizes, **{**options, "device": "cpu"})


class Engine:
    """One rank's kernels and group for one exchange."""

    def __init__(self, request: Exchange, location: str, caller: str) -> None:
        self._request = request
        self._where = (location, caller)
        self._selected = False
        self.world = request.place.world
        self.lengths = torch.empty(0, dtype=torch.int32)
        self.findings: list[Finding] = []

    def score(
        self, _q: Any, _cache: Any, _weights: Any, out: Tensor, lengths: Tensor, *_: Any, **__: Any
    ) -> None:
        """Fill ``out`` float32 [T, W] inside ``lengths`` int32 [T]; what has no score is infinite."""
        scores, width = self._request.scores, out.shape[1]
        given = scores.where(~scores.isnan(), torch.inf)
        self.lengths = lengths.clone()
        out.fill_(torch.inf)
        reach = min(width, given.shape[1])
        out[:, :reach] = given[:, :reach].where(torch.arange(reach) < lengths.unsqueeze(1), torch.inf)
        past = lengths > width
        if bool(past.any()):
            location, caller = self._where
            row = int(past.nonzero()[0])
            first = {"row": row, "length": int(lengths[row]), "width": width}
            self.findings.append(
                Finding("out-of-bounds-store", caller, "local_logits", location, int(past.sum()), first)
            )

    def top_k(
        self, logits: Tensor, next_n: int, lengths: Tensor, ids: Tensor, rows: int, *more: Any, **_: Any
    ) -> None:
        """The k best columns of each row into ``ids`` int32 [T, k]: local ones first, then the merge's."""
        if next_n != 1 or rows != len(logits):
            raise ValueError(f"top-k was called with next_n {next_n} and {rows} rows of {len(logits)}")
        merging, self._selected = self._selected, True
        row, ends = torch.arange(rows), lengths.long().clamp(max=logits.shape[1])
        windows = Windows(row, torch.zeros_like(row), ends)
        chosen = topk.topk(logits, windows, ids.shape[1], stable=merging).ids.to(torch.int32)
        ids.copy_(chosen if merging else chosen[:, self._request.order])

    def all_gather(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """The tensors of all ranks along axis ``dim``."""
        return torch.cat(list(self._request.gather(tensor)), dim)
