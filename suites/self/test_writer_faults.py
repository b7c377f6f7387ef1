"""Every way of getting the fused writer wrong turns a smoke case red, in the right output, with its name."""

from __future__ import annotations

import pytest

from harness import runner
from harness.case import case_lists
from harness.case.cases import parse
from harness.checks.writer.wanted import ORDER
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from suites.self import writer_faulty
from suites.self.writer_faulty import FAULTS, FaultyWriter

OPEN = "writer-r7-h16-d128-pairneox-all1-p3-fnatural-s48"
"""The listed case with one key byte that the order of summation decides."""
SMOKE = [case.id for case in case_lists.listed("writer", "smoke")]
CATALOGUE = {
    "nibble-swap",
    "tie-away",
    "tie-zero",
    "tie-down",
    "scale-floor",
    "scale-amax-over-7",
    "scale-eps",
    "neg-zero-drop",
    "weights-scaled-twice",
    "rope-interleaved",
    "norm-population",
    "norm-eps",
    "pad-row-garbage",
    "slot-negative-write",
    "page-size-lanes",
    "scale-write-flat",
}
"""Names of spec faults.md, stages quantise, write and layout."""


def judged(text: str, path: FaultyWriter) -> Verdict:
    return runner.run(parse(text), path, Ledger())


@pytest.mark.parametrize("text", SMOKE)
def test_the_unspoilt_second_writer_agrees(text: str) -> None:
    """Torch's own float32, and a layout of its own: the ranges hold for another writer than the oracle."""
    verdict = judged(text, FaultyWriter())
    grade = Grade.BOUNDED if text == OPEN else Grade.EXACT
    assert (verdict.status, verdict.grade) == (Status.AGREE, grade), verdict.text()
    assert verdict.facts["bytes with several right values"] == int(text == OPEN)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_a_smoke_case_red(name: str) -> None:
    """A difference, in the first output that is wrong, and the rule behind it by name where there is one."""
    shown = FAULTS[name]
    assert shown.case in SMOKE
    verdict = judged(shown.case, shown.path)
    assert verdict.status is Status.DIFFER, verdict.text()
    assert verdict.where["tensor"] == shown.output, verdict.text()
    assert shown.says in verdict.pattern and bool(shown.says) == bool(verdict.pattern), verdict.text()


def test_the_catalogue_is_covered() -> None:
    assert set(FAULTS) >= CATALOGUE


def test_queries_wrong_and_keys_right_is_visible() -> None:
    """Field report B04: one verdict an output, whichever is compared first."""
    verdict = judged(writer_faulty.SPREAD, FAULTS["pad-tile-garbage"].path)
    told = verdict.facts["outputs"]
    assert list(told) == list(ORDER)
    assert told["q_scales"].endswith("differ") and {told[name] for name in ORDER[1:]} == {"right"}
    assert any("q_codes right" in note for note in verdict.notes)


def test_an_input_that_changed_is_a_finding() -> None:
    path = FaultyWriter(after=writer_faulty.clamp_weights)
    verdict = judged(writer_faulty.SPREAD, path)
    assert verdict.status is Status.DIFFER
    assert [(found.kind, found.operand) for found in verdict.findings] == [("input-changed", "weights")]
