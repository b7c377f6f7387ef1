"""Diagnosis names what was planted, says when it cannot tell, and describes what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import cli
from harness.case.cases import parse
from harness.diagnose import cells, comparing, measuring, structure, text
from harness.diagnose.answers import Answered, Observed
from harness.diagnose.diagnosis import Diagnosis
from harness.diagnose.observing import Defect, Observing, observe
from harness.diagnose.search import Search
from harness.diagnose.suspects import Planting, Suspecting
from harness.exits import CannotRun
from harness.faults import catalogue
from harness.faults.fault import Fault, Wrong
from harness.judge.ledger import Ledger
from harness.judge.verdict import Status
from harness.paths import base
from harness.paths.base import Outcome
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring, selecting, sharding, writing
from oracles.trees import TREES, Tree, one_chain

NONE = Ledger()
CASE = "decode-n2-h16-d128-ctx70,3-tshuffled-u0-l0-fbytes-s1"
SMALL = "decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1"
SCORES = (scoring.DecodeScores, scoring.PrefillScores, scoring.VarqlenScores)


def scorer(name: str, change: Callable[[Any], Any]) -> Fault:
    """A fault that changes what scorers are asked."""
    wrong: dict[type, Wrong] = {kind: lambda request, right: right(change(request)) for kind in SCORES}
    return Fault(name, "score", f"{name} is wrong", "here", "none", SMALL, "kernel.py: score", lambda: wrong)


def on(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    """One plane changed."""

    def changed(request: Any) -> Any:
        planes = {name: change(getattr(request.planes, name))}
        return replace(request, planes=replace(request.planes, **planes))

    return changed


def swapped(codes: Tensor) -> Tensor:
    return codes >> 4 | (codes & 15) << 4


UNSCALED = scorer("unscaled", lambda request: replace(request, weight_scale=1.0))
DOUBLED = scorer("doubled", lambda request: replace(request, weight_scale=request.weight_scale * 2))
GROUPS = scorer("groups", on("k_scales", lambda scales: scales.roll(1, 2)))
KEYS = scorer("nibbles of keys", on("k_codes", swapped))
QUERIES = scorer("nibbles of queries", on("q_codes", swapped))
IDLE = scorer("idle", lambda request: request)
TOYS = (UNSCALED, DOUBLED, GROUPS, KEYS, QUERIES, IDLE)


def diagnosed(
    *planted: Fault, case: str = CASE, known: tuple[Fault, ...] = TOYS, seconds: float = 20
) -> Diagnosis:
    return Search(OraclePath(), known, NONE, planted=planted, seconds=seconds).run(parse(case))


@pytest.mark.parametrize("fault", [UNSCALED, DOUBLED, GROUPS], ids=lambda fault: fault.name)
def test_the_one_fault_that_fits_is_certain(fault: Fault) -> None:
    """It fits the case, two fresh seeds and other shapes, and no other does."""
    found = diagnosed(fault)
    assert found.certain
    assert found.standing[0].faults == (fault,)
    assert {parse(case).s for case in found.standing[0].fits[:3]} == {1, 1000004, 2000007}
    assert len(found.standing[0].fits) >= 6


def test_faults_that_do_the_same_are_all_named() -> None:
    """Swapping the nibbles on either side of a dot product gives the same bits: neither is certain."""
    found = diagnosed(KEYS)
    assert {one.name for one in found.standing} == {KEYS.name, QUERIES.name}
    assert not found.certain
    assert "no case tried tells apart" in text.plain(found)


def test_twins_are_certain_together_and_left_out_together() -> None:
    """Faults that give the same answers to every request count as one, and all are named."""
    keys, queries = replace(KEYS, twin=QUERIES.name), replace(QUERIES, twin=KEYS.name)
    search = Search(OraclePath(), (UNSCALED, keys, queries), NONE, planted=(keys,), seconds=0)
    found = search.run(parse(CASE))
    assert found.certain
    assert "certain    nibbles of keys (stage score) or nibbles of queries (stage score)" in text.plain(found)
    assert not search.run(parse(CASE), leaving_out=keys).standing


def test_swapped_nibbles_of_either_side_are_twins() -> None:
    """All pairs of codes against all pairs: the products are the same, whichever side's bytes are swapped."""
    value = torch.arange(-8, 8)
    q0, q1, k0, k1 = (part.flatten() for part in torch.meshgrid([value] * 4, indexing="ij"))
    keys, queries = (torch.stack(pair).sort(0).values for pair in ((q0 * k1, q1 * k0), (q1 * k0, q0 * k1)))
    assert keys.equal(queries)
    names = ["nibble-swap-read", "nibble-swap-query"]
    assert [catalogue.named(name).twin for name in names] == names[::-1]


def only_two_rows(request: Any) -> Any:
    """Unscaled, but where a case has other rows than a decode case of two a sequence."""
    return replace(request, weight_scale=1.0) if getattr(request, "next_n", 0) == 2 else request


def test_a_fault_that_fits_only_here_is_not_certain() -> None:
    """A relative of the catalogue's fault fits the case and its seeds, and no case of another shape."""
    found = diagnosed(scorer("relative", only_two_rows))
    assert [one.name for one in found.candidates] == [UNSCALED.name]
    assert not found.standing
    assert not found.certain
    assert ("not", f"unscaled (stage score): fits 3 cases, not {SMALL}") in text.lines(found)


def test_two_faults_at_once_are_found_as_a_pair() -> None:
    """No single fault fits, and one pair does."""
    found = diagnosed(UNSCALED, GROUPS, known=(UNSCALED, GROUPS, KEYS, IDLE))
    assert found.certain
    assert set(found.standing[0].faults) == {UNSCALED, GROUPS}
    assert (found.altering, found.pairs) == (3, 3)


def test_without_time_no_pair_is_tried_and_nothing_is_certain() -> None:
    """What was not tried is said."""
    found = diagnosed(UNSCALED, GROUPS, seconds=0)
    assert not found.whole
    assert not found.certain
    assert "no pair tried, for want of time" in text.evidence(found)
    assert not replace(diagnosed(UNSCALED), whole=False).certain


def test_an_unknown_fault_is_described() -> None:
    """None of the others fits; the description says what all wrong values have in common."""
    found = diagnosed(DOUBLED, known=(UNSCALED, GROUPS, IDLE))
    assert not found.candidates
    said = text.plain(found)
    assert "no fault of the catalogue and no pair of two gives these answers" in said
    assert "2 = 2^1 times the right value in" in said
    assert found.altering == 2


class Altered(OraclePath):
    """The oracle with every decode score matrix changed."""

    def __init__(self, change: Callable[[Tensor, Any], Tensor]) -> None:
        self.change = change

    def decode(self, request: scoring.DecodeScores) -> Outcome:
        outcome = super().decode(request)
        return replace(outcome, value=self.change(outcome.value, request))


def dropped(value: Tensor, request: Any) -> Tensor:
    """Heads 4 to 7 are never added."""
    weights = request.planes.weights.clone()
    weights[:, 4:8] = 0
    return OraclePath().run(replace(request, planes=replace(request.planes, weights=weights))).value


def columns_exchanged(value: Tensor, request: Any) -> Tensor:
    ends = request.context_lens.tolist()
    for row in range(len(value)):
        last = (ends[row // request.next_n] - request.next_n + 1) // 2 * 2
        value[row, : max(0, last)] = value[row, : max(0, last)].unflatten(0, (-1, 2)).flip(1).flatten()
    return value


def rows_moved(value: Tensor, request: Any) -> Tensor:
    return value.roll(1, 0)


def tile_0(scales: Tensor) -> Tensor:
    """Every key has the scale of the key of its column of 16 in tile 0; the bent row keeps tiles together."""
    return scales.unflatten(3, (16, 4))[..., :1].expand(*scales.shape[:3], 16, 4).flatten(3).contiguous()


def other_scales(value: Tensor, request: Any) -> Tensor:
    return OraclePath().run(on("k_scales", tile_0)(request)).value


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        (other_scales, CASE, ("the right codes with another scale", "of the slot with bits 48 cleared")),
        (dropped, CASE, ("the scores are the sums with 0 times heads 4-7",)),
        (columns_exchanged, CASE, ("with bit 1 of its number turned", "key +1 with its own scale")),
        (
            rows_moved,
            "decode-n1-h16-d128-ctx70,70,70-tshuffled-u0-l0-fbytes-s1",
            ("row permuted: 0 holds 2, 1 holds 0, 2 holds 1",),
        ),
    ],
    ids=["scales", "heads", "columns", "rows"],
)
def test_the_structure_of_a_difference(
    change: Callable[[Tensor, Any], Tensor], asked: str, said: tuple[str, ...]
) -> None:
    """Heads, columns, rows and what was read instead are told for all cells at once."""
    found = Search(Altered(change), (), NONE, seconds=0).run(parse(asked))
    lines = text.plain(found)
    assert all(part in lines for part in said), lines


def test_integers_that_moved_are_described() -> None:
    """A shift, a step, swapped nibbles, and axes that do not vary."""
    want = torch.arange(24).reshape(4, 6) * 17 % 256
    assert "axis 0 holds" not in "; ".join(structure.integers(want.roll(1, 0), want))
    assert "axis 0 permuted: 0 holds 3" in "; ".join(structure.integers(want.roll(1, 0), want))
    assert "each is +5" in "; ".join(structure.integers(want + 5, want))
    line = torch.tensor([5, 7, 9, 11])
    assert "what is at axis 0 p is right for p + 1 (3 of 4)" in "; ".join(
        structure.integers(torch.tensor([7, 9, 11, 11]), line)
    )
    one = want.clone()
    one[2] += 1
    assert "axis 0 2 of 4" in "; ".join(structure.integers(one, want))
    bytes_ = torch.tensor([[0x12, 0x34], [0x56, 0x79]])
    assert "nibbles swapped" in "; ".join(structure.integers(swapped(bytes_), bytes_))


def test_a_case_that_agrees_is_not_diagnosed() -> None:
    """Nothing differs, so there is no candidate."""
    found = diagnosed()
    assert not found.seen.differs
    assert not found.candidates


def test_what_fails_on_the_oracle_too_is_no_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fault would fit a case that the harness itself cannot run."""

    def broken(case: Any, path: Any) -> None:
        raise ValueError("no memory")

    monkeypatch.setattr("harness.checks.decode.check", broken)
    with pytest.raises(CannotRun, match="fails on the oracle in the same way"):
        diagnosed(UNSCALED)


def test_a_defect_of_observing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not pass for what the path did."""

    def broken(*_: Any) -> None:
        raise TypeError("sort")

    monkeypatch.setattr(comparing, "compared", broken)
    with pytest.raises(AssertionError, match=Defect.__name__):
        observe(parse(CASE), OraclePath(), Planting(), NONE)


class Bare(OraclePath):
    """Scores in one chain, declares so, and builds no schedules."""

    def how(self, request: Any) -> str | Tree:
        return Tree("loop", one_chain, 0, scale="after", step="rounded")

    def tree(self, request: Any) -> Any:
        return self.how(request)

    def answers(self) -> base.Answers:
        return {
            kind: method for kind, method in super().answers().items() if kind is not scoring.DecodeSchedule
        }


def test_a_suspect_adds_and_answers_as_its_path_does() -> None:
    """The declared order and the scope are the path's."""
    path = Bare()
    suspect = Suspecting((UNSCALED,), frozenset({"PrefillScores"}))(path)
    assert scoring.DecodeSchedule not in suspect.table
    assert scoring.PrefillScores not in suspect.table
    natural = parse("decode-n1-h32-d128-ctx40-tshuffled-u0-l0-fnatural-s1")
    assert observe(natural, path, Suspecting(()), NONE).verdict.status is Status.AGREE
    found = Search(path, TOYS, NONE, planted=(UNSCALED,)).run(natural)
    assert [one.name for one in found.standing] == [UNSCALED.name]
    assert str(TREES["decode"]) != str(path.tree(None))


def selected(ids: list[list[int]], stable: bool = False) -> Answered:
    """An answer of a top-k of 3 over scores 5, 3, 3, 3, 1, a second row of two keys."""
    scores = torch.tensor([[5.0, 3.0, 3.0, 3.0, 1.0], [1.0, 2.0, torch.nan, 9.0, 9.0]])
    buffer = torch.tensor(ids, dtype=torch.int32)
    request = selecting.SelectPrefill(scores, torch.tensor([0, 0]), torch.tensor([5, 2]), 3, stable, buffer)
    return Answered("SelectPrefill", "value", comparing.compared(request, {"ids": buffer}, []))


def test_what_a_selection_leaves_open_is_not_compared() -> None:
    """Order, and which of the tie class; not a key taken twice, nor one that is no tie."""
    right = selected([[0, 1, 2], [0, 1, -1]])
    assert right.same(selected([[3, 0, 1], [-1, 1, 0]]))
    assert not right.same(selected([[0, 1, 1], [0, 1, -1]]))
    assert not right.same(selected([[0, 0, 1], [0, 1, -1]]))
    assert not right.same(selected([[0, 1, 4], [0, 1, -1]]))
    assert not right.same(selected([[1, 2, 3], [0, 1, -1]]))
    assert not right.same(selected([[0, 1, 2], [0, 0, -1]]))
    assert not right.same(selected([[0, 1, 2], [0, -1, -1]]))
    settled = selected([[0, 1, 2], [0, 1, -1]], stable=True)
    assert not settled.same(selected([[0, 1, 3], [0, 1, -1]], stable=True))


def test_a_tie_at_the_cut_of_a_window_too_wide_is_open() -> None:
    """A fault that sees more keys than the row may take either of two equal ones."""
    scores = torch.tensor([[5.0, 3.0, 3.0]])

    def chosen(ids: list[int]) -> Answered:
        buffer = torch.tensor([ids], dtype=torch.int32)
        request = selecting.SelectPrefill(scores, torch.tensor([0]), torch.tensor([1]), 2, False, buffer)
        return Answered("SelectPrefill", "value", comparing.compared(request, {"ids": buffer}, []))

    assert chosen([0, 1]).same(chosen([0, 2]))
    assert not chosen([0, 1]).same(chosen([1, 2]))


def quantised(codes: list[int], scale: int) -> Answered:
    given = {
        "value[0]": torch.tensor([codes * 16], dtype=torch.uint8),
        "value[1]": torch.tensor([[scale]], dtype=torch.uint8),
    }
    return Answered("Quantise", "value", comparing.compared(writing.Quantise(torch.zeros(1, 32)), given, []))


def test_codes_under_a_nan_scale_are_not_compared() -> None:
    """They mean nothing; under any other scale every code counts."""
    assert quantised([1], 255).same(quantised([2], 255))
    assert not quantised([1], 127).same(quantised([2], 127))


def test_any_nan_is_one_but_the_poison_of_a_buffer() -> None:
    """A cell that was not stored is not a NaN that was."""
    nans = torch.tensor([0x7FC00001, -4194303, 0x7FC0DEAD], dtype=torch.int32).view(torch.float32)
    patterns = cells.bits(nans).tolist()
    assert patterns[0] == patterns[1] != patterns[2]


SAMPLE = (
    "tie-away",
    "short-schedule",
    "relu-missing",
)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_the_catalogue_is_named(name: str) -> None:
    """The fault has the first rank, and without it in the catalogue no other is called certain."""
    one = measuring.measure(catalogue.named(name), catalogue.ALL, OraclePath(), NONE)
    assert one.word in measuring.NAMED, one.text()
    assert one.without == ""


def test_ranks_are_observed_too() -> None:
    """What a rank process answered is among the answers, and a fault planted there is seen."""
    fault = catalogue.named("global-id-local-table")
    case = parse(fault.case)
    right = observe(case, OraclePath(), Planting(), NONE)
    wrong = observe(case, OraclePath(), Planting((fault,)), NONE)
    assert {"PackCandidates", "LocaliseIds", "RowLengths"} <= {one.kind for one in right.answers}
    kinds = frozenset(one.kind for one in right.answers)
    assert not right.same(wrong, kinds)
    assert wrong.same(observe(case, OraclePath(), Suspecting((fault,)), NONE), kinds)


def test_observing_keeps_what_was_answered_before_a_buffer_is_used_again() -> None:
    """Answers are copies."""
    watched = Observing(OraclePath(), Planting())
    value = watched.run(sharding.Owners(torch.arange(9), sharding.Place(2, 1))).value
    before = watched.kept[0].cells["value"].clone()
    value.fill_(7)
    assert torch.equal(watched.kept[0].cells["value"], before)


def records(*words: str) -> list[measuring.Measured]:
    return [measuring.Measured(str(place), "s", SMALL, word, (), "", 0.0) for place, word in enumerate(words)]


def test_the_target_counts_what_could_be_named() -> None:
    """Nine in ten named holds, unless a wrong one was called certain; what cannot be seen does not count."""
    assert measuring.holds(records(*["certain"] * 8, "among", "missed", "unseen", "unsupported"))
    assert not measuring.holds(records(*["certain"] * 8, "missed", "wrong"))
    assert not measuring.holds(records(*["certain"] * 99, "misled"))
    assert not measuring.holds(records("unseen"))


def test_the_command_names_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 and the fault's name where it is planted, 0 where nothing is, and both documents are written."""
    case = "quantise-r8-d128-fboundary-s1"
    files = [tmp_path / "found.json", tmp_path / "found.md"]
    written = ["--json", str(files[0]), "--markdown", str(files[1])]
    assert cli.main(["diagnose", case, "--path", "oracle", "--fault", "tie-away", *written]) == 1
    assert "certain    tie-away (stage quantise)" in capsys.readouterr().out
    (record,) = json.loads(files[0].read_text())["records"]
    assert record["certain"]
    assert record["candidates"][0]["faults"] == ["tie-away"]
    assert "harness diagnose" in files[1].read_text()
    assert cli.main(["diagnose", case, "--path", "oracle"]) == 0


def test_the_command_says_that_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """4, which is not a diagnosis."""
    monkeypatch.setattr("harness.paths.registry.create", lambda choice: Altered(dropped))
    assert cli.main(["diagnose", SMALL, "--path", "oracle", "--seconds", "0"]) == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "ID is missing; give a case id or --all-faults"),
        ([SMALL, "--all-faults"], "beside --all-faults; give one or --all-faults"),
        ([SMALL, "--seconds", "-1"], "--seconds is -1, allowed are 0 to 86400"),
        ([SMALL, "--fault", "tie-awai"], "--fault is 'tie-awai', which is no fault; near it are tie-away"),
        (["--all-faults", "--stage", "kitchen"], "--stage is 'kitchen', allowed are"),
        ([SMALL, "--stage", "score"], "--stage is given without --all-faults"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The field and what is allowed."""
    assert cli.main(["diagnose", "--path", "oracle", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_an_unsupported_case_cannot_be_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """3: the path has no answer that could be explained."""

    class Empty(OraclePath):
        def answers(self) -> base.Answers:
            return {}

    monkeypatch.setattr("harness.paths.registry.create", lambda choice: Empty())
    assert cli.main(["diagnose", SMALL, "--path", "oracle"]) == 3


def test_verdicts_of_the_same_bytes_are_the_same() -> None:
    """An observation is the same as one of the same path, and not as one of another seed."""
    one, other = (observe(parse(CASE), OraclePath(), Planting((UNSCALED,)), NONE) for _ in range(2))
    kinds = frozenset({"DecodeScores"})
    assert one.same(other, kinds)
    assert not one.same(observe(parse(CASE).but(s=2), OraclePath(), Planting((UNSCALED,)), NONE), kinds)
    assert not one.same(Observed(one.case, one.verdict, one.answers[1:]), kinds)


def test_what_was_chosen_before_is_asked_again() -> None:
    """Answers about two selections are compared by asking one side about the other's."""
    place = sharding.Place(2, 1)

    def sent(ids: list[int]) -> sharding.PackCandidates:
        names = torch.tensor([ids], dtype=torch.int32)
        return sharding.PackCandidates(torch.tensor([[1.0, 2.0, 3.0]]), names, torch.tensor([3]), place)

    def by(path: base.Path, ids: list[int]) -> Answered:
        watched = Observing(path, Planting())
        watched.run(sent(ids))
        return watched.kept[0].bare()

    mine, theirs = by(OraclePath(), [0, 1]), by(OraclePath(), [0, 2])
    assert mine.apart(theirs)

    def again(request: Any) -> Answered:
        watched = Observing(OraclePath(), Planting())
        watched.run(request)
        return watched.kept[0]

    assert mine.same(theirs, again)
    wrong = replace(mine, cells={**mine.cells, "ids": mine.cells["ids"] + 1})
    assert not wrong.same(theirs, again)


def answered(kind: str, value: int) -> Answered:
    return Answered(kind, "value", {"value": torch.tensor([value])})


def test_only_faults_of_what_is_answered_otherwise_are_tried() -> None:
    """The kinds that differ, those that are not compared, and all where the difference is elsewhere."""
    seen = observe(parse(CASE), OraclePath(), Planting(), NONE)
    right = [answered("A", 1), answered("B", 2), answered("Launched", 3)]
    one = replace(seen, answers=tuple(right))
    other = replace(seen, answers=(right[0], answered("B", 5), right[2]))
    assert one.parted(other) == {"B"}
    assert one.parted(replace(seen, answers=(*right[:2], answered("Launched", 4)))) == {"DraftLoop"}
    assert one.parted(replace(seen, answers=tuple(right[:2]))) == {"A", "B", "DraftLoop"}
    opened = answered("Refusal", 1)
    assert replace(one, answers=(*right, opened)).parted(other) == {"B", "Refusal"}
