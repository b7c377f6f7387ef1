"""What is compared of answers that choose: which keys of a tie, in what order, how much is read in vain.

Contract: as of `cells`. How it would fail silently: a choice that is none is left open, and a fault that lies
in it is not told from another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.diagnose.cells import RIGHT, TIE, Compared, Outputs, bits, plain
from harness.paths.requests import selecting, sharding, staging
from oracles import windows
from oracles.staging import scale_place
from oracles.windows import Windows


def selected(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Selected columns in order, those of the score at the cut alike unless ties are settled.

    Rows that see a NaN are left out: what it ranks as is not specified, whatever the window.
    """
    if isinstance(request, selecting.SelectDecode):
        rows = windows.decode_windows(request.context_lens, request.next_n)
    else:
        everyone = torch.zeros(len(request.row_start), dtype=torch.int64)
        rows = Windows(everyone, request.row_start.long(), request.row_end.long())
    lost = (windows.visible(rows, request.logits.shape[1]) & request.logits.isnan()).any(1, keepdim=True)
    return {"ids": _set(request.ids, request.logits, rows, request.stable).masked_fill(lost, RIGHT)}


def _set(ids: Tensor, scores: Tensor, rows: Windows, stable: bool) -> Tensor:
    """``ids`` int [T, k] as sets: sorted, and `TIE` for those of the lowest score if others have it too.

    The lowest score of a full selection is the cut, whatever window it was made in: a fault may see keys
    that the row does not.
    """
    ids = ids.long()
    if stable or not ids.numel():
        return ids.sort(1).values
    inside = (ids >= 0) & (ids < scores.shape[1])
    taken = scores.gather(1, ids.clamp(0, scores.shape[1] - 1))
    again = torch.zeros_like(inside)
    order = ids.sort(dim=1, stable=True)
    again.scatter_(1, order.indices[:, 1:], order.values[:, 1:] == order.values[:, :-1])
    full = (inside & ~again).all(1, keepdim=True)
    cut = taken.masked_fill(~inside, torch.inf).amin(1, keepdim=True)
    left_out = (scores == cut).sum(1, keepdim=True) > (taken == cut).sum(1, keepdim=True)
    return torch.where(full & left_out & (taken == cut), TIE, ids).sort(1).values


def stepped(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Schedule, scores and selection of a captured step; equal scores are settled by position."""
    found = plain(request, outputs, earlier)
    if "value[2]" in outputs:
        found["value[2]"] = outputs["value[2]"].long().sort(1).values
    return found


def packed(request: sharding.PackCandidates, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Candidates by id, in whatever order the local top-k left them."""
    scores, ids = outputs.get("value[0]"), outputs.get("value[1]")
    if scores is None or ids is None or scores.shape != ids.shape:
        return plain(request, outputs, earlier)
    order = ids.long().sort(dim=1, stable=True)
    ranked = bits(scores).gather(1, order.indices)
    return {
        "ids": order.values,
        "scores": torch.where(order.values < 0, ranked.sort(1).values, ranked),
    }


def merged(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Scores of what was chosen, and how often something was chosen twice; equal scores are alike.

    Rows with a NaN among the candidates are left out: what it ranks as is not specified.
    """
    chosen = outputs["value"].long()
    if chosen.dim() != 2:
        return plain(request, outputs, earlier)
    scores = request.scores.transpose(0, 1).flatten(1)  # [T, W * k']
    if isinstance(request, sharding.MergeColumns):
        inside = (chosen >= 0) & (chosen < scores.shape[1])
        taken = scores.gather(1, chosen.clamp(0, scores.shape[1] - 1))
    else:
        names = request.ids.transpose(0, 1).flatten(1).long()
        same = (chosen[:, :, None] == names[:, None, :]) & (names >= 0)[:, None, :]
        inside = same.any(2)
        taken = scores.gather(1, same.int().argmax(2))
    ranked = torch.where(inside, bits(taken), torch.where(chosen < 0, TIE, chosen + RIGHT))
    unique = torch.tensor([len(set(row)) for row in chosen.tolist()])
    lost = scores.isnan().any(1)
    return {
        "scores": ranked.sort(1).values.masked_fill(lost[:, None], RIGHT),
        "distinct": unique.masked_fill(lost, RIGHT),
    }


def localised(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Slots of each row as a set."""
    found = plain(request, outputs, earlier)
    bounds, slots = outputs.get("value[0]"), outputs.get("value[1]")
    if bounds is None or slots is None or not len(bounds) or int(bounds[-1]) != len(slots):
        return found
    row = torch.arange(len(bounds) - 1).repeat_interleave(bounds.long().diff().clamp(min=0))
    if len(row) == len(slots):
        found["value[1]"] = (row << 32 | slots.long() & 0xFFFFFFFF).sort().values
    return found


def planned(request: staging.GatherPlan, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Rank, sequence and place of each key; how much each rank reads past its last key is open."""
    cu, index = outputs.get("value[0]"), outputs.get("value[1]")
    if cu is None or index is None or int(cu[-1]) <= 0:
        return plain(request, outputs, earlier)
    starts, key = cu.long(), index.long()
    rank, rest = key // starts[-1], key % starts[-1]
    sequence = torch.searchsorted(starts, rest, right=True) - 1
    return {"rank": rank, "sequence": sequence, "place": rest - starts[sequence]}


def staged(request: staging.StagePrefill, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Rows past the last key hold one constant, whichever."""
    found = plain(request, outputs, earlier)
    codes, scales = found.get("value[0]"), found.get("value[1]")
    if codes is None or scales is None or codes.dim() != 5 or scales.dim() != 4:
        return found
    rows, total = codes.shape[3], int(request.context_lens.sum())
    if scales.shape[3] != rows or rows % 16:
        return found
    key = torch.arange(len(codes) * rows)
    for plane, place in ((codes, key % rows), (scales, scale_place(rows)[key % rows])):
        left = plane[key[total:] // rows, :, :, place[total:]]
        plane[key[total:] // rows, :, :, place[total:]] = RIGHT if len(left.unique()) == 1 else left
    return found
