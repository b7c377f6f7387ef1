"""What is wrong with a selection of keys, and with ranks that do not all have the same one.

A selection is one of the right ones or it is not, whatever its order; agreement is of sets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from harness.judge.compare import Difference
from oracles import dcp, topk
from oracles.topk import TopK

REASONS = {
    "missing": "key-not-selected",
    "foreign": "key-not-to-be-selected",
    "doubled": "key-selected-twice",
    "open_places": "tie-class-wrongly-filled",
}
"""What can be wrong with a selection, as `topk.Selection` counts it."""


def selection(ids: Tensor, right: TopK) -> Difference | None:
    """What is wrong with a selection int [T, any]: the first row that is none of the right ones."""
    found = topk.check_selection(ids, right)
    bad = (~found.ok).nonzero()
    if not len(bad):
        return None
    row = int(bad[0])
    counts = {kind: int(getattr(found, kind)[row]) for kind in REASONS}
    reason = next(reason for kind, reason in REASONS.items() if counts[kind])
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
    want = f"{int((right.ids[row] >= 0).sum())} keys"
    return Difference("bits", reason, bad, said, want, count=len(bad), total=len(found.ok))


def disagreement(selections: list[Tensor]) -> Difference | None:
    stacked = torch.stack(selections)
    bad = (~dcp.agreed(stacked)).nonzero()
    if not len(bad):
        return None
    sets = [sorted(set(stacked[rank, int(bad[0])].tolist()) - {dcp.PAD}) for rank in range(len(selections))]
    other = next((rank for rank, chosen in enumerate(sets) if chosen != sets[0]), 0)
    got, want = set(sets[other]) - set(sets[0]), set(sets[0]) - set(sets[other])
    said = (f"rank {other} has {sorted(got)[:4]} more", f"rank 0 has {sorted(want)[:4]} more")
    return Difference("bits", "ranks-disagree", bad, *said, count=len(bad), total=stacked.shape[1])
