"""Whether a stage left what the oracle's left: bits of every tensor, sets where any order is right.

FP8 scores have one right value only in the cells that are proven; the others lie within the rounding bound of
what the stage was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade
from harness.paths.base import Path
from harness.pipeline import eightbit
from harness.pipeline.raw import Raw
from harness.pipeline.stages import Stage
from oracles import dcp, topk
from oracles.windows import Windows


@dataclass(frozen=True)
class Wrong:
    """The first tensor of a stage that differs. ``row`` -1: not about a row."""

    stage: str
    tensor: str
    difference: Difference


def first_wrong(
    raw: Raw,
    stage: Stage,
    got: Mapping[str, Tensor],
    want: Mapping[str, Tensor],
    given: Mapping[str, Tensor],
    path: Path,
) -> Wrong | None:
    """The first tensor in ``got`` that is not right; ``given``: what the stage was given."""
    for name, right in want.items():
        if name not in got:
            return Wrong(stage.name, name, compare.arity(None, 1))
        kind = name.rsplit(" ", 1)[0]
        if kind in stage.free:
            wrong = _selection(raw, name, got[name], right, given)
        elif kind in stage.bounded:
            scores = eightbit.right_scores(raw, dict(given), path)
            wrong = scores.wanted.compare(got[name], scores.outside)
        else:
            wrong = compare.integers(as_bits(got[name]), as_bits(right))
        if wrong is not None:
            return Wrong(stage.name, name, wrong)
    return None


def grade(raw: Raw, stage: Stage, given: Mapping[str, Tensor], path: Path) -> Grade:
    """How strongly a stage's tensors are compared."""
    return eightbit.right_scores(raw, dict(given), path).wanted.grade if stage.bounded else Grade.EXACT


def as_bits(tensor: object) -> Tensor:
    """``tensor`` as integers of its width (two NaNs of other bits differ here, on purpose)."""
    sizes = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
    if not isinstance(tensor, Tensor):
        return torch.empty(0)
    return tensor.view(sizes[tensor.dtype]) if tensor.dtype in sizes else tensor


def _selection(
    raw: Raw, name: str, ids: object, right: Tensor, before: Mapping[str, Tensor]
) -> Difference | None:
    wrong = compare.shape(ids, right.shape, right.dtype)
    if wrong is not None:
        return wrong
    assert isinstance(ids, Tensor)
    wanted = _wanted(raw, name, before)
    found = topk.check_selection(ids, wanted)
    if bool(found.ok.all()):
        return None
    row = int((~found.ok).nonzero()[0])
    counts = {
        what: int(getattr(found, what)[row]) for what in ("missing", "foreign", "doubled", "open_places")
    }
    said = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count)
    cells = torch.stack(((~found.ok).nonzero().flatten(), torch.zeros(int((~found.ok).sum())).long()), 1)
    return Difference("bits", "selection-differs", cells, said, "none", count=len(cells), total=len(found.ok))


def _wanted(raw: Raw, name: str, before: Mapping[str, Tensor]) -> topk.TopK:
    """What may be selected, from the scores that the stage was given."""
    rank = int(name.rsplit(" ", 1)[1])
    if name.startswith("local"):
        return topk.topk(before[f"scores {rank}"], _windows(raw, before, rank), raw.case.k, stable=False)
    scores = torch.full((len(raw.windows.end), raw.case.width), -torch.inf)
    for other in raw.ranks:
        sharding = dcp.Sharding(raw.case.world, raw.case.inter)
        ends = before[f"lengths {other}"]
        for row, end in enumerate(ends.tolist()):
            where = dcp.global_position(sharding, other, torch.arange(end))
            scores[row, where] = before[f"scores {other}"][row, :end]
    return topk.topk(scores, raw.windows, raw.case.k, stable=False)


def _windows(raw: Raw, before: Mapping[str, Tensor], rank: int) -> Windows:
    if raw.case.kind == "fp8":
        return eightbit.windows(raw)
    if raw.world == 1:
        return raw.windows
    ends = before[f"lengths {rank}"].long()
    return Windows(torch.arange(len(ends)), torch.zeros_like(ends), ends)
