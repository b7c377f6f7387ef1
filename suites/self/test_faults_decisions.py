"""Faults of top-k, gate and pool: green without, red with, at the layer it belongs to."""

from __future__ import annotations

import pytest

from harness import runner
from harness.case.cases import parse
from harness.faults.catalogue import named
from harness.faults.planted import Planted
from harness.faults.stages import gating, pooling, selecting
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths.base import Path
from harness.paths.oracle import OraclePath
from suites.self.test_faults_topology import in_tree, seen, without

STAGES = (selecting, gating, pooling)

SHOWN: dict[str, tuple[str, str, str]] = {
    "topk-row-stride": ("bits", "keys-selected-wrongly", "over strided rows"),
    "topk-start-ignored": ("bits", "keys-selected-wrongly", "outside the window"),
    "topk-ids-from-window": ("bits", "keys-selected-wrongly", "outside the window"),
    "topk-window-one-longer": ("bits", "keys-selected-wrongly", "row end one too long?"),
    "topk-ends-of-sequence": ("bits", "keys-selected-wrongly", "row end one too long?"),
    "topk-k-from-default": ("mask", "places-never-written", "'place': 512"),
    "topk-bypass-at-2048": ("bits", "keys-selected-wrongly", "for the first keys, whatever their scores"),
    "topk-pads-with-0": ("bits", "keys-selected-twice", "'row': 1"),
    "topk-short-rows-ranked": ("bits", "keys-not-selected", "wherever no score decides"),
    "topk-tie-doubled": ("bits", "keys-selected-twice", "'row': 0"),
    "topk-ties-to-last": ("bits", "keys-selected-wrongly", "but for ties"),
    "topk-signed-zeros": ("bits", "keys-selected-wrongly", "if -0 were below +0"),
    "topk-infinite-padding": ("bits", "tie-class-miscounted", "-inf"),
    "topk-half-precision": ("bits", "keys-selected-wrongly", "'row': 0"),
    "kpool-accepted": ("bits", "FP4 is taken in spite of kpool", "builder"),
    "headdim-accepted": ("bits", "FP4 is taken in spite of head_dim", "builder"),
    "heads-accepted": ("bits", "FP4 is taken in spite of heads", "builder"),
    "topk-unset-accepted": ("bits", "FP4 is taken in spite of topk", "builder"),
    "chip-accepted": ("bits", "FP4 is taken in spite of gfx942", "builder"),
    "chip-probed-for-fp8": ("bits", "the chip is looked up for nothing", ""),
    "fallback-silent": ("bits", "not as many warnings as are due", ""),
    "fallback-told-by-all": ("bits", "not as many warnings as are due", ""),
    "verdicts-split": ("bits", "FP4 is taken in spite of head_dim, and not by all who ask", "indexer 0"),
    "verdict-overwritten": ("refusal", "accepted FP4 in spite of split", ""),
    "refusal-silent": ("refusal", "accepted FP4 in spite of nowriter", ""),
    "refusal-unnamed": ("refusal", "the refusal does not name what blocks", ""),
    "page-multiple-accepted": ("refusal", "accepted FP4 in spite of page", "pages of 128 rows"),
    "pool-charged-as-fp8": ("shape", "charged-otherwise", "for an fp4 pool"),
    "pool-scales-uncharged": ("shape", "charged-otherwise", "for an fp4 pool"),
    "pool-layers-overlap": ("shape", "planes-overlap", "for an fp4 pool"),
    "pool-page-short": ("shape", "allocated-otherwise", "for an fp4 pool"),
}
"""Layer, how the reason begins, and what the verdict says besides."""


def test_every_fault_of_these_stages_is_here() -> None:
    assert [fault.name for stage in STAGES for fault in stage.FAULTS] == list(SHOWN)


@pytest.mark.parametrize("path", ["flydsl", "oracle"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_fault_is_red_where_it_belongs(name: str, path: str) -> None:
    """Its own case agrees on the in-tree path, and differs with it, on either path, as is stated."""
    fault, (layer, reason, said) = named(name), SHOWN[name]
    inner: Path = in_tree() if path == "flydsl" else OraclePath()
    sound = without(fault.case)
    assert sound.status is Status.AGREE, sound.text()
    faulty = runner.run(parse(fault.case), Planted(inner, [fault]), Ledger())
    assert faulty.status is Status.DIFFER, faulty.text()
    assert (faulty.layer, faulty.reason[: len(reason)]) == (layer, reason), faulty.text()
    assert said in f"{faulty.got} {faulty.want} {seen(faulty)}", faulty.text()
