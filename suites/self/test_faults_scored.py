"""Faults of the scorers: green without, red with, and what other rules make of the same scores."""

from __future__ import annotations

import pytest

from harness.faults.catalogue import named
from harness.faults.stages import lowered, masking, scoring, tails
from harness.faults.trial import RED
from harness.power.acceptance import RULES
from suites.self.fault_bench import bench

STAGES = (masking, scoring, tails, lowered)
COSINE, SELECTION, *_ = ALL = tuple(RULES)
SHAPE_ONLY = (COSINE, SELECTION)
UNSEEN = None
"""The scores that these rules look at are right."""

SHOWN: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "mask-off-by-one-early": ("mask", ()),
    "mask-off-by-one-late": ("mask", ()),
    "mask-all-early": ("mask", ()),
    "mask-all-late": ("mask", ()),
    "window-start-early": ("mask", ()),
    "window-start-late": ("mask", ()),
    "next-n-swap": ("bits", ()),
    "window-start-ignored": ("mask", ()),
    "window-start-rounded": ("mask", ()),
    "window-end-rounded": ("mask", ()),
    "window-one-offset": ("bits", UNSEEN),
    "cached-prefix-ignored": ("mask", ()),
    "own-pages-only": ("bits", ()),
    "table-wraps-at-2048": ("bits", (COSINE,)),
    "relu-missing": ("bits", ()),
    "relu-after-weight": ("bits", ()),
    "relu-after-sum": ("bits", ()),
    "opsel-wrong": ("bits", ()),
    "query-opsel-wrong": ("bits", ()),
    "group-order": ("bits", ()),
    "k-tile-order": ("bits", ()),
    "k-tile-dropped": ("bits", ()),
    "weights-scaled-twice": ("bits", SHAPE_ONLY),
    "weights-unscaled": ("bits", SHAPE_ONLY),
    "head-scale-lost": ("bits", SHAPE_ONLY),
    "additions-in-one-chain": ("bits", ALL),
    "weight-scale-order": ("bits", ALL),
    "product-rounded": ("bits", ALL),
    "int32-overflow": ("mask", UNSEEN),
    "tail-not-cleared": ("mask", ()),
    "tail-overwritten": ("mask", UNSEEN),
    "idle-lane-store": ("bits", ()),
    "missing-sync": ("bits", UNSEEN),
    "table-overread": ("finding", UNSEEN),
    "permute-lane-off": ("bits", ()),
}
"""Fault to the layer at which its case differs, and the rules that let the same scores pass."""


def test_every_fault_of_these_stages_is_here() -> None:
    assert [fault.name for stage in STAGES for fault in stage.FAULTS] == list(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_fault_is_red_on_the_in_tree_path(name: str) -> None:
    """Its own case agrees without it, and differs with it; what passes elsewhere is what is stated."""
    told = bench().trial(named(name))
    assert (told.outcome, told.layer) == (RED, SHOWN[name][0]), told.reason
    assert told.passing == SHOWN[name][1]
