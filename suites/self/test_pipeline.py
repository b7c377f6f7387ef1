"""A fault in one stage of the pipeline is named by that stage, in the chain and alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import cli, exits
from harness.case import cases
from harness.case.cases import Case, CaseError
from harness.checks import pipeline
from harness.judge.verdict import OUT_OF_SCOPE, Status
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests import scoring, selecting, sharding, writing
from harness.pipeline import chain, raw

ONE = cases.parse("pipeline-n2-h16-d128-ctx66,3-world1-inter1-k16-pairneox-fspread-s1")
TWO = cases.parse("pipeline-n3-h16-d128-ctx34,5-world2-inter16-k8-pairinterleaved-fspread-s3")

Change = Callable[[OraclePath, Any], base.Outcome]


class Planted(OraclePath):
    """The oracle with one request answered wrongly."""

    name = "planted"

    def __init__(self, request: type, wrong: Change) -> None:
        self.request, self.wrong = request, wrong

    @cached_property
    def table(self) -> base.Answers:
        right = OraclePath()
        return {**right.table, self.request: lambda request: self.wrong(right, request)}


def other_pairing(right: OraclePath, request: writing.WriteTokens) -> base.Outcome:
    swapped = "neox" if request.pairing == "interleaved" else "interleaved"
    return right.run(replace(request, pairing=swapped))


def last_chunk_lost(right: OraclePath, request: scoring.DecodeSchedule) -> base.Outcome:
    made = right.run(request).value
    made[(made[:, 3] > 0).nonzero().flatten()[-1]] = torch.tensor([0, 0, 1, 0], dtype=torch.int32)
    return base.Outcome(made)


def scale_forgotten(right: OraclePath, request: scoring.DecodeScores) -> base.Outcome:
    return right.run(replace(request, weight_scale=1.0))


def first_taken_twice(right: OraclePath, request: selecting.SelectDecode) -> base.Outcome:
    ids = right.run(request).value
    ids[:, 1] = ids[:, 0]
    return base.Outcome(ids)


def uniform_lengths(right: OraclePath, request: sharding.RowLengths) -> base.Outcome:
    lengths = right.run(request).value.view(-1, request.next_n)
    return base.Outcome(lengths[:, -1:].expand_as(lengths).reshape(-1).contiguous())


def rank_ignored(right: OraclePath, request: sharding.PackCandidates) -> base.Outcome:
    return right.run(replace(request, place=replace(request.place, rank=0)))


def one_rank_merged(right: OraclePath, request: sharding.MergeCandidates) -> base.Outcome:
    return right.run(replace(request, scores=request.scores[:1], ids=request.ids[:1]))


def owner_by_turns(right: OraclePath, request: sharding.WriteSlots) -> base.Outcome:
    return right.run(replace(request, place=replace(request.place, inter=1)))


FAULTS: list[tuple[Case, type, Change, str]] = [
    (ONE, writing.WriteTokens, other_pairing, "write prompt"),
    (ONE, scoring.DecodeSchedule, last_chunk_lost, "schedule"),
    (ONE, scoring.DecodeScores, scale_forgotten, "score"),
    (ONE, selecting.SelectDecode, first_taken_twice, "top-k"),
    (TWO, sharding.WriteSlots, owner_by_turns, "slots"),
    (TWO, writing.WriteTokens, other_pairing, "write prompt"),
    (TWO, sharding.RowLengths, uniform_lengths, "lengths"),
    (TWO, scoring.DecodeScores, scale_forgotten, "score"),
    (TWO, sharding.PackCandidates, rank_ignored, "pack"),
    (TWO, sharding.MergeCandidates, one_rank_merged, "merge"),
]


@pytest.mark.parametrize(
    ("asked", "request_type", "wrong", "stage"), FAULTS, ids=[f"{f[2].__name__}-{f[0].world}" for f in FAULTS]
)
def test_the_stage_at_fault_is_named(asked: Case, request_type: type, wrong: Change, stage: str) -> None:
    """By the chain, which ends there, and as the only stage that differs on its own."""
    path = Planted(request_type, wrong)
    verdict = pipeline.check(asked, path)
    assert (verdict.status, verdict.where["stage"]) == (Status.DIFFER, stage)
    steps = chain.alone(raw.build(asked), path.run, path)
    own = [one.stage.name for one in steps if one.wrong]
    same_request = {"write prompt", "write step"} if request_type is writing.WriteTokens else {stage}
    assert own[0] == stage
    assert set(own) <= same_request


@pytest.mark.parametrize("asked", [ONE, TWO], ids=["one", "two"])
def test_the_oracle_agrees_with_itself(asked: Case) -> None:
    """Both ways of running it."""
    verdict = pipeline.check(asked, OraclePath())
    assert (verdict.status, verdict.total > 10_000) == (Status.AGREE, True)
    path = OraclePath()
    steps = chain.alone(raw.build(asked), path.run, path)
    assert all(one.wrong is None and one.compared for one in steps)


class Nothing(base.Path):
    """A path without any stage."""

    name = "nothing"
    executor = "torch"

    def answers(self) -> base.Answers:
        return {}


class NoWriter(Nothing):
    """A path whose writer needs a chip that is not here."""

    name = "nowriter"

    def answers(self) -> base.Answers:
        return {writing.WriteTokens: refuse, selecting.SelectDecode: OraclePath().run}


def refuse(request: Any) -> base.Outcome:
    raise base.OutOfScope("the writer needs a gfx950")


def test_a_path_without_a_stage_is_out_of_scope() -> None:
    """The oracle alone would agree with itself."""
    with pytest.raises(base.OutOfScope, match="path nothing has no stage of the pipeline"):
        pipeline.check(ONE, Nothing())


def test_a_stage_that_cannot_run_here_is_stood_in_for_and_told() -> None:
    """The rest is still checked, and the verdict says what the oracle did instead, and why."""
    verdict = pipeline.check(ONE, NoWriter())
    assert verdict.status is Status.AGREE
    assert any("the writer needs a gfx950" in note for note in verdict.notes)
    assert verdict.facts["subjects"]["WriteTokens"] == "oracle (torch)"
    assert verdict.facts["subjects"]["SelectDecode"].startswith("nowriter")
    assert OUT_OF_SCOPE not in verdict.facts


def test_localize_prints_and_writes_the_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row a stage; another suite's id is refused in a sentence."""
    out = tmp_path / "stages.json"
    assert cli.main(["localize", TWO.id, "--path", "oracle", "--json", str(out)]) == exits.AGREE
    assert "oracle: no stage differs" in capsys.readouterr().out
    names = [one["stage"] for one in json.loads(out.read_text(encoding="utf-8"))["stages"]]
    assert names == [
        "slots", "write prompt", "write step", "lengths", "schedule", "score", "top-k", "pack", "merge",
    ]  # fmt: skip
    other = "decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1"
    assert cli.main(["localize", other, "--path", "oracle"]) == exits.USAGE
    assert "ID is of suite decode, allowed are cases of suite pipeline" in capsys.readouterr().err


def test_localize_names_the_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says which, and the exit code that something differs."""
    planted = Planted(selecting.SelectDecode, first_taken_twice)
    monkeypatch.setattr("harness.paths.registry.create", lambda choice: planted)
    assert cli.main(["localize", ONE.id, "--path", "oracle"]) == exits.DIFFER
    assert "planted: the first stage that differs on its own is 'top-k'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"d": 256}, "field d is 256, allowed in suite pipeline is 128"),
        ({"ctx": (66, 1)}, "field ctx has 1, allowed in suite pipeline are lengths from n = 2"),
        ({"ctx": (9000, 3)}, "field ctx sums to 9003 keys, allowed in suite pipeline are at most 8192"),
        ({"inter": 16}, "field inter is 16, allowed is 1 where world is 1"),
        ({"fmt": "fn"}, "takes field world .decode. or field fmt .fp8., exactly one of them"),
        ({"world": 2, "inter": 5}, "field inter is 5, allowed are 1, 2, 4, 8, 16, 32 and 64"),
        ({"world": 9}, "field world is 9, allowed are 1 to 8"),
        ({"f": "natural"}, "field f is 'natural', allowed in suite pipeline are spread, boundary"),
    ],
)
def test_what_a_step_cannot_be_is_refused(change: dict[str, Any], sentence: str) -> None:
    """One sentence naming the field."""
    with pytest.raises(CaseError, match=sentence):
        ONE.but(**change)
