"""The catalogue: every known defect is in it, under its name, with a case and with what misses it."""

from __future__ import annotations

import re

import pytest

from harness import runner
from harness.case import cases
from harness.exits import InputError
from harness.faults import catalogue
from harness.faults.fault import Fault
from harness.faults.planted import Planted
from harness.faults.stages import lowered
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.power.acceptance import RULES
from suites.self.fault_bench import bench

KNOWN = {
    "scale-read-flat", "scale-write-flat", "scale-both-flat", "page-size-lanes", "nibble-swap", "tie-away",
    "tie-zero", "tie-down", "scale-floor", "scale-amax-over-7", "scale-eps", "neg-zero-drop",
    "weights-scaled-twice", "weights-unscaled", "rope-interleaved", "norm-population-eps", "pad-row-garbage",
    "slot-negative-write", "mask-off-by-one-early", "mask-off-by-one-late", "next-n-swap",
    "window-start-ignored", "own-pages-only", "relu-missing", "relu-after-weight", "opsel-wrong",
    "k-tile-order", "short-schedule", "double-cover", "gap-cover", "units-not-multiple", "stale-schedule",
    "stale-draft-steps", "wide-rows-schedule", "no-base-publish", "ubatch-global-zero",
    "local-length-uniform", "owner-round-robin-only", "gather-order", "staged-table-one-seq",
    "staged-tail-alias", "merge-unstable", "merge-drops-interleaved-padding", "kpool-accepted",
    "headdim-accepted", "heads-accepted", "chip-probed-for-fp8", "refusal-silent", "fp8-drift",
    "int32-overflow", "table-overread",
}  # fmt: skip
"""Every entry of the specification's list; one that goes to either side is two."""

MISSING = re.compile(r"\(([a-z][^()\s]*-s\d+)\)")
"""In what a fault is missed by: the id of a case that stays green with the fault."""


def test_every_known_defect_is_a_fault() -> None:
    """Names are unique, since the catalogue is refused otherwise."""
    names = [fault.name for fault in catalogue.ALL]
    assert set(names) >= KNOWN
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("fault", catalogue.ALL, ids=lambda fault: str(fault.name))
def test_a_fault_says_what_it_is(fault: Fault) -> None:
    """A name of one word, texts without a full stop, a case as it is spelled, requests that it changes."""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault.name)
    for text in (fault.stage, fault.wrong, fault.seen, fault.weak, fault.source):
        assert text.strip() and not text.endswith(".") and "\n" not in text
    assert cases.parse(fault.case).id == fault.case
    assert fault.plant()


def missed() -> list[tuple[str, str]]:
    return [(fault.name, case) for fault in catalogue.ALL for case in MISSING.findall(fault.weak)]


@pytest.mark.parametrize(("name", "elsewhere"), missed(), ids=lambda word: str(word))
def test_what_misses_a_fault_misses_it(name: str, elsewhere: str) -> None:
    """The case that its words name is reached by the fault, or has nothing of it, and does not differ."""
    fault = catalogue.named(name)
    inner = bench("flydsl" if fault in lowered.FAULTS else "oracle").path
    verdict = runner.run(cases.parse(elsewhere), Planted(inner, [fault]), Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    assert cases.parse(elsewhere).id == elsewhere != fault.case


@pytest.mark.parametrize(
    ("name", "rule"),
    [(fault.name, rule) for fault in catalogue.ALL for rule in RULES if rule in fault.weak],
    ids=lambda word: str(word),
)
def test_a_rule_that_misses_a_fault_misses_it(name: str, rule: str) -> None:
    """An acceptance rule that is in use elsewhere and named in a fault's words lets its case pass."""
    told = bench("oracle").trial(catalogue.named(name))
    assert rule in (told.passing or ())


def test_an_unknown_name_is_one_sentence_with_near_names() -> None:
    with pytest.raises(InputError, match="'relu-mising', which is no fault; near it are relu-missing"):
        catalogue.named("relu-mising")
    with pytest.raises(InputError, match="'harness list faults' prints all names"):
        catalogue.chosen(["tie-away", "qqq"])
