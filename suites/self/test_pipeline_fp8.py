"""The FP8 pipeline: the stage at fault is named, parts stand for a fused writer, findings have a stage."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from harness import cli, exits, runner
from harness.case import cases
from harness.case.cases import Case
from harness.checks import pipeline
from harness.faults import catalogue
from harness.faults.planted import Planted
from harness.findings import Finding
from harness.judge.ledger import Ledger
from harness.judge.verdict import Grade, Status
from harness.paths import base
from harness.paths.oracle import OraclePath
from harness.paths.requests.eightbit import WriteTokens8
from harness.paths.requests.selecting import SelectDecode, SelectPrefill
from harness.record import stages

FLAT = cases.parse("pipeline-n2-h16-d128-ctx18,3-k4-pairneox-fmtfn-ue1-tileflat-fspread-s1")
PLAIN = FLAT.but(ue=0, f="boundary", s=2)
TILED = FLAT.but(tile="tiled", pair="interleaved")
FINDING = Finding("missing-barrier", "writer_kernel", "smem", "writer.cu:7", 3, {"lane": 1})

FAULTS = [
    ("fp8-tie-away", PLAIN, {"write step"}),
    ("fp8-plain-scale", FLAT, {"write prompt", "write step"}),
    ("fp8-weights-unscaled", FLAT, {"write step"}),
    ("fp8-tiled-written-flat", TILED, {"write prompt", "write step"}),
    ("fp8-tiled-read-flat", TILED, {"gather"}),
    ("fp8-own-pages-only", TILED, {"gather"}),
    ("fp8-own-pages-only", FLAT, {"score"}),
    ("fp8-relu-missing", FLAT, {"score"}),
    ("fp8-key-scale-dropped", TILED, {"score"}),
    ("fp8-window-end-early", FLAT, {"score"}),
]


@pytest.mark.parametrize(
    ("name", "asked", "at_fault"), FAULTS, ids=[f"{name}-{case.tile}" for name, case, _ in FAULTS]
)
def test_the_stage_at_fault_is_named(
    name: str, asked: Case, at_fault: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the chain, and by localize as the first that differs on its own; no other stage differs."""
    path = Planted(OraclePath(), [catalogue.named(name)])
    verdict = pipeline.check(asked, path)
    first = next(stage for stage in ("write prompt", "write step", "gather", "score") if stage in at_fault)
    assert (verdict.status, verdict.where["stage"]) == (Status.DIFFER, first)
    assert cli.main(["localize", asked.id, "--path", "oracle", "--fault", name]) == exits.DIFFER
    said = capsys.readouterr().out
    assert f"oracle with fault {name}: the first stage that differs on its own is {first!r}" in said
    assert sum(" differ " in line for line in said.splitlines()) == len(at_fault)


class Changed(OraclePath):
    """The oracle with another answer to some requests, or none where it is None."""

    name = "changed"

    def __init__(self, changes: dict[type, Callable[[Any], base.Outcome] | None]) -> None:
        right = OraclePath().table
        self.table = {kind: made for kind, made in {**right, **changes}.items() if made}


def first_taken_twice(request: Any) -> base.Outcome:
    ids = OraclePath().run(request).value
    ids[:, 1] = ids[:, 0]
    return base.Outcome(ids)


@pytest.mark.parametrize(("asked", "kind"), [(FLAT, SelectDecode), (TILED, SelectPrefill)])
def test_a_wrong_selection_is_named(asked: Case, kind: type) -> None:
    """Both top-k operations are asked, each in its form."""
    verdict = pipeline.check(asked, Changed({kind: first_taken_twice}))
    assert (verdict.status, verdict.where["stage"]) == (Status.DIFFER, "top-k")


@pytest.mark.parametrize("asked", [FLAT, PLAIN, TILED], ids=["flat", "plain", "tiled"])
def test_a_right_path_agrees(asked: Case) -> None:
    """Bytes everywhere; scores that no order decides are within their bound, and the grade says so."""
    verdict = pipeline.check(asked, OraclePath())
    assert (verdict.status, verdict.grade) == (Status.AGREE, Grade.BOUNDED)
    assert verdict.total > 10_000


def test_a_path_without_a_fused_writer_is_asked_for_its_parts() -> None:
    """The verdict says whose LayerNorm it was; a fault in the parts shows in the writer's stage."""
    parts = Changed({WriteTokens8: None})
    verdict = pipeline.check(FLAT, parts)
    assert verdict.status is Status.AGREE, verdict.text()
    told = [one for one in verdict.facts["stages"] if one["stage"] == "write step"]
    assert [one["request"] for one in told] == ["QuantiseQueries8", "WriteKeys8"]
    assert "LayerNorm and RoPE of the oracle" in verdict.facts["subjects"]["WriteTokens8"]
    faulty = pipeline.check(PLAIN, Planted(parts, [catalogue.named("fp8-drift")]))
    assert (faulty.status, faulty.where["stage"]) == (Status.DIFFER, "write prompt")


def with_finding(request: Any) -> base.Outcome:
    facts = {"executor": "emulated HIP", "subject": "changed writer", "source": "csrc/writer.cu"}
    return replace(OraclePath().run(request), findings=(FINDING,), facts=facts)


def test_a_finding_is_told_with_its_stage_though_values_are_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case is red for it, no stage differs, and localize names both stages in which it came up."""
    path = Changed({WriteTokens8: with_finding})
    verdict = runner.run(FLAT, path, Ledger())
    assert (verdict.status, verdict.layer) == (Status.DIFFER, "finding")
    assert "missing-barrier of smem came up in stage write prompt" in verdict.notes
    assert not any("in stage score" in note for note in verdict.notes)
    monkeypatch.setattr("harness.paths.registry.create", lambda choice: path)
    assert cli.main(["localize", FLAT.id, "--path", "oracle"]) == exits.DIFFER
    said = capsys.readouterr().out
    assert "changed: no stage differs" in said
    assert "new finding in 'write prompt', 'write step': missing-barrier of smem" in said


def test_the_summary_shows_what_ran_in_each_stage() -> None:
    """Function, file and how; where the oracle answered, why; a path without sources has no table."""

    def refuse(request: Any) -> base.Outcome:
        raise base.OutOfScope("it needs a chip")

    path = Changed({WriteTokens8: with_finding, SelectDecode: refuse})
    records = [runner.run(FLAT, path, Ledger()).to_record()]
    stream = io.StringIO()
    stages.show(Console(file=stream, width=300), stages.sections(records, Ledger()))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines[1] == "FP8 pipeline on changed: the code of each stage"
    writer = "changed writer csrc/writer.cu HIP, emulated NEW missing-barrier of smem"
    assert lines[3:5] == [f"write prompt {writer}", f"write step {writer}"]
    assert lines[6] == "top-k SelectDecode - oracle stood in it needs a chip"
    assert stages.sections([runner.run(FLAT, OraclePath(), Ledger()).to_record()], Ledger()) == []
