"""The runner gives every case a verdict: green for the oracle, and the right word for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness import runner
from harness.case import case_lists, cases
from harness.case.cases import Case, parse
from harness.findings import Finding
from harness.judge import wanted
from harness.judge.ledger import HITS, Entry, Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths import base
from harness.paths.base import Outcome
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring

DECODE = "decode-n2-h32-d128-ctx300,65-tshuffled-u0-l0-fbytes-s1"
NATURAL = "decode-n2-h32-d128-ctx300,65-tshuffled-u0-l0-fnatural-s1"
PREFILL = "prefill-h32-d128-ctx300-w0@5:290+4-c2-tshuffled-u0-l0-fnatural-s1"
IDENTITY = "identity-n1-h16-d128-ctx600-tshuffled-u{u}-l0-fbytes-s1"


def ran(case: str | Case, path: base.Path | None = None, ledger: Ledger | None = None) -> Verdict:
    return runner.run(
        parse(case) if isinstance(case, str) else case, path or OraclePath(), ledger or Ledger()
    )


class Changed(OraclePath):
    """The oracle path whose outcomes pass through a function."""

    def __init__(self, change: Callable[[Any, Outcome], Outcome], executor: str = "emulated") -> None:
        self.change, self.made = change, executor

    @property
    def executor(self) -> str:
        return self.made

    def run(self, request: Any) -> Outcome:
        return self.change(request, super().run(request))


def meant(case: Case) -> set[Grade]:
    """The grades a case may have: scores of full weights are ordered, what no order settles is bounded."""
    if case.suite == "fp8":
        return {Grade.EXACT, Grade.BOUNDED}
    if case.suite == "writer":
        return {Grade.EXACT, Grade.BOUNDED} if case.f == "natural" else {Grade.EXACT}
    if case.suite == "rotate":  # a norm can leave bytes of a key open, only sums of the transform round
        small = {Grade.EXACT} if case.f in ("onehot", "walsh", "whole") and case.kind == "queries" else set()
        added = {Grade.ORDERED, *small} if case.had else {Grade.EXACT}
        return added | ({Grade.BOUNDED} if case.kind == "keys" else set())
    if (case.suite, case.kind) == ("pipeline", "fp8"):
        return {Grade.BOUNDED}
    scored = case.kind and case.suite not in ("topk", "pipeline")
    return {Grade.ORDERED} if scored and case.f in ("natural", "wide", "sunk") else {Grade.EXACT}


@pytest.mark.parametrize("suite", cases.SUITES)
@pytest.mark.parametrize("which", case_lists.LISTS)
def test_every_listed_case_agrees_on_the_oracle_path(suite: str, which: str) -> None:
    """Green, not mistrusted, with the grade its fill is meant for, and something compared."""
    for case in case_lists.listed(suite, which):
        verdict = ran(case)
        assert verdict.status is Status.AGREE, verdict.text()
        assert verdict.grade in meant(case), verdict.text()
        assert verdict.total > 0 and verdict.seconds > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("decode-n2-h32-d128-ctx0,0-tshuffled-u0-l0-fbytes-s1", "nothing was compared"),
        ("decode-n2-h32-d128-ctx300,65-tidentity-u0-l0-fbytes-s1", "identity"),
        ("prefill-h32-d128-ctx300-w0@5:5+1-c0-tshuffled-u0-l0-fbytes-s1", "nothing was compared"),
        (IDENTITY.format(u="3,4,5"), "all schedules split the work the same way"),
        ("schedule-n1-ctx0-u0-l0", None),
    ],
)
def test_what_proves_little_is_mistrusted(text: str, says: str | None) -> None:
    """Nothing visible, an identity table, one schedule: ran, agreed, and not green."""
    verdict = ran(text)
    if says is None:
        assert verdict.green
    elif verdict.green:
        pytest.fail(verdict.text())
    else:
        assert verdict.status is Status.MISTRUSTED and says in verdict.reason


def test_two_ways_to_split_are_enough() -> None:
    """With two different splits the identity case is green."""
    assert ran(IDENTITY.format(u="1,3")).green


@pytest.mark.parametrize(
    ("value", "says"), [(0.0, "scores are zero"), (torch.inf, "scores are NaN or infinite")]
)
@pytest.mark.parametrize("beyond", [0, 1])
def test_either_side_of_half(monkeypatch: pytest.MonkeyPatch, value: float, says: str, beyond: int) -> None:
    """Half of the scores may vanish or overflow; one more and the case proves too little."""

    def spoil(scores: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        cells = visible.nonzero()[: int(visible.sum()) // 2 + beyond]
        scores[cells[:, 0], cells[:, 1]] = value
        return scores

    def changed(request: Any, outcome: Outcome) -> Outcome:
        spoil(outcome.value, request.expected)
        return outcome

    real = wanted.want
    monkeypatch.setattr(
        wanted,
        "want",
        lambda inputs, tree: replace(made := real(inputs, tree), value=spoil(made.value, inputs.expected)),
    )
    even = "decode-n1-h32-d128-ctx300,64-tshuffled-u0-l0-fbytes-s1"
    verdict = ran(even, Changed(changed))
    assert verdict.green == (beyond == 0), verdict.text()
    assert verdict.green or says in verdict.reason


@pytest.mark.parametrize(("codes", "green"), [(11, False), (12, True)])
def test_few_codes_are_mistrusted(monkeypatch: pytest.MonkeyPatch, codes: int, green: bool) -> None:
    """Either side of the threshold on distinct codes."""
    from harness.fill import fills

    real = fills.fill
    monkeypatch.setattr(
        fills,
        "fill",
        lambda name, shape: replace(
            made := real(name, shape), k_codes=(made.k_codes % codes + 16 - codes).to(torch.uint8)
        ),
    )
    verdict = ran(DECODE)
    assert verdict.green == green and (green or f"{codes} of 16 codes occur in the keys" in verdict.reason)


def test_a_path_that_cannot_is_unsupported() -> None:
    """One sentence from the path is the reason; there is no fallback."""

    class Nothing(OraclePath):
        def answers(self) -> Mapping[type, Callable[[Any], Outcome]]:
            return {}

    verdict = ran(DECODE, Nothing())
    assert (verdict.status, verdict.reason) == (
        Status.UNSUPPORTED,
        "path oracle has no operation DecodeScores",
    )
    assert ran("quantise-r4-d128-fbytes-s1", Nothing()).status is Status.UNSUPPORTED


def test_a_path_that_refuses_to_refuse_differs() -> None:
    """An unsupported builder is no refusal, an accepted short schedule is a difference."""

    def lenient(request: Any, outcome: Outcome) -> Outcome:
        return outcome

    class Short(Changed):
        def decode_schedule(self, request: scoring.DecodeSchedule) -> Outcome:
            try:
                return super().decode_schedule(request)
            except ValueError:
                return Outcome(torch.zeros(request.units, 4, dtype=torch.int32))

    verdict = ran("schedule-n2-ctx300,5-u8-l0", Short(lenient))
    assert (verdict.status, verdict.layer) == (
        Status.DIFFER,
        "refusal",
    ) and "no multiple of 2" in verdict.reason


def test_a_path_that_breaks_is_an_error() -> None:
    """The reason is the exception, with the place it was raised."""

    def broken(request: Any, outcome: Outcome) -> Outcome:
        raise KeyError("lane\n17")

    verdict = ran(DECODE, Changed(broken))
    assert verdict.status is Status.ERROR and verdict.reason == "KeyError: 'lane\\n17'"
    assert any("in broken" in note for note in verdict.notes)
    assert verdict.rerun == f"python -m harness check {DECODE} --path oracle"


def test_the_rerun_line_carries_what_the_path_needs() -> None:
    """Extra arguments of the path are appended, quoted for a shell."""
    path = OraclePath()
    path.rerun_args = ("--aiter", "a dir")  # type: ignore[attr-defined]
    assert ran(DECODE, path).rerun == f"python -m harness check {DECODE} --path oracle --aiter 'a dir'"


FOUND = Finding("out-of-bounds-load", "k", "tables", "kernels/k.py:3 < kernels/k.py:9", 4, {"lane": 3})
KNOWN = Entry("oracle", "k", "out-of-bounds-load", "tables", "kernels/k.py", ("decode",), "It is masked.")


def test_a_new_finding_turns_agreement_red() -> None:
    """Results agree and the case is red all the same; the finding is merged over the launches."""
    verdict = ran(DECODE, Changed(lambda request, outcome: replace(outcome, findings=(FOUND,))))
    assert (verdict.status, verdict.layer, verdict.grade) == (Status.DIFFER, "finding", Grade.EXACT)
    assert verdict.findings == (replace(FOUND, count=12),) and verdict.count == 12
    assert verdict.facts[HITS] == []


def test_a_known_finding_stays_green_and_is_told() -> None:
    """The ledger's reason is in the notes, and the hit is recorded."""
    verdict = ran(
        DECODE, Changed(lambda request, outcome: replace(outcome, findings=(FOUND,))), Ledger((KNOWN,))
    )
    assert verdict.green and verdict.facts[HITS] == [KNOWN.key]
    assert any("It is masked." in note for note in verdict.notes)


def test_a_difference_outranks_a_finding() -> None:
    """With both, the differing bits are what is reported, and the finding is kept."""

    def both(request: Any, outcome: Outcome) -> Outcome:
        outcome.value[0, 0] += 1
        return replace(outcome, findings=(FOUND,))

    verdict = ran(DECODE, Changed(both))
    assert (verdict.layer, verdict.findings) == ("bits", (replace(FOUND, count=12),))


@pytest.mark.parametrize(("off", "status"), [(1, Status.DIFFER), (0, Status.AGREE)])
@pytest.mark.parametrize("text", [DECODE, NATURAL, PREFILL])
def test_one_unit_in_the_last_place(text: str, off: int, status: Status) -> None:
    """One bit pattern off in the last visible cell is red at grade exact and ordered, none is green."""

    def moved(request: Any, outcome: Outcome) -> Outcome:
        row = outcome.value.shape[0] - 1
        column = int(request.expected[row].nonzero()[-1])
        outcome.value[row].view(torch.int32)[column] += off
        return outcome

    verdict = ran(text, Changed(moved))
    assert verdict.status is status
    assert status is Status.AGREE or verdict.ulps == 1


class Treeless(Changed):
    """A path that does not say in which order it adds."""

    def tree(self, request: Any) -> str | None:
        return None


def test_without_a_tree_the_grade_is_bounded() -> None:
    """An unknown order is allowed its rounding and no more; exact fills stay exact."""

    def far_off(request: Any, outcome: Outcome) -> Outcome:
        outcome.value[0, 0] *= 1.1
        return outcome

    assert ran(NATURAL, Treeless(lambda request, outcome: outcome)).grade is Grade.BOUNDED
    assert ran(DECODE, Treeless(lambda request, outcome: outcome)).grade is Grade.EXACT
    verdict = ran(NATURAL, Treeless(far_off))
    assert (verdict.status, verdict.layer) == (Status.DIFFER, "bound")


def test_bounded_answers_must_still_be_one() -> None:
    """Within the bound but with other bits under another schedule is a difference."""
    calls: list[int] = []

    def drifting(request: Any, outcome: Outcome) -> Outcome:
        calls.append(1)
        if len(calls) == 3:
            outcome.value[0].view(torch.int32)[0] += 1
        return outcome

    verdict = ran(NATURAL, Treeless(drifting))
    assert (verdict.status, verdict.layer, verdict.count) == (Status.DIFFER, "bits", 1)
    assert any("given schedule" in note for note in verdict.notes)


def test_a_store_past_the_row_is_seen() -> None:
    """Gaps between the rows of a strided buffer must stay as they were."""

    def spilling(request: Any, outcome: Outcome) -> Outcome:
        if request.out is not None:
            out = request.out
            out.as_strided((1,), (1,), out.storage_offset() + out.shape[1])[0] = 1.0
        return outcome

    verdict = ran(DECODE.replace("shuffled", "strided"), Changed(spilling))
    assert (verdict.status, verdict.reason) == (Status.DIFFER, "written-past-the-row")


def test_an_answer_in_a_copy_is_taken() -> None:
    """A path that hands back a copy instead of the buffer is compared all the same."""
    assert ran(DECODE, Changed(lambda request, outcome: replace(outcome, value=outcome.value.clone()))).green


@pytest.mark.parametrize("value", [None, torch.zeros(2, 2), (torch.zeros(1),)])
def test_an_answer_of_the_wrong_shape_is_layer_shape(value: object) -> None:
    """For every suite: a wrong type, arity or shape differs and does not break the harness."""
    path = Changed(lambda request, outcome: replace(outcome, value=value))
    for case in (
        DECODE, PREFILL, IDENTITY.format(u="1,3"), "varqlen-h16-d128-ctx64-q2-p1-tshuffled-u0-l0-fbytes-s1",
        "schedule-n2-ctx300,5-u8-l0", "quantise-r4-d128-fbytes-s1", "write-r4-h16-d128-fboundary-s1",
        "layout-h16-d128-ctx70-tshuffled-s1",
    ):  # fmt: skip
        verdict = ran(case, path)
        assert (verdict.status, verdict.layer) == (Status.DIFFER, "shape"), verdict.text()


def test_oracles_that_part_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the exact and the ordered oracle contradict each other no path is judged."""
    real = wanted.scored

    def parting(inputs: Any, how: Any, rows: Any = None) -> Any:
        made = real(inputs, how, rows)
        return made if how == "exact" else replace(made, value=made.value + 1)

    monkeypatch.setattr(wanted, "scored", parting)
    assert "exact" in ran(DECODE).reason and ran(DECODE).status is Status.ERROR


def test_a_case_too_large_for_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is allocated, in a sentence with both figures."""
    monkeypatch.setattr(runner, "memory", lambda what: 1 << 20)
    verdict = ran("decode-n1-h16-d128-ctx1048576-tshuffled-u0-l0-fbytes-s1")
    assert verdict.status is Status.UNSUPPORTED and "GiB" in verdict.reason
    monkeypatch.setattr(runner, "memory", lambda what: None)
    assert ran(DECODE).green


def test_over_budget_dots_are_told() -> None:
    """A verdict on dots the matrix instruction need not get right says how many there are."""
    verdict = ran("decode-n2-h16-d128-ctx300-tshuffled-u0-l0-fwide-s1")
    assert any("outside the exact budget" in note for note in verdict.notes)
    assert not any("outside the exact budget" in note for note in ran(DECODE).notes)


@pytest.mark.parametrize(
    ("executor", "status"), [("device gfx950", Status.UNSUPPORTED), ("emulated", Status.DIFFER)]
)
def test_a_device_is_not_judged_outside_the_budget(executor: str, status: Status) -> None:
    """Where the instruction's rounding is not published a device may differ, an emulator may not."""

    def moved(request: Any, outcome: Outcome) -> Outcome:
        outcome.value[0].view(torch.int32)[0] += 1
        return outcome

    case = "decode-n2-h16-d128-ctx300-tshuffled-u0-l0-f{}-s1"
    assert ran(case.format("wide"), Changed(moved, executor)).status is status
    assert ran(case.format("natural"), Changed(moved, executor)).status is Status.DIFFER
