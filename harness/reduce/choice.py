"""Requests with several right answers: what is to be chosen from, in a form that a script can hold.

A top-k, over windows or over the candidates of all ranks, may take any of equal scores at its cut and list
what it takes in any order. So a script is given names and scores of all that can be taken, and the rule, and
not one selection; a script that compared with one would accuse a kernel that is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.paths.oracle import OraclePath
from harness.paths.requests import selecting, sharding
from oracles import windows
from oracles.windows import Windows


@dataclass(frozen=True)
class Choice:
    """``k`` of ``names`` int64 [T, M], -1 for nothing, are to be taken by their ``scores`` float32 [T, M].

    ``stable``: of equal scores the smallest names are taken. ``void``: a name whose score is -inf counts as
    padding. ``part``: number of the tensor that holds the choice, where the answer has several.
    """

    names: Tensor
    scores: Tensor
    k: int
    stable: bool = False
    void: bool = False
    part: int | None = None


def of(request: Any) -> Choice | None:
    """What ``request`` chooses from, where it is a choice."""
    if isinstance(request, selecting.SelectDecode):
        seen = windows.decode_windows(request.context_lens.long(), request.next_n)
        return _windowed(request, seen)
    if isinstance(request, selecting.SelectPrefill):
        row = torch.arange(len(request.row_start))
        return _windowed(request, Windows(row, request.row_start.long(), request.row_end.long()))
    if isinstance(request, selecting.PlainTopK):
        return Choice(_columns(request.scores), request.scores.clone(), request.k)
    if isinstance(request, sharding.MergeCandidates):
        return Choice(_by_row(request.ids.long()).clamp(min=-1), _by_row(request.scores), request.k)
    if isinstance(request, sharding.MergeColumns):
        flat = _by_row(request.scores)
        return Choice(_columns(flat), flat, request.k, void=True)
    return None


def of_ranks(requests: Sequence[sharding.Exchange]) -> Choice:
    """What an exchange chooses from, of which ``requests`` are the same step on all ranks, in their order."""
    oracle = OraclePath()
    names, scores = [], []
    for request in requests:
        column = torch.arange(request.scores.shape[1])
        held = oracle.run(sharding.LocalLengths(request.lengths, request.place)).value.long()
        position = oracle.run(sharding.GlobalPositions(column, request.place)).value.long()
        names.append(position.expand(len(held), -1).where(column < held[:, None], -1))
        scores.append(request.scores.where(names[-1] >= 0, 0.0))
    k = len(requests[0].order)
    return Choice(torch.cat(names, 1), torch.cat(scores, 1), k, part=0)


def _windowed(request: selecting.SelectDecode | selecting.SelectPrefill, seen: Windows) -> Choice:
    visible = windows.visible(seen, request.logits.shape[1])
    names = _columns(request.logits).where(visible, -1)
    return Choice(names, request.logits.where(visible, 0.0), request.k, request.stable)


def _columns(scores: Tensor) -> Tensor:
    return torch.arange(scores.shape[1]).repeat(len(scores), 1)


def _by_row(gathered: Tensor) -> Tensor:
    """[W, T, k] to [T, W * k]: all candidates of a row, rank by rank."""
    return gathered.permute(1, 0, 2).flatten(1).contiguous()
