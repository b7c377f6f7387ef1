"""Every fault of decode over shards turns a smoke case red, and is named where it is."""

from __future__ import annotations

import pytest

from harness import runner
from harness.case import lists
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from suites.self.dcp_faults import FAULTS, FaultyPath


def first_red(fault: str) -> Verdict | None:
    path = FaultyPath(fault)
    for case in lists.SUITES["dcp-decode"].smoke:
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


B39 = "dcp-decode-world4-inter1-exids-n4-h32-d128-ctx100-k8-tshuffled-fbytes-s1"
NAMED = {
    ("local-length-counted-back", B39): ("values-differ", {"map": "RowLengths", "rank": 0}),
    ("merge-unstable", "dcp-decode-world2-inter1-exids-n1-h32-d128-ctx258-k6-tshuffled-fties-s3"): (
        "ranks-disagree",
        {"row": 0},
    ),
    ("global-id-local-table", "dcp-decode-world2-inter1-exids-n1-h32-d128-ctx64-k32-tshuffled-fbytes-s1"): (
        "slot-of-no-own-key",
        {"row": 0},
    ),
}


@pytest.mark.parametrize(("asked", "said"), NAMED.items(), ids=[fault for fault, _ in NAMED])
def test_a_fault_is_named(asked: tuple[str, str], said: tuple[str, dict[str, int | str]]) -> None:
    """Reason and place of the first difference."""
    verdict = runner.run(parse(asked[1]), FaultyPath(asked[0]), Ledger())
    assert verdict.reason == said[0], verdict.text()
    assert said[1].items() <= dict(verdict.where).items(), verdict.text()
