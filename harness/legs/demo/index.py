"""The miniature indexer: which keys a query attends to, by scores of quantised queries and keys.

Contract: the score of a key is the sum of relu(q . k) over the query heads that share its key head, with q
and k as the chosen format holds them; the ``topk`` largest visible scores are attended to, and a query that
sees no more than ``topk`` keys attends to all of them. Among equal scores at the cut torch's top-k decides.
Values are those of the oracles' formats, had here without their codes (the tests hold them equal). This is a
miniature on a model that was trained without an indexer: its accuracy says nothing of any product. It would
fail silently as an index that is computed and then not used, so the mask is all that the attention is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oracles import eightbit
from oracles.formats import E4M3FN, E8M0_BIAS, GROUP, PRODUCTION, power_of_two, scale_byte

KINDS = {
    "fp8": "E4M3 codes, one power-of-two scale a vector",
    "fp4": f"E2M1 codes, one E8M0 scale a group of {GROUP}",
    "broken": "E2M1 codes, read with the high nibble first: a fault on purpose",
}
"""What an index can be made of."""

TOP = 6.0
"""E2M1's largest value."""


@dataclass(frozen=True)
class Index:
    """``kind`` one of `KINDS`; ``topk`` keys a query."""

    kind: str
    topk: int

    def keys(self, k: Tensor) -> Tensor:
        """What the index holds of keys: float32 [..., D] of ``k`` [..., D], D a multiple of 32."""
        if self.kind == "fp8":
            return eight(k, eightbit.KEY)
        if self.kind == "broken":
            return four(k, turned=True)
        return four(k)

    def queries(self, q: Tensor) -> Tensor:
        """What the index holds of queries: float32 [..., D] of ``q`` [..., D]."""
        return eight(q, eightbit.QUERY) if self.kind == "fp8" else four(q)

    def selected(self, queries: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
        """Keys attended to, bool [B, G, T, W], or ``visible`` itself where W is no more than ``topk``.

        ``queries`` [B, G, H, T, D] and ``keys`` [B, G, W, D] are what `queries` and `keys` gave, H query
        heads on each of G key heads; ``visible`` bool [B, 1, T, W].
        """
        if keys.shape[2] <= self.topk:
            return visible
        rows = queries.flatten(2, 3)  # all heads of a key head at once, so that keys are not repeated
        found = (rows @ keys.transpose(-1, -2)).relu_().unflatten(2, queries.shape[2:4])
        scores = found.sum(2).masked_fill_(~visible, -1.0)
        return largest(scores, self.topk) & visible


def largest(scores: Tensor, count: int) -> Tensor:
    """The ``count`` largest of each row of ``scores`` float32 [..., W], W above ``count``, as bool [..., W].

    All of a row where fewer than ``count`` are 0 or more. Rows are cut at their value of that rank, which
    is found without an order; only rows with several of it take torch's top-k.
    """
    width = scores.shape[-1]
    ranked = np.partition(scores.numpy(), width - count, axis=-1)
    cut, below = ranked[..., width - count], ranked[..., : width - count]
    chosen = scores >= torch.from_numpy(cut).unsqueeze(-1)
    several = torch.from_numpy((below.max(-1) == cut) & (cut >= 0))
    if bool(several.any()):
        best = scores[several].topk(count, dim=-1, sorted=False).indices
        chosen[several] = torch.zeros(len(best), width, dtype=torch.bool).scatter_(-1, best, True)
    return chosen


def eight(x: Tensor, rule: eightbit.ScaleRule) -> Tensor:
    """``x`` [..., D] as E4M3FN codes and one scale a vector hold it; torch's own cast rounds half to even."""
    scale = eightbit.scale_of(x.abs().amax(-1, keepdim=True), E4M3FN, rule, power_of_two=True)
    return (x * (1.0 / scale)).to(torch.float8_e4m3fn).float() * scale


def four(x: Tensor, *, turned: bool = False) -> Tensor:
    """``x`` [..., D] as E2M1 codes and E8M0 scales hold it; ``turned``: with neighbours exchanged.

    E2M1 counts in halves below 2, in ones below 4, then in twos, and half to even is the same of its codes
    as of these counts.
    """
    groups = x.unflatten(-1, (-1, GROUP))
    scale = power_of_two(
        scale_byte(groups.abs().amax(-1, keepdim=True), PRODUCTION).long() - E8M0_BIAS
    ).float()
    exact = groups / scale
    size = exact.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    values = (exact / step).round_().mul_(step).clamp_(-TOP, TOP).mul_(scale).flatten(-2)
    return values.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) if turned else values
