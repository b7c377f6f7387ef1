"""Every fault of a draft loop turns a smoke case red, and is named where it is."""

from __future__ import annotations

import pytest

from harness import runner
from harness.case import lists
from harness.case.cases import CaseError, parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths.oracle import OraclePath
from suites.self.speculative_faults import FAULTS, FaultyPath

B21 = "speculative-n4-h16-d128-ctx100,52-steps3-ub1-tshuffled-fbytes-s1"
PARTS = "speculative-n2-h16-d128-ctx4096,4096,10,10-steps1-ub2-tshuffled-fbytes-s1"
BORDER = "speculative-n4-h16-d128-ctx255-steps3-ub1-tshuffled-fbytes-s1"


def first_red(fault: str) -> Verdict | None:
    path = FaultyPath(fault)
    for case in lists.SUITES["speculative"].smoke:
        verdict = runner.run(parse(case), path, Ledger())
        if verdict.status is not Status.AGREE:
            return verdict
    return None


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_turns_the_suite_red(fault: str) -> None:
    """It differs in some case: no error, no mistrust, a difference."""
    verdict = first_red(fault)
    assert verdict is not None, f"{fault} passes"
    assert verdict.status is Status.DIFFER, verdict.text()
    assert verdict.reason and verdict.layer and verdict.rerun and verdict.count
    print(verdict.text())


NAMED = {
    ("stale-draft-steps", BORDER): ("asked at draft step 1, micro-batch 0", "1 entries with another length"),
    ("wide-rows-schedule", B21): ("asked at draft step 0, micro-batch 0", "6 foreign (row, chunk)"),
    ("rows-taken-for-sequences", B21): (
        "asked at draft step 0, micro-batch 0",
        "2 entries with another length",
    ),
    ("ubatch-global-zero", PARTS): ("asked at the verify step, micro-batch 1", "foreign (row, chunk)"),
    ("ubatch-one-buffer", PARTS): ("asked at the verify step, micro-batch 0", "60 missing (row, chunk)"),
    ("draft-lengths-inflated", BORDER): ("asked at draft step 0, micro-batch 0", "1 foreign (row, chunk)"),
}


@pytest.mark.parametrize(("asked", "said"), NAMED.items(), ids=[fault for fault, _ in NAMED])
def test_a_fault_is_named(asked: tuple[str, str], said: tuple[str, str]) -> None:
    """The launch it shows at, and what the schedule there gets wrong."""
    verdict = runner.run(parse(asked[1]), FaultyPath(asked[0]), Ledger())
    assert verdict.status is Status.DIFFER, verdict.text()
    assert said[0] in verdict.notes and said[1] in verdict.pattern, verdict.text()


def test_a_backend_without_the_call_is_named() -> None:
    verdict = runner.run(parse(B21), FaultyPath("no-base-publish"), Ledger())
    assert (verdict.reason, dict(verdict.where)) == ("does-not-answer-publish", {"backend": "dense"})


def test_the_right_path_agrees_and_every_launch_was_judged() -> None:
    """Verify, three draft steps, verify; two micro-batches make twice as many launches."""
    verdict = runner.run(parse(B21), OraclePath(), Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    assert verdict.facts["launches judged"] == 5
    verdict = runner.run(parse(PARTS), OraclePath(), Ledger())
    assert verdict.status is Status.AGREE and verdict.facts["launches judged"] == 6


def test_one_row_a_sequence_is_mistrusted() -> None:
    """With N = 1 a schedule of verify rows suits the draft."""
    verdict = runner.run(parse(B21.replace("n4", "n1")), OraclePath(), Ledger())
    assert verdict.status is Status.MISTRUSTED and "one row a sequence" in verdict.reason


def test_a_case_that_cannot_be_is_refused() -> None:
    with pytest.raises(CaseError, match="field ub is 3, allowed are 1 and 2"):
        parse(B21.replace("ub1", "ub3"))
    with pytest.raises(CaseError, match="field ctx is 1048576, allowed are 0 to 1048572"):
        parse(B21.replace("ctx100", "ctx1048576"))
    with pytest.raises(CaseError, match="field t is 'vast', allowed in suite speculative"):
        parse(B21.replace("tshuffled", "tvast"))
