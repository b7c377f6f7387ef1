"""Planted faults give the bytes of the defect: restated rules are the oracle's where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import runner
from harness.case.cases import parse
from harness.checks.decode import given_schedule
from harness.checks.writer import inputs as writer_inputs
from harness.exits import InputError
from harness.faults import scored
from harness.faults.catalogue import named
from harness.faults.fault import Fault, Wrong
from harness.faults.lowered import by_rule, launching
from harness.faults.planted import Planted
from harness.faults.trial import MISSED, OUTSIDE, UNREACHED
from harness.faults.written import How
from harness.fill import fill_values, inputs, pages
from harness.judge import bits
from harness.judge.ledger import Ledger
from harness.judge.verdict import FAULTS, SUBJECTS, Status
from harness.paths.base import OutOfScope, Path
from harness.paths.oracle import OraclePath
from harness.paths.requests.scoring import DecodeScores
from harness.paths.requests.writing import Quantise, WriteKeys
from harness.ranks import again
from suites.self.fault_bench import bench

RIGHT = OraclePath()
DECODE = "decode-n3-h16-d128-ctx70,5,0-tshuffled-u0-l0-f{}-s1"
PREFILL = "prefill-h16-d128-ctx70,30-w0@3:40+3,0@37:41,1@5:5,1@0:30-c0-tshuffled-u0-l0-f{}-s1"
VARQLEN = "varqlen-h16-d128-ctx70,30-q3,1-p2-tshuffled-u0-l0-f{}-s1"


def requests(fill: str) -> list[Any]:
    """One of every kind of scorer's requests, and one with a caller's schedule and buffer."""
    decode, prefill, varqlen = (inputs.build(parse(text.format(fill))) for text in (DECODE, PREFILL, VARQLEN))
    given = decode.decode(schedule=given_schedule(decode), out=decode.buffer())
    return [decode.decode(), given, prefill.prefill(), varqlen.varqlen()]


@pytest.mark.parametrize("fill", ["natural", "wide"])
def test_scores_computed_once_more_are_the_same(fill: str) -> None:
    """The oracle's dots under the kernel's own tree, in the cells that a scorer stores and in no others."""
    wrong = scored.computed(scored.under(lambda tree: tree))
    for request in requests(fill):
        want = RIGHT.run(request).value.clone()
        assert bool(bits.same(wrong(request, RIGHT.run).value, want).all())


def test_windows_said_in_another_way_give_the_same_scores() -> None:
    """A row as a sequence of its own, a schedule that says its length: not a bit changes."""
    for request in requests("natural"):
        want = RIGHT.run(request).value.clone()
        rows = scored.windows_of(request)
        again_ = scored.with_windows(request, rows.start, rows.end)
        assert bool(bits.same(RIGHT.run(again_).value, want).all())
        if isinstance(request, DecodeScores):
            ends = scored.lengths_of(request) - scored.newer_rows(request)
            assert torch.equal(ends.clamp(min=0), rows.end)


def test_a_writer_with_every_rule_right_is_the_oracle() -> None:
    """Quantiser, key writer and fused writer, byte for byte, padding and all."""
    x = fill_values.values("boundary", 6, 256, 3)
    how = How()
    for mine, want in zip(
        how.quantise(Quantise(x), RIGHT.run).value, RIGHT.run(Quantise(x)).value, strict=True
    ):
        assert torch.equal(mine, want)
    slots = torch.tensor([70, -1, 3, 128, -2, 64])
    pools = [pages.poisoned_pool(3, 256, strided=False) for _ in range(2)]
    how.write_keys(WriteKeys(x, slots, *pools[0]), RIGHT.run)
    RIGHT.run(WriteKeys(x, slots, *pools[1]))
    assert all(map(torch.equal, *pools))
    for case in (
        "writer-r10-h16-d128-pairneox-all0-p2-fspread-s1",
        "writer-r10-h16-d128-pairinterleaved-all1-p2-fspecial-s2",
    ):
        mine, want = (writer_inputs.build(parse(case)) for _ in range(2))
        how.write_tokens(mine, RIGHT.run)
        RIGHT.run(want)
        for one, other in zip(mine.outputs, want.outputs, strict=True):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def edited(code: str, rule: str, detail: str) -> Wrong:
    return launching(by_rule(code, rule, detail), code)


IN_KERNELS: dict[str, tuple[str, Callable[[], Wrong]]] = {
    "relu-missing": ("h32-d128", lambda: edited("fmaximum", "dropped operation", "operand 0 alone")),
    "query-opsel-wrong": ("h16-d128", lambda: edited("mfma_scale_16x16x128", "wrong element", "opsel_a 1")),
}


@pytest.mark.parametrize("name", IN_KERNELS)
def test_a_fault_is_what_the_same_edit_of_the_kernel_gives(name: str) -> None:
    """Planted in the oracle, and in the lowered program of the in-tree kernel: the same bits."""
    size, make = IN_KERNELS[name]
    made = inputs.build(parse(f"decode-n1-{size}-ctx70-tshuffled-u0-l0-fnatural-s1"))
    request = made.decode()
    mine = Planted(RIGHT, [named(name)]).run(request).value
    real = make()(request, bench().path.run).value
    right = RIGHT.run(request).value
    assert bool(bits.same(mine, real).all())
    assert not bool(bits.same(mine, right).all())


def test_an_edit_without_a_kernel_is_refused() -> None:
    """The oracle launches none, so its answer must not pass for that of an edited one."""
    request = inputs.build(parse(DECODE.format("bytes"))).decode()
    with pytest.raises(OutOfScope, match="no kernel with a lane exchange was launched"):
        Planted(RIGHT, [named("permute-lane-off")]).run(request)
    with pytest.raises(OutOfScope, match="no kernel with an integer division"):
        launching(by_rule("udiv", "swapped operands", "0 and 1"), "an integer division")(
            request, bench().path.run
        )
    assert bench("oracle").trial(named("table-overread")).outcome == OUTSIDE


def fault(case: str, plant: Callable[[], dict[type, Wrong]]) -> Fault:
    return Fault("planted-here", "score", "nothing", "here", "everything", case, "here", plant)


def test_what_changes_nothing_and_what_is_never_asked_are_not_red() -> None:
    """A fault that a request reaches and that changes nothing is missed; one nobody asks is unreached."""
    case = DECODE.format("bytes")
    right: Wrong = lambda request, answer: answer(request)  # noqa: E731
    told = bench("oracle").trial(fault(case, lambda: {DecodeScores: right}))
    assert (told.outcome, told.passing) == (MISSED, None)
    told = bench("oracle").trial(fault(case, lambda: {WriteKeys: right}))
    assert told.outcome == UNREACHED
    told = bench("oracle").trial(fault(case, dict))
    assert (told.outcome, told.reason) == (OUTSIDE, "path oracle answers nothing that the fault touches")


def test_a_verdict_of_a_faulty_path_says_so() -> None:
    """Path, rerun line, facts and the subject of each answer that went through the fault."""
    names = ["relu-missing", "tie-away"]
    case = parse(DECODE.format("bytes"))
    verdict = runner.run(case, Planted(RIGHT, [named(name) for name in names]), Ledger())
    assert verdict.status is Status.DIFFER
    assert verdict.path == "oracle with fault relu-missing with fault tie-away"
    assert verdict.rerun.endswith("--path oracle --fault relu-missing --fault tie-away")
    assert verdict.facts[FAULTS] == {"relu-missing": True, "tie-away": False}
    assert verdict.facts[SUBJECTS] == {"DecodeScores": "oracle with fault relu-missing (torch)"}
    assert any("fault tie-away was not reached" in note for note in verdict.notes)
    assert "oracle with fault relu-missing" in verdict.text().splitlines()[0]


def test_ranks_plant_the_same_faults() -> None:
    """By name, in a path that is made once; anew for each job, since a fault remembers within a case."""
    path: Path = Planted(bench().path, [named("missing-sync")])
    first, second = again.recipe(path), again.recipe(path)
    assert first.faults == ("missing-sync",) and first != second
    assert again.sound(first) == again.sound(second) == again.recipe(bench().path)
    made = again.plant(RIGHT, first)
    assert isinstance(made, Planted) and [one.name for one in made.faults] == ["missing-sync"]
    with pytest.raises(InputError, match="no fault"):
        again.plant(RIGHT, replace(first, faults=("planted-here",)))


def test_a_fault_with_a_memory_begins_anew() -> None:
    """Only the second launch of a case is wrong, in every case."""
    request = inputs.build(parse("decode-n1-h16-d128-ctx20-tshuffled-u0-l0-fbytes-s1")).decode()
    right: Tensor = RIGHT.run(request).value
    for _ in range(2):
        path = Planted(RIGHT, [named("missing-sync")])
        same = [bool(bits.same(path.run(request).value, right).all()) for _ in range(3)]
        assert same == [True, False, True]
