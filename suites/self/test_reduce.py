"""Reductions end at the smallest case of a planted fault, and never at another fault's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from harness import runner
from harness.case import case_lists
from harness.case.cases import SUITES, Case, parse
from harness.findings import Finding
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status, Verdict
from harness.reduce import lengths, smaller
from harness.reduce.same import Failure, failure, without_numbers
from harness.reduce.search import Judge, Search, Tried, described
from oracles.windows import Windows
from suites.self import dcp_faults, faulty
from suites.self.faulty import FaultyPath

NONE = Ledger()


def started(case: Case, judge: Judge, tried: Tried | None = None) -> Search:
    tried = tried or Tried()
    first = tried.verdict(case, judge)
    wanted = failure(first, NONE)
    assert wanted is not None
    return Search(first, wanted, case, judge, NONE, tried)


def on(path: FaultyPath) -> Judge:
    return lambda case: runner.run(case, path, NONE)


SMALLEST = {
    ("scale-read-flat", "decode-n3-h32-d128-ctx130,64,5-tstrided-u24-l300-fnatural-s3"): (
        "decode-n1-h16-d128-ctx17-tshuffled-u0-l0-fbytes-s1"
    ),
    ("mask-start-early", "prefill-h32-d128-ctx150,64-w0@5:64+3,0@9:30,1@7:60-c2-tstrided-u0-l0-fbytes-s4"): (
        "prefill-h16-d128-ctx2-w0@1:2-c0-tshuffled-u0-l0-fbytes-s1"
    ),
    ("own-pages-only", "varqlen-h16-d128-ctx70,64,9-q2,1,3-p2-tshuffled-u0-l0-fbytes-s9"): (
        "varqlen-h16-d128-ctx1x2-q0,1-p0-tshuffled-u0-l0-fbytes-s1"
    ),
    ("tie-away", "quantise-r48-d256-fboundary-s7"): "quantise-r1-d128-fnatural-s1",
    ("gap-cover", "schedule-n2-ctx700,437,300-u8,16-l768"): "schedule-n1-ctx257-u1-l0",
    ("table-overread", "decode-n2-h32-d128-ctx70,9-twide-u0-l0-fwide-s9"): (
        "decode-n1-h16-d128-ctx0-tshuffled-u0-l0-fbytes-s1"
    ),
}
"""Fault and case to the smallest case. Of the scales, rows 0 and 16 are the first two of a bent page; a gap
needs two chunks, the pages of another sequence another sequence, an early start a key before it."""


@pytest.mark.parametrize(("planted", "smallest"), SMALLEST.items(), ids=[name for name, _ in SMALLEST])
def test_a_planted_fault_reduces_to_its_smallest_case(planted: tuple[str, str], smallest: str) -> None:
    """The case that comes out is known, and fails as the first did."""
    name, case = planted
    search = started(parse(case), on(faulty.FAULTS[name][0]))
    assert search.run().id == smallest
    assert search.fails(search.smallest)
    assert all(before >= after for _, before, after in described(parse(case), search.smallest))


def test_a_fault_over_ranks_needs_two_of_them() -> None:
    """Ranks, interleave and selected keys shrink too; another rank's key needs a second key."""
    path = dcp_faults.FaultyPath("global-id-local-table")
    case = parse("dcp-decode-world2-inter16-exids-n2-h32-d128-ctx64,70-k32-tshuffled-fbytes-s1")
    search = started(case, lambda asked: runner.run(asked, path, NONE))
    assert search.run().id == "dcp-decode-world2-inter1-exids-n1-h16-d128-ctx2-k1-tshuffled-fbytes-s1"


def without_relu_in_small_cases(value: Tensor, rows: Windows, request: Any) -> Tensor:
    """A second fault, which covers the first wherever there are but 16 heads."""
    if request.planes.heads > 16:
        return value
    return faulty.without_relu("missing")(value, rows, request)


def test_it_does_not_slide_to_another_fault() -> None:
    """With 16 heads the case is smaller still, and differs, but by another rule."""
    path = replace(faulty.FAULTS["scale-read-flat"][0], stored=without_relu_in_small_cases)
    case = parse("decode-n1-h64-d128-ctx40-tshuffled-u0-l0-fbytes-s1")
    search = started(case, on(path))
    assert search.run().h == 32
    other = runner.run(search.smallest.but(h=16), path, NONE)
    assert other.status is Status.DIFFER and (other.layer, other.reason) == ("bits", "bits-differ")


def made(case: Case, **more: Any) -> Verdict:
    return Verdict(case.id, case.suite, "oracle", "torch", Status.DIFFER, Grade.EXACT, **more)


CASE = parse("decode-n1-h16-d128-ctx40-tshuffled-u0-l0-fbytes-s1")
LOAD = Finding("out-of-bounds-load", "kernel_0", "k_codes", "kernels/some.py:9", 1)
BASE: dict[str, Any] = {
    "layer": "bits",
    "reason": "bits-differ",
    "where": {"row": 3, "tensor": "codes of rank 2"},
    "notes": ("asked with 24 units", "the value is right with the scales of slot 3"),
}
ALIKE: tuple[dict[str, Any], ...] = (
    {"where": {"row": 0, "tensor": "codes of rank 1"}},
    {"notes": ("asked with 8 units", "the value is right with the scales of slot 60")},
    {"notes": (*BASE["notes"], "the value is right without the ReLU")},
    {"pattern": "each is the last visible column of its row", "got": "0x1 1", "count": 3},
)
OTHERS: tuple[dict[str, Any], ...] = (
    {"suite": "prefill"},
    {"status": Status.ERROR},
    {"status": Status.MISTRUSTED},
    {"layer": "mask"},
    {"reason": "wrong-shape"},
    {"where": {"row": 3, "tensor": "scales of rank 2"}},
    {"where": {"row": 3}},
    {"notes": ("asked with its own schedule", BASE["notes"][1])},
    {"notes": ("asked with 24 units", "the value is right without the ReLU")},
    {"notes": ("asked with 24 units",)},
    {"findings": (LOAD,)},
)


def failed(**changes: Any) -> Failure | None:
    return failure(replace(made(CASE, **BASE), **changes), NONE)


@pytest.mark.parametrize("changes", ALIKE, ids=range(len(ALIKE)))
def test_what_changes_with_size_is_the_same_failure(changes: dict[str, Any]) -> None:
    """Numbers, places and further hints do not tell failures apart."""
    wanted = failed()
    assert wanted is not None and wanted.same(failed(**changes))


@pytest.mark.parametrize("changes", OTHERS, ids=range(len(OTHERS)))
def test_any_word_that_differs_is_another_failure(changes: dict[str, Any]) -> None:
    """Each part of the definition tells by itself."""
    wanted = failed()
    assert wanted is not None and not wanted.same(failed(**changes))


def test_other_operands_edges_and_hints_are_other_failures() -> None:
    """What has no rule is told by its finding, the edge of its mask, or where else the value is."""
    for one, other in (
        ({"findings": (LOAD,)}, {"findings": (replace(LOAD, operand="k_scales"),)}),
        ({"layer": "mask", "pattern": "it is past the end of its row"}, {"layer": "mask", "pattern": ""}),
        ({"notes": ("the value is that of row 1",)}, {"notes": ("the value is that of key 2",)}),
    ):
        wanted = failed(**one)
        assert wanted is not None and wanted.same(failed(**one)) and not wanted.same(failed(**other))


def test_numbers_and_lists_of_them_are_left_out() -> None:
    """Texts about shapes of any length are alike."""
    assert without_numbers("wants [3, 4, 0.5], got 12") == "wants [#], got #"


def neighbours(case: Case) -> list[Case]:
    return [found for family in smaller.FAMILIES for found in family(case)]


@pytest.mark.parametrize("suite", SUITES)
def test_every_neighbour_is_a_case_and_no_field_of_it_grows(suite: str) -> None:
    """What is tried can be named, is another case, and is simpler in something and worse in nothing."""
    for case in case_lists.listed(suite, "smoke")[:6]:
        found = neighbours(case)
        assert found, case.id
        for one in found[:400]:
            assert parse(one.id) == one and one != case
            assert worse(case, one) == [], one.id


def worse(before: Case, after: Case) -> list[str]:
    """Fields in which ``after`` is larger or less simple."""
    return [name for name in before.names if rank(after, name) > rank(before, name)]


def rank(case: Case, name: str) -> tuple[int, ...]:
    """An order in which simpler comes first: place of a word, then count and sum of numbers."""
    value = getattr(case, name)
    if isinstance(value, str):
        return (smaller.orders(case)[name].index(value),)
    if name == "s":
        return (int(value != smaller.SEED),)
    if not isinstance(value, tuple):
        return (value,)
    flat = [part for item in value for part in (item if isinstance(item, tuple) else (item,))]
    return (len(value), sum(flat))


def test_what_goes_takes_its_windows_along_and_lengths_bound_them() -> None:
    """A sequence that is left out leaves no window behind, and the others keep theirs under a new number."""
    case = parse("prefill-h16-d128-ctx90,64,70-w0@5:60,1@1:50,2@3:70-c0-tshuffled-u0-l0-fbytes-s1")
    kept = [one.w for one in smaller.in_lengths(lengths.fewer_sequences)(case)]
    assert ((0, 1, 50), (1, 3, 70)) in kept and ((0, 5, 60), (1, 1, 50)) in kept
    short = [one.w for one in smaller.in_lengths(lengths.lower_lengths)(case)]
    assert all(end <= 70 for windows in short for _, _, end in windows)
    assert ((0, 5, 45), (1, 1, 45), (2, 3, 45)) in short and ((0, 0, 0), (1, 0, 0), (2, 0, 0)) in short


def test_one_rank_has_no_interleave() -> None:
    """A suite that allows but 1 there can still go down to one rank."""
    case = parse("pipeline-n1-h16-d128-ctx70-world2-inter64-k8-pairneox-fspread-s1")
    found = [(one.world, one.inter) for one in smaller.numbers("world")(case)]
    assert found == [(1, 1)]


def test_verdicts_are_kept_and_a_torn_line_counts_for_nothing(tmp_path: Path) -> None:
    """A second reduction judges nothing again but what the kill tore."""
    file, case = tmp_path / "tried.jsonl", parse("quantise-r48-d256-fboundary-s7")
    judge = on(faulty.FAULTS["tie-away"][0])
    first = started(case, judge, Tried(file))
    smallest = first.run()
    assert first.tried.judged == len(file.read_text().splitlines()) > 2
    again = started(case, judge, Tried(file))
    assert again.run() == smallest and again.tried.judged == 0
    file.write_bytes(file.read_bytes()[:-40])
    torn = started(case, judge, Tried(file))
    assert torn.run() == smallest and torn.tried.judged == 1
    assert len([json.loads(line) for line in file.read_text().splitlines()[-1:]]) == 1


def test_a_search_that_is_left_holds_its_smallest_so_far() -> None:
    """An interrupt in the middle leaves a case that fails in the same way."""
    judge, calls = on(faulty.FAULTS["gap-cover"][0]), []

    def interrupted(case: Case) -> Verdict:
        calls.append(case)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return judge(case)

    case = parse("schedule-n2-ctx700,437,300-u8,16-l768")
    search = started(case, interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.smallest.batch < case.batch and search.fails(search.smallest)
