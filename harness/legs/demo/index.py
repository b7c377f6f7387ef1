"""The miniature indexer: which keys a query attends to, by scores of quantised queries and keys.

Contract: the score of a key is the sum of relu(q . k) over the query heads that share its key head, with q
and k as the chosen format holds them; the ``topk`` largest visible scores are attended to, and a query that
sees no more than ``topk`` keys attends to all of them. The formats are the oracles' own. This is a miniature
on a model that was trained without an indexer: its accuracy says nothing of any product. It would fail
silently as an index that is computed and then not used, so the mask is all that the attention is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracles import eightbit
from oracles.formats import E2M1, E4M3FN, GROUP, PRODUCTION, decode, decode_e8m0, quantise

KINDS = {
    "fp8": "E4M3 codes, one power-of-two scale a vector",
    "fp4": f"E2M1 codes, one E8M0 scale a group of {GROUP}",
    "broken": "E2M1 codes, read with the high nibble first: a fault on purpose",
}
"""What an index can be made of."""


@dataclass(frozen=True)
class Index:
    """``kind`` one of `KINDS`; ``topk`` keys a query."""

    kind: str
    topk: int

    def keys(self, k: Tensor) -> Tensor:
        """What the index holds of keys: float32 [..., D] of ``k`` [..., D], D a multiple of 32."""
        if self.kind == "fp8":
            return self._eight(k, eightbit.KEY)
        codes, scales = quantise(k, PRODUCTION)
        if self.kind == "broken":
            codes = codes.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return self._four(codes, scales)

    def queries(self, q: Tensor) -> Tensor:
        """What the index holds of queries: float32 [..., D] of ``q`` [..., D]."""
        if self.kind == "fp8":
            return self._eight(q, eightbit.QUERY)
        return self._four(*quantise(q, PRODUCTION))

    @staticmethod
    def _eight(x: Tensor, rule: eightbit.ScaleRule) -> Tensor:
        codes, scales = eightbit.quantise(x, E4M3FN, rule, power_of_two=True)
        return decode(E4M3FN, codes) * scales.unsqueeze(-1)

    @staticmethod
    def _four(codes: Tensor, scales: Tensor) -> Tensor:
        groups = decode(E2M1, codes).unflatten(-1, (-1, GROUP))
        return (groups * decode_e8m0(scales).unsqueeze(-1)).flatten(-2)

    def selected(self, queries: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
        """Keys attended to, bool [B, G, T, W], or ``visible`` itself where W is no more than ``topk``.

        ``queries`` [B, G, H, T, D] and ``keys`` [B, G, W, D] are what `queries` and `keys` gave, H query
        heads on each of G key heads; ``visible`` bool [B, 1, T, W].
        """
        if keys.shape[2] <= self.topk:
            return visible
        seen = visible.expand(-1, keys.shape[1], -1, -1)
        scores = (queries @ keys.unsqueeze(2).transpose(-1, -2)).relu().sum(2)
        best = scores.masked_fill(~seen, -1.0).topk(self.topk, dim=-1, sorted=False).indices
        return torch.zeros_like(seen).scatter(-1, best, True) & seen
