"""Every fault of a captured step turns a smoke case red, and is named where it is."""

from __future__ import annotations

import pytest
import torch

from harness import runner
from harness.case import lists
from harness.case.cases import CaseError, parse
from harness.checks.replay import contents as replay_contents
from harness.judge import wanted
from harness.judge.bits import SENTINEL
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from harness.paths.oracle import OraclePath, replaying
from suites.self.replay_faults import FAULTS, FaultyPath

SMALL = "replay-n2-h16-d128-bucket2-v255,9_257_1,258-k8-tshuffled-fbytes-s1"


def first_red(fault: str) -> Verdict | None:
    path = FaultyPath(fault)
    for case in lists.SUITES["replay"].smoke:
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


NAMED: dict[str, tuple[str, dict[str, int | str], str]] = {
    "stale-schedule": ("values-differ", {"tensor": "schedule"}, "1 missing (row, chunk), first (1, 1)"),
    "selection-of-the-capture": ("selection-differs", {"tensor": "selected"}, ""),
    "dead-rows-scored": ("written-outside-window", {"column": 0}, ""),
    "schedule-in-a-copy": ("values-differ", {"got entry": "(0, 0, 2, 0)"}, "missing"),
    "windows-in-a-copy": ("values-differ", {"tensor": "window seq"}, ""),
    "prefill-schedule-in-a-copy": ("values-differ", {"tensor": "prefill schedule"}, ""),
    "short-schedule": ("accepted a buffer of 7 entries, no multiple of 2", {}, ""),
    "fallback-captured": ("captured-other-calls", {}, ""),
}


@pytest.mark.parametrize("fault", NAMED)
def test_a_fault_is_named(fault: str) -> None:
    """Reason, place and what is missing, of the first difference."""
    reason, where, shared = NAMED[fault]
    verdict = runner.run(parse(SMALL), FaultyPath(fault), Ledger())
    assert verdict.reason == reason, verdict.text()
    assert where.items() <= dict(verdict.where).items(), verdict.text()
    assert shared in verdict.pattern, verdict.text()


def test_the_right_path_agrees_and_everything_was_compared() -> None:
    """Five replays of three contents; each has scores, schedule and selection."""
    verdict = runner.run(parse(SMALL), OraclePath(), Ledger())
    assert verdict.status is Status.AGREE, verdict.text()
    assert verdict.facts["replays"] == 5 and verdict.facts["stale pairs that leave a chunk out"] > 0
    assert verdict.total > 5 * 512 * 4


def test_contents_that_one_schedule_covers_are_mistrusted() -> None:
    """Lengths that never cross a chunk border cannot show a stale schedule."""
    verdict = runner.run(parse(SMALL.replace("255,9_257_1,258", "9,5_9,6_8,1")), OraclePath(), Ledger())
    assert verdict.status is Status.MISTRUSTED
    assert "never refreshed" in verdict.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v255_3,2,1", "field v has a vector of 3 lengths, allowed are 1 to bucket = 2"),
        ("v255", "field v has one vector, allowed in suite replay are 2 to 64"),
        ("v0_0", "field v has no key"),
        ("v9_1048576", "field v is 1048576, allowed are 0 to 1048575"),
    ],
)
def test_a_case_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(CaseError, match=said):
        parse(SMALL.replace("v255,9_257_1,258", text))


def test_contents_about_ties_have_them_where_they_matter() -> None:
    """A third of the keys sinks: cuts lie among minus infinities; with one key in a row they do not."""
    text = SMALL.replace("fbytes", "fsunk").replace("k8", "k200")
    verdict = runner.run(parse(text), OraclePath(), Ledger())
    assert verdict.status is Status.AGREE and verdict.facts["ties at a cut of minus infinity"] > 0
    verdict = runner.run(parse(text.replace("k200", "k1")), OraclePath(), Ledger())
    assert (
        verdict.status is Status.MISTRUSTED and "no cut lies among scores of minus infinity" in verdict.reason
    )


def test_far_tables_are_refused() -> None:
    with pytest.raises(CaseError, match="field t is 'far', allowed in suite replay are shuffled"):
        parse(SMALL.replace("tshuffled", "tfar"))


def test_poisoned_scores_alone_show_a_stale_schedule() -> None:
    """Scores made by the schedule of 255, 9 over lengths 257 and 0: row 1 lacks column 256."""
    case = parse(SMALL)
    replays = replay_contents.contents(case)
    fixed = replay_contents.fixed(case, replays, 512)
    replaying.publish(fixed.put(replays[0]))
    step = fixed.put(replays[1])
    replaying.score(step)
    wrong = wanted.want(replays[1], "decode").compare(step.out, replays[1], SENTINEL)
    assert wrong is not None and wrong.reason == "missing-inside-window"
    assert wrong.cells.tolist() == [[1, 256]]


def test_contents_go_where_the_step_has_its_tensors() -> None:
    """Addresses stay, the dead hold no page, lengths past the bucket are hostile, results are poison."""
    case = parse(SMALL)
    replays = replay_contents.contents(case)
    fixed = replay_contents.fixed(case, replays, 512)
    before = [tensor.data_ptr() for tensor in fixed.step.written] + [fixed.step.planes.k_codes.data_ptr()]
    for one in replays:
        step = fixed.put(one)
        assert step.context_lens.tolist() == one.context_lens.tolist()
        assert torch.equal(step.planes.weights, one.planes.weights)
        after = [tensor.data_ptr() for tensor in step.written] + [step.planes.k_codes.data_ptr()]
        assert after == before
    fixed.put(replays[1])
    assert fixed.step.planes.block_tables[1].unique().tolist() == [0x7FFFFFFF]
    assert bool((fixed.step.out.view(torch.int32) == SENTINEL).all())
    assert bool((fixed.step.selected == replay_contents.UNSELECTED).all())
    length = fixed.step.context_lens.as_strided((3,), (1,))
    assert int(length[2]) == replay_contents.HOSTILE_LENGTH
