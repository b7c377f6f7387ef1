"""Faults of quantisers, writers, layouts and the FP8 default: green without, red with, where they belong."""

from __future__ import annotations

import pytest

from harness.faults.catalogue import named
from harness.faults.stages import eightbit, layout, quantising, writing
from harness.faults.trial import RED
from suites.self.fault_bench import bench

STAGES = (quantising, layout, writing, eightbit)

SHOWN = {
    "nibble-swap": "bits",
    "tie-away": "bits",
    "tie-zero": "bits",
    "tie-down": "bits",
    "scale-floor": "bits",
    "scale-even": "bits",
    "scale-amax-over-7": "bits",
    "scale-eps": "bits",
    "scale-no-floor": "bits",
    "neg-zero-drop": "bits",
    "scale-lanes-constant": "bits",
    "scorer-scale-flat": "bits",
    "writer-scale-flat": "bits",
    "nibble-swap-read": "bits",
    "nibble-swap-query": "bits",
    "keys-written-in-rows": "bits",
    "keys-read-in-rows": "bits",
    "rope-interleaved": "bits",
    "rope-neox": "bits",
    "hadamard-query-only": "bits",
    "norm-population-eps": "bits",
    "norm-eps": "bits",
    "norm-bf16": "bits",
    "query-scale-floor": "bits",
    "weights-scaled-by-writer": "bits",
    "pad-row-garbage": "bits",
    "pad-row-weights": "bits",
    "position-wraps": "bits",
    "rows-past-the-slots": "bits",
    "slot-negative-write": "bits",
    "padding-slot-zero": "bits",
    "fp8-drift": "bits",
    "fp8-fnuz-as-fn": "bits",
    "fp8-tiled-read-flat": "bits",
    "fp8-tiled-written-flat": "bits",
    "fp8-plain-scale": "bits",
    "fp8-query-divides": "bits",
    "fp8-key-floor": "bits",
    "fp8-tie-away": "bits",
    "fp8-weights-unscaled": "bits",
    "fp8-relu-missing": "bits",
    "fp8-key-scale-dropped": "bits",
    "fp8-window-end-early": "mask",
    "fp8-slot-negative-write": "bits",
    "fp8-own-pages-only": "bits",
}
"""Fault to the layer at which its case differs."""


def test_every_fault_of_these_stages_is_here() -> None:
    assert [fault.name for stage in STAGES for fault in stage.FAULTS] == list(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_fault_is_red_on_the_in_tree_path(name: str) -> None:
    """Its own case agrees without it, and differs with it at the layer that is stated."""
    told = bench().trial(named(name))
    assert (told.outcome, told.layer) == (RED, SHOWN[name]), told.reason
