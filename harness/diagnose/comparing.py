"""What of an answer is compared when a fault is held against it: the cells that the checks hold to one value.

Contract: two answers to one request are the same if what these functions give is equal, bit for bit. Cells
that a check leaves open are made equal here (any NaN is a NaN, codes under a NaN scale, the order of
selected keys, which keys of the tie class at the cut, bytes and scores that rounding leaves open and that
are right); an answer of a type in `OPEN` has no one right form, so that only the verdict about it counts.
It would fail silently where too much is made equal: two faults look alike then and neither is called
certain; where too little is, a fault is not recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from harness.checks.writer.wanted import as_bits, wanted
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.paths.requests import (
    eightbit,
    gating,
    pooling,
    publishing,
    replaying,
    selecting,
    sharding,
    staging,
    writing,
)
from oracles import eightbit as eightbit_rules
from oracles import eightbit_pages, eightbit_score, formats, layout, windows
from oracles.staging import scale_place
from oracles.windows import Windows

RIGHT = 1 << 40
"""Stands for every right value of a cell that has several; no pattern of 32 bits is it."""
TIE = -(1 << 40)
QUIET = 0x7FC00000
LARGEST = 1 << 27
"""Elements of a tensor that is kept; a larger one is address space, and its verdict is what counts."""

OPEN = (
    replaying.Capture,
    gating.Predicate,
    gating.Refusal,
    pooling.PoolGeometry,
    publishing.Backends,
)
"""Requests whose right answers take many forms."""

CHOSEN = (
    selecting.SelectDecode,
    selecting.SelectPrefill,
    sharding.MergeCandidates,
    sharding.MergeColumns,
)
"""Requests of whose right answers one is chosen; faults may lie in the choice."""

ASKED = "asked"
"""Name of what an answer depends on, where an open choice may differ: answers about two are not compared."""

Outputs = Mapping[str, Tensor]
Compared = dict[str, Tensor]


def before(request: Any) -> list[Tensor]:
    """What must be kept of ``request`` before it is answered, to tell later which bytes are right."""
    if isinstance(request, writing.WriteTokens) and all(part.numel() <= LARGEST for part in request.outputs):
        return [part.clone() for part in request.outputs]
    return []


def compared(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Name to int64 tensor of what is compared of ``outputs``; ``earlier`` is what `before` gave."""
    if isinstance(request, OPEN):
        return {}
    known = {name: tensor for name, tensor in outputs.items() if tensor.numel() <= LARGEST}
    rule = RULES.get(type(request), _plain)
    return rule(request, known, earlier)


def bits(tensor: Tensor) -> Tensor:
    """Bit patterns as int64; every NaN is one, but for the poison of score buffers."""
    if tensor.dtype == torch.float32:
        raw = tensor.contiguous().view(torch.int32).long() & 0xFFFFFFFF
        return torch.where(tensor.isnan() & (raw != SENTINEL), QUIET, raw)
    if tensor.is_floating_point():
        return as_bits(tensor).long() if tensor.dtype == torch.bfloat16 else tensor.double().view(torch.int64)
    return tensor.long()


def _plain(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    found = {name: bits(tensor) for name, tensor in outputs.items()}
    given = getattr(request, "out", None)
    value = outputs.get("value")
    if isinstance(given, Tensor) and isinstance(value, Tensor) and value.shape == given.shape:
        found.pop("value")  # what is judged is the caller's buffer
    return found


def _quantised(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Codes of a group whose scale is NaN are unspecified."""
    found = _plain(request, outputs, earlier)
    codes, scales = outputs.get("value[0]"), outputs.get("value[1]")
    if codes is None or scales is None or codes.dtype != torch.uint8 or codes.dim() != 2:
        return found
    lost = (scales == formats.E8M0_NAN).repeat_interleave(formats.GROUP, dim=1)
    unpacked = layout.unpack_nibbles(codes).long()
    if lost.shape == unpacked.shape:
        found["value[0]"] = unpacked.masked_fill(lost, RIGHT)
    return found


def _tokens(request: writing.WriteTokens, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """A byte that is right is `RIGHT`, since rounding leaves several right ones."""
    if not earlier or len(request.slots) != len(request.q):
        return {}
    right = wanted(request, earlier, request.outputs).outputs
    found = {}
    for name, own in zip(writing.WRITTEN_TOKENS, request.outputs, strict=True):
        mine = as_bits(own)
        found[name] = torch.where(mine == right[name], RIGHT, mine.long())
    return found


def _selected(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
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
    """``ids`` int [T, k] as sets: sorted, and `TIE` for those at the cut of a long window."""
    ids = ids.long()
    if not stable:
        seen = windows.visible(rows, scores.shape[1])
        inside = (ids >= 0) & (ids < scores.shape[1])
        taken = scores.gather(1, ids.clamp(0, scores.shape[1] - 1))
        ranked = scores.masked_fill(~seen | scores.isnan(), -torch.inf)
        cut = ranked.topk(min(ids.shape[1], scores.shape[1]), dim=1).values[:, -1:]
        chosen_from = (seen.sum(1) >= ids.shape[1])[:, None]  # a fault may see one key more
        again = torch.zeros_like(inside)
        order = ids.sort(dim=1, stable=True)
        again.scatter_(1, order.indices[:, 1:], order.values[:, 1:] == order.values[:, :-1])
        ids = torch.where(inside & (taken == cut) & chosen_from & ~again, TIE, ids)
    return ids.sort(1).values


def _stepped(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Schedule, scores and selection of a captured step; equal scores are settled by position."""
    found = _plain(request, outputs, earlier)
    if "value[2]" in outputs:
        found["value[2]"] = outputs["value[2]"].long().sort(1).values
    return found


def _packed(request: sharding.PackCandidates, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Candidates by id, in whatever order the local top-k left them."""
    scores, ids = outputs.get("value[0]"), outputs.get("value[1]")
    if scores is None or ids is None or scores.shape != ids.shape:
        return _plain(request, outputs, earlier)
    order = ids.long().sort(dim=1, stable=True)
    ranked = bits(scores).gather(1, order.indices)
    asked = request.ids.long().sort(1).values
    return {
        ASKED: asked,
        "ids": order.values,
        "scores": torch.where(order.values < 0, ranked.sort(1).values, ranked),
    }


def _merged(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Scores of what was chosen, and how often something was chosen twice; equal scores are alike."""
    chosen = outputs["value"].long()
    if chosen.dim() != 2:
        return _plain(request, outputs, earlier)
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
    return {"scores": ranked.sort(1).values, "distinct": unique}


def _localised(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Slots of each row as a set; which ids they are of may depend on a choice that was open before."""
    found = {**_plain(request, outputs, earlier), ASKED: _own_ids(request).sort(1).values}
    bounds, slots = outputs.get("value[0]"), outputs.get("value[1]")
    if bounds is None or slots is None or not len(bounds) or int(bounds[-1]) != len(slots):
        return found
    row = torch.arange(len(bounds) - 1).repeat_interleave(bounds.long().diff().clamp(min=0))
    if len(row) == len(slots):
        found["value[1]"] = (row << 32 | slots.long() & 0xFFFFFFFF).sort().values
    return found


def _own_ids(request: Any) -> Tensor:
    """The ids int64 [T, k] that are to be found; of columns those that the rank sent, `TIE` for others."""
    if isinstance(request, sharding.LocaliseIds):
        return request.ids.long()
    columns, width = request.columns.long(), request.ids.shape[1]
    own = (columns >= 0) & (columns // width == request.place.rank)
    return request.ids.long().gather(1, columns.clamp(min=0) % width).where(own, TIE)


def _planned(request: staging.GatherPlan, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Rank, sequence and place of each key; how much each rank reads past its last key is open."""
    cu, index = outputs.get("value[0]"), outputs.get("value[1]")
    if cu is None or index is None or int(cu[-1]) <= 0:
        return _plain(request, outputs, earlier)
    starts, key = cu.long(), index.long()
    rank, rest = key // starts[-1], key % starts[-1]
    sequence = torch.searchsorted(starts, rest, right=True) - 1
    return {"rank": rank, "sequence": sequence, "place": rest - starts[sequence]}


def _staged(request: staging.StagePrefill, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Rows past the last key hold one constant, whichever."""
    found = _plain(request, outputs, earlier)
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


def _paged8(request: eightbit.PagedScores8, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Minus infinity in cells of the last chunk that a row does not see is as good as what was there."""
    rows = windows.decode_windows(request.context_lens, request.next_n)
    found = bits(request.out)
    unseen = ~windows.visible(rows, found.shape[1])
    found = torch.where(unseen & (found == MINUS_INFINITY), SENTINEL, found)
    fmt = eightbit_rules.FORMATS[request.fmt]
    for row in (rows.end > rows.start).nonzero().flatten().tolist():
        end = int(rows.end[row])
        slots = eightbit_pages.slots_of(request.block_tables[int(rows.seq[row])], end)
        keys = eightbit_pages.read_slots(request.cache, slots, request.tile)
        own = request.q_codes[row : row + 1], request.weights[row : row + 1]
        _settle8(found[row, :end], request.out[row, :end], eightbit_score.Operands(*own, *keys, fmt))
    return {"out": found}


def _flat8(request: eightbit.FlatScores8, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Cells outside the windows count where they were to be cleaned."""
    value = outputs["value"]
    found = bits(value)
    rows = Windows(torch.zeros_like(request.starts.long()), request.starts.long(), request.ends.long())
    if not request.clean:
        found = torch.where(windows.visible(rows, found.shape[1]), found, RIGHT)
    for row in (rows.end > rows.start).nonzero().flatten().tolist():
        reach = slice(int(rows.start[row]), int(rows.end[row]))
        own = request.q_codes[row : row + 1], request.weights[row : row + 1]
        keys = request.k_codes[reach], request.k_scales[reach]
        fmt = eightbit_rules.FORMATS[request.fmt]
        _settle8(found[row, reach], value[row, reach], eightbit_score.Operands(*own, *keys, fmt))
    return {"value": found}


def _settle8(found: Tensor, got: Tensor, operands: eightbit_score.Operands) -> None:
    """Make `RIGHT` of the cells of a row that lie within the rounding bound and are not proven."""
    made = eightbit_score.scores(operands)
    close = (got.double() - made.exact[0]).abs() <= made.allowed[0]
    found[close & ~made.proven[0]] = RIGHT


Rule = Callable[[Any, Outputs, list[Tensor]], Compared]

RULES: Mapping[type, Rule] = {
    writing.Quantise: _quantised,
    writing.WriteTokens: _tokens,
    selecting.SelectDecode: _selected,
    selecting.SelectPrefill: _selected,
    replaying.Replay: _stepped,
    replaying.Eager: _stepped,
    sharding.PackCandidates: _packed,
    sharding.MergeCandidates: _merged,
    sharding.MergeColumns: _merged,
    sharding.LocaliseIds: _localised,
    sharding.LocaliseColumns: _localised,
    staging.GatherPlan: _planned,
    staging.StagePrefill: _staged,
    eightbit.PagedScores8: _paged8,
    eightbit.FlatScores8: _flat8,
    publishing.DraftLoop: lambda request, outputs, earlier: {},
}
"""Requests that leave something open; of all others every bit of every output is compared."""
