"""Whether a stage left what it must: bits of every tensor, sets where any order is right.

FP8 scores have one right value only in the cells that are proven; the others lie within the rounding bound of
what the stage was given. What a fused writer wrote is judged as its own suite judges it
(`harness.pipeline.written`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.judge import compare
from harness.judge.compare import Difference
from harness.judge.verdict import Grade
from harness.paths.base import Path
from harness.pipeline import eightbit
from harness.pipeline.raw import Raw
from harness.pipeline.stages import Ran, Stage
from harness.pipeline.written import Written, settled
from oracles import dcp, topk
from oracles.windows import Windows


@dataclass(frozen=True)
class Wrong:
    """The first tensor of a stage that differs. ``row`` -1: not about a row."""

    stage: str
    tensor: str
    difference: Difference


@dataclass(frozen=True)
class Judged:
    """``wrong``: None where all is right. ``written``: what a fused writer that was asked must have left."""

    wrong: Wrong | None
    grade: Grade
    written: Written | None = None


def judged(
    raw: Raw, stage: Stage, ran: Ran, want: Mapping[str, Tensor], given: Mapping[str, Tensor], path: Path
) -> Judged:
    """The first tensor of ``ran`` that is not right.

    ``want``: what the oracle leaves of the same ``given``.
    """
    strength = Grade.EXACT
    if stage.bounded:
        strength = eightbit.right_scores(raw, dict(given), path).wanted.grade
    wrong = next((one for one in _misshapen(stage, ran.left, want)), None)
    if wrong is not None:
        return Judged(wrong, strength)
    written = settled(stage, ran) if ran.asked else None
    if written is not None and written.open_bytes:
        strength = Grade.BOUNDED
    wrong = _first_wrong(raw, stage, ran.left, want, given, path, written)
    return Judged(wrong, strength, written)


def _misshapen(stage: Stage, got: Mapping[str, Tensor], want: Mapping[str, Tensor]) -> Iterator[Wrong]:
    for name, right in want.items():
        wrong = compare.shape(got[name], right.shape, right.dtype) if name in got else compare.arity(None, 1)
        if wrong is not None:
            yield Wrong(stage.name, name, wrong)


def _first_wrong(
    raw: Raw,
    stage: Stage,
    got: Mapping[str, Tensor],
    want: Mapping[str, Tensor],
    given: Mapping[str, Tensor],
    path: Path,
    written: Written | None,
) -> Wrong | None:
    for name, right in want.items():
        kind = name.rsplit(" ", 1)[0]
        if kind in stage.free:
            wrong = _selection(raw, name, got[name], given)
        elif kind in stage.bounded:
            scores = eightbit.right_scores(raw, dict(given), path)
            wrong = scores.wanted.compare(got[name], scores.outside)
        elif written is not None:
            wrong = compare.integers(as_bits(written.found[name]), as_bits(written.right[name]))
        else:
            wrong = compare.integers(as_bits(got[name]), as_bits(right))
        if wrong is not None:
            return Wrong(stage.name, name, wrong)
    return None


def as_bits(tensor: object) -> Tensor:
    """``tensor`` as integers of its width (two NaNs of other bits differ here, on purpose)."""
    sizes = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
    if not isinstance(tensor, Tensor):
        return torch.empty(0)
    return tensor.view(sizes[tensor.dtype]) if tensor.dtype in sizes else tensor


def _selection(raw: Raw, name: str, ids: Tensor, before: Mapping[str, Tensor]) -> Difference | None:
    found = topk.check_selection(ids, _wanted(raw, name, before))
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
