"""Every fault of the catalogue that these suites are responsible for turns a smoke case red."""

from __future__ import annotations

import pytest

from harness import runner
from harness.case import case_lists
from harness.case.cases import parse
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status, Verdict
from suites.self import faulty


def first_red(name: str, suite: str) -> Verdict | None:
    path, _ = faulty.FAULTS[name]
    for case in case_lists.listed(suite, "smoke"):
        verdict = runner.run(case, path, Ledger())
        if verdict.status is not Status.AGREE:
            return verdict
    return None


@pytest.mark.parametrize(
    ("name", "suite"), [(name, suite) for name, (_, suites) in faulty.FAULTS.items() for suite in suites]
)
def test_a_fault_turns_its_suites_red(name: str, suite: str) -> None:
    """Each suite that can show the fault differs in some case: no error, no mistrust, a difference."""
    verdict = first_red(name, suite)
    assert verdict is not None, f"{name} passes suite {suite}"
    assert verdict.status is Status.DIFFER, verdict.text()
    assert verdict.reason and verdict.layer and verdict.rerun and verdict.count


HINTS = {
    ("scale-read-flat", "decode-n2-h64-d128-ctx300-tshuffled-u0-l0-fbytes-s1"): "its flat row (no bend)",
    ("opsel-constant", "decode-n2-h64-d128-ctx300-tshuffled-u0-l0-fbytes-s1"): "the scales of slot",
    ("nibble-swap-read", "decode-n1-h32-d128-ctx300-tshuffled-u0-l0-fbytes-s1"): "nibbles of the key swapped",
    ("query-scale-tile", "decode-n1-h128-d128-ctx64-tshuffled-u0-l0-fbytes-s1"): "query scales moved by",
    (
        "heads-dropped",
        "prefill-h32-d128-ctx64-w0@0:64-c0-tshuffled-u0-l0-fnatural-s1",
    ): "without heads 16 to 31",
    (
        "weights-unscaled",
        "prefill-h32-d128-ctx64-w0@0:64-c0-tshuffled-u0-l0-fnatural-s1",
    ): "with no weight scale",
    ("weights-scaled-twice", "decode-n1-h32-d128-ctx64-tshuffled-u0-l0-fnatural-s1"): "applied twice",
    ("relu-missing", "decode-n1-h32-d128-ctx64-tshuffled-u0-l0-fbytes-s1"): "without the ReLU",
    (
        "own-pages-only",
        "decode-n1-h32-d128-ctx64,64-tshuffled-u0-l0-faddress-s1",
    ): "spells key 0 of sequence 0",
    ("next-n-swap", "decode-n2-h32-d128-ctx64-tshuffled-u0-l0-fbytes-s1"): "that of row 1 in this column",
    (
        "own-pages-only",
        "decode-n1-h32-d128-ctx64,64-tshuffled-u0-l0-fbytes-s1",
    ): "with the pages of sequence 0",
    (
        "additions-in-one-chain",
        "decode-n1-h32-d128-ctx64-tshuffled-u0-l0-fnatural-s1",
    ): "right up to rounding",
    ("k-tile-order", "decode-n1-h32-d256-ctx64-tshuffled-u0-l0-faddress-s1"): "group",
}


@pytest.mark.parametrize(("fault", "says"), HINTS.items(), ids=range(len(HINTS)))
def test_a_wrong_value_is_named(fault: tuple[str, str], says: str) -> None:
    """The notes say what the wrong value would be right for."""
    name, case = fault
    verdict = runner.run(parse(case), faulty.FAULTS[name][0], Ledger())
    assert verdict.status is Status.DIFFER
    assert says in " ".join((*verdict.notes, verdict.pattern)), verdict.text()


PATTERNS = {
    (
        "scale-read-flat",
        "decode-n1-h64-d128-ctx512x2-tshuffled-u0-l0-faddress-s1",
    ): "in every slot but .*21.*42.*63",
    ("mask-end-early", "decode-n3-h32-d128-ctx300,64-tshuffled-u0-l0-fbytes-s1"): "last visible column",
    (
        "mask-start-early",
        "prefill-h16-d128-ctx64-w0@5:64+1,0@9:30-c0-tshuffled-u0-l0-fbytes-s1",
    ): "just before the start",
    (
        "window-start-ignored",
        "prefill-h16-d128-ctx64-w0@5:64+1,0@9:30-c0-tshuffled-u0-l0-fbytes-s1",
    ): "before the start",
}


@pytest.mark.parametrize(("fault", "says"), PATTERNS.items(), ids=[name for name, _ in PATTERNS])
def test_a_shared_pattern_is_named(fault: tuple[str, str], says: str) -> None:
    """The pattern points at the rule that is wrong."""
    import re

    name, case = fault
    verdict = runner.run(parse(case), faulty.FAULTS[name][0], Ledger())
    assert re.search(says, verdict.pattern), verdict.text()


@pytest.mark.parametrize("style", ["far", "vast"])
def test_stores_past_two_gibibytes_are_missed_nowhere(style: str) -> None:
    """Rows that lie past 2^31 bytes or elements are compared like all others."""
    case = next(case for case in case_lists.listed("decode", "smoke") if case.t == style)
    verdict = runner.run(case, faulty.FAR, Ledger())
    assert (verdict.status, verdict.layer, verdict.reason) == (Status.DIFFER, "mask", "missing-inside-window")
