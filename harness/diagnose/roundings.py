"""What is compared of answers that rounding leaves open: codes without a scale, bytes and scores in a bound.

Contract: a cell that is right by the rule of its check holds `RIGHT`, a wrong one its own bits. It fails
silently where a bound is wider than the check's: a wrong value would then pass for a right one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.checks.writer.wanted import as_bits, wanted
from harness.diagnose.cells import LARGEST, RIGHT, Compared, Outputs, bits, plain
from harness.judge.bits import MINUS_INFINITY, SENTINEL
from harness.paths.requests import eightbit, writing
from oracles import eightbit as eightbit_rules
from oracles import eightbit_pages, eightbit_score, formats, layout, windows
from oracles.windows import Windows


def before(request: Any) -> list[Tensor]:
    """What must be kept of ``request`` before it is answered, to tell later which bytes are right."""
    if isinstance(request, writing.WriteTokens) and all(part.numel() <= LARGEST for part in request.outputs):
        return [part.clone() for part in request.outputs]
    return []


def quantised(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Codes of a group whose scale is NaN are unspecified."""
    found = plain(request, outputs, earlier)
    codes, scales = outputs.get("value[0]"), outputs.get("value[1]")
    if codes is None or scales is None or codes.dtype != torch.uint8 or codes.dim() != 2:
        return found
    lost = (scales == formats.E8M0_NAN).repeat_interleave(formats.GROUP, dim=1)
    unpacked = layout.unpack_nibbles(codes).long()
    if lost.shape == unpacked.shape:
        found["value[0]"] = unpacked.masked_fill(lost, RIGHT)
    return found


def tokens(request: writing.WriteTokens, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """A byte that is right is `RIGHT`, since rounding leaves several right ones."""
    if not earlier or len(request.slots) != len(request.q):
        return {}
    right = wanted(request, earlier, request.outputs).outputs
    found = {}
    for name, own in zip(writing.WRITTEN_TOKENS, request.outputs, strict=True):
        mine = as_bits(own)
        found[name] = torch.where(mine == right[name], RIGHT, mine.long())
    return found


def paged8(request: eightbit.PagedScores8, outputs: Outputs, earlier: list[Tensor]) -> Compared:
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


def flat8(request: eightbit.FlatScores8, outputs: Outputs, earlier: list[Tensor]) -> Compared:
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
