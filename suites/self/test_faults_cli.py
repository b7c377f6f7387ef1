"""Faults from the command line: a faulty run says so wherever it is seen, and a bad name is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.case.cases import parse
from harness.faults import catalogue, elsewhere, sweep, table
from harness.faults.trial import BROKEN, MISSED, OUTSIDE, RED, UNREACHED, Told
from harness.judge.verdict import Status
from harness.paths import registry
from harness.record import provenance, store, summary
from suites import plugin

CASE = "quantise-r1-d128-fboundary-s2"
NAMED = "oracle with fault tie-away"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"check {CASE} --path oracle --fault tie-awy", "'tie-awy', which is no fault; near it are tie-away"),
        ("check --path oracle --capture TMP --fault tie-away", "--fault tie-away means nothing with --ca"),
        ("verify --path oracle --fault relu", "--fault is 'relu', which is no fault"),
        ("verify --path oracle --capture TMP --fault tie-away", "--fault means nothing with --capture"),
        ("faults --path oracle --fault nope", "--fault is 'nope', which is no fault"),
        ("faults --path oracle --stage nope", "--stage is 'nope', allowed are quantise, layout"),
        ("faults --path oracle --fault tie-away --stage score", "tie-away is of none of the stages score"),
        ("faults --path oracle --path flydsl", "--path names 2 paths, allowed is one"),
        ("faults --path nope", "--path is 'nope', allowed are"),
        ("faults --path oracle -n 0", "-n is 0, allowed are 1 to 256"),
        ("faults --path oracle --json TMP", "--json TMP is a directory"),
        ("faults --json TMP/f --markdown TMP/f", "--markdown TMP/f is the file of --json too"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    line: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line that names the field, nothing run."""
    code = cli.main(line.replace("TMP", str(tmp_path)).split())
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (exits.USAGE, 1)
    assert sentence.replace("TMP", str(tmp_path)) in said


def test_a_case_with_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Headline, rerun line, record and provenance name the fault."""
    file = tmp_path / "f.json"
    line = ["check", CASE, "--path", "oracle", "--fault", "tie-away", "--json", str(file)]
    assert cli.main(line) == exits.DIFFER
    said = capsys.readouterr().out
    assert said.startswith(f"FAILED  {CASE}   {NAMED} (torch) vs oracle")
    assert f"python -m harness check {CASE} --path oracle --fault tie-away" in said
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["provenance"]["path"] == document["records"][0]["path"] == NAMED
    assert document["provenance"]["faults"] == ["tie-away"]


def test_a_fault_that_is_not_reached_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The case agrees, says that it met no fault, and is no exit code 0."""
    assert cli.main(["check", CASE, "--path", "oracle", "--fault", "relu-missing"]) == exits.UNPROVEN
    said = capsys.readouterr().out
    assert "fault relu-missing was not reached: nothing it touches was asked of the path" in said


def verified(folder: Path, *options: str) -> tuple[int, store.Run]:
    results = folder / "results"
    line = ["verify", "--path", "oracle", "--suite", "quantise", "-n", "1", "--results", str(results)]
    return cli.main([*line, *options]), store.runs(results)[-1]


def test_a_faulty_run_is_never_taken_for_a_real_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Header, table, store, document, page and report name the fault, and how many cases reached it."""
    files = {name: tmp_path / f"v.{name}" for name in ("json", "html")}
    options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    code, run = verified(tmp_path, "--fault", "tie-away", *options)
    said = capsys.readouterr().out
    assert code == exits.DIFFER
    assert said.startswith(f"verify path {NAMED}, smoke cases of quantise")
    counted = "fault tie-away was planted on purpose: reached in 6 of 6 cases, 5 of these differ"
    assert counted in said
    document, page = (file.read_text(encoding="utf-8") for file in files.values())
    assert {record["path"] for record in json.loads(document)["records"]} == {NAMED}
    assert json.loads(document)["provenance"]["faults"] == ["tie-away"]
    assert f"<h1>{NAMED} against the oracle</h1>" in page and counted in page
    assert run.manifest()["provenance"]["path"] == NAMED
    loaded = store.load(run)
    assert not loaded.unfinished and loaded.planned == len(loaded.records) == 6
    assert cli.main(["report", "--results", str(tmp_path / "results")]) == 0
    assert "oracle with" in capsys.readouterr().out
    assert cli.main(["report", "last", "--results", str(tmp_path / "results")]) == 0
    assert counted in capsys.readouterr().out


def test_a_run_that_never_reaches_its_fault_is_unproven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All cases agree and none met the fault: exit code 4."""
    code, run = verified(tmp_path, "--fault", "relu-missing")
    said = capsys.readouterr().out
    assert code == run.manifest()["exit_code"] == exits.UNPROVEN
    assert "fault relu-missing was planted on purpose: reached in 0 of 6 cases" in said


def test_a_case_that_never_ran_names_the_fault_too() -> None:
    """The verdict of a worker that died."""
    verdict = plugin.could_not_run(parse(CASE), registry.Choice("oracle"), "gone", ["tie-away"])
    assert (verdict.status, verdict.path) == (Status.ERROR, NAMED)
    assert verdict.rerun.endswith("--fault tie-away")
    assert exits.planted_cases([verdict.to_record()]) == {"tie-away": 0}


def test_without_a_fault_nothing_is_said_of_faults() -> None:
    """Records and provenance of a real run are what they were."""
    about = provenance.collect([registry.Choice("oracle")], {})
    assert about["path"] == "oracle" and "faults" not in about
    assert (
        summary.planted([plugin.could_not_run(parse(CASE), registry.Choice("oracle"), "x").to_record()]) == []
    )


def test_the_catalogue_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, stage, what is wrong, where it was seen, its case and what misses it."""
    assert cli.main(["list", "faults"]) == 0
    said = capsys.readouterr().out
    for one in elsewhere.ALL:
        assert one.report in said and one.why in said
    for fault in catalogue.ALL:
        for text in (fault.name, fault.wrong, fault.seen, fault.case, fault.weak):
            assert text in said


def test_the_catalogue_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of it on the oracle: text, document and table; what it cannot have is exit code 4."""
    files = [str(tmp_path / "f.json"), str(tmp_path / "f.md")]
    line = ["faults", "--path", "oracle", "-n", "1", "--json", files[0], "--markdown", files[1]]
    code = cli.main([*line, "--fault", "weights-unscaled", "--fault", "tie-away"])
    said = capsys.readouterr().out
    assert code == exits.AGREE, said
    assert "let pass by  cosine > 0.99; cosine > 0.9999, overlap > 0.99" in said
    assert f"let pass by  {catalogue.named('tie-away').weak}" in said
    assert "let pass of 1 faults seen in whole scores: cosine > 0.99: 1," in said
    assert "exit 0: every fault is red (2 red;" in said
    found = json.loads(Path(files[0]).read_text(encoding="utf-8"))["records"]
    assert [one["fault"] for one in found] == ["tie-away", "weights-unscaled"]  # in the catalogue's order
    assert found[1]["source"] and found[1]["passing"] == list(found[1]["passing"])
    assert "| tie-away | quantise | red (bits) |" in Path(files[1]).read_text(encoding="utf-8")
    code = cli.main(["faults", "--path", "oracle", "-n", "1", "--fault", "table-overread"])
    said = capsys.readouterr().out
    assert code == exits.UNPROVEN
    assert "out of scope: table-overread on decode" in said


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((RED, RED), exits.AGREE),
        ((RED, MISSED, BROKEN), exits.DIFFER),
        ((RED, BROKEN, OUTSIDE), exits.ERROR),
        ((RED, OUTSIDE), exits.UNPROVEN),
        ((UNREACHED, RED), exits.UNPROVEN),
    ],
)
def test_only_all_red_is_exit_code_0(outcomes: tuple[str, ...], code: int) -> None:
    told: list[Any] = [Told("tie-away", "quantise", CASE, outcome) for outcome in outcomes]
    assert sweep.exit_code(told) == code
    assert table.counts(told).startswith(f"{outcomes.count(RED)} red")
