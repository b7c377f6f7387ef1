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

from harness.diagnose import choices, roundings
from harness.diagnose.cells import ASKED, Compared, Outputs, bits, kept, plain
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

DEPENDING: Mapping[type, tuple[str, ...]] = {
    sharding.PackCandidates: ("ids",),
    sharding.MergeCandidates: ("scores", "ids"),
    sharding.MergeColumns: ("scores",),
    sharding.LocaliseIds: ("ids",),
    sharding.LocaliseColumns: ("columns", "ids"),
}
"""Requests that depend on a choice which was open before: the fields that say what was chosen."""

OWN_TERMS = ("captured-other-calls", "does-not-answer-publish", "acts-without-fp4")
"""Reasons of verdicts whose count and right value are in the path's own terms: its backends, its calls."""


def compared(request: Any, outputs: Outputs, earlier: list[Tensor]) -> Compared:
    """Name to int64 tensor of what is compared of ``outputs``; ``earlier``: of `roundings.before`."""
    if isinstance(request, OPEN):
        return {}
    known = {name: tensor for name, tensor in outputs.items() if kept(tensor)}
    found = RULES.get(type(request), plain)(request, known, earlier)
    fields = DEPENDING.get(type(request))
    if fields:
        found[ASKED] = torch.cat([bits(getattr(request, name)).flatten() for name in fields])
    return found


Rule = Callable[[Any, Outputs, list[Tensor]], Compared]

RULES: Mapping[type, Rule] = {
    writing.Quantise: roundings.quantised,
    writing.WriteTokens: roundings.tokens,
    selecting.SelectDecode: choices.selected,
    selecting.SelectPrefill: choices.selected,
    replaying.Replay: choices.stepped,
    replaying.Eager: choices.stepped,
    sharding.PackCandidates: choices.packed,
    sharding.MergeCandidates: choices.merged,
    sharding.MergeColumns: choices.merged,
    sharding.LocaliseIds: choices.localised,
    sharding.LocaliseColumns: choices.localised,
    staging.GatherPlan: choices.planned,
    staging.StagePrefill: choices.staged,
    eightbit.PagedScores8: roundings.paged8,
    eightbit.FlatScores8: roundings.flat8,
    publishing.DraftLoop: lambda request, outputs, earlier: {},
}
"""Requests that leave something open; of all others every bit of every output is compared."""
