"""The command line: exit codes, sentences instead of tracebacks, and runs that end badly."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness import cli, exits
from harness.case import case_lists, cases
from harness.judge.verdict import OUT_OF_SCOPE
from harness.record import parquet, store
from suites.self import planted

CASE = "decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s1"
ALL = [planted.AGREE, planted.DIFFER, planted.MISTRUSTED, planted.UNSUPPORTED, planted.ERROR, planted.FINDING]


def verify(folder: Path, seeds: list[int], *options: str) -> tuple[int, str]:
    line = ["-m", "harness", "verify", "--path", "oracle", "-n", "1", *options]
    code, out, err = planted.run(folder, line, planted.environment(folder, seeds))
    return code, out + err


@pytest.mark.parametrize("command", [None, *cli.COMMANDS])
def test_help_teaches(command: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself; the first help shows examples and the exit codes."""
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"] if command else ["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert "harness" in said
    if command is None:
        assert "examples:" in said
        assert exits.table() in said


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "COMMAND"),
        ("frob", "invalid choice: 'frob'"),
        ("verify --path nope", "--path is 'nope', allowed are flydsl, aiter, atom, oracle"),
        ("verify --path oracle --suite nope", "--suite is 'nope', allowed are quantise"),
        ("verify --path oracle --cases few", "--cases invalid choice: 'few'"),
        ("verify --path oracle -n 0", "-n is 0, allowed are 1 to 256"),
        ("verify --path oracle -n many", "-n invalid int value"),
        ("verify --path oracle --limit 0", "--limit is 0"),
        ("verify --path oracle --aiter TMP", "means nothing to path oracle"),
        ("verify --path oracle --json TMP", "--json TMP is a directory"),
        ("verify --path oracle --html TMP/no/f", "--html TMP/no/f lies in a directory that does not exist"),
        (
            "verify --path oracle --junit TMP/file/f",
            "--junit TMP/file/f lies in a directory that does not exist",
        ),
        (
            "verify --path oracle --results TMP/file",
            "--results TMP/file is not a directory that can be written to",
        ),
        ("verify --path aiter --aiter TMP/none", "--aiter TMP/none does not exist"),
        ("verify --path aiter --aiter TMP/file", "--aiter TMP/file is a file"),
        ("verify --path aiter --aiter TMP", "--aiter TMP is no aiter checkout"),
        ("verify --path oracle extra", "unrecognized arguments: extra"),
        ("check", "ID"),
        ("check nope", "suite is 'nope'"),
        (f"check {CASE.replace('n1', 'n9')} --path oracle", "field n is 9, allowed are 1 to 8"),
        (f"check {CASE.replace('h16', 'h17')} --path oracle", "field h"),
        (f"check {CASE} --path nope", "--path is 'nope'"),
        ("list", "what"),
        ("list dishes", "invalid choice: 'dishes'"),
        ("report --results TMP/none", "--results TMP/none is no directory"),
        ("report nope --results TMP", "RUN 'nope' matches no run"),
        ("report --html f --results TMP", "RUN is missing"),
    ],
)
def test_bad_input_is_one_sentence(
    line: str,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2, one line on standard error that names the field, nothing run, nothing written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    code = cli.main(line.replace("TMP", str(tmp_path)).split())
    captured = capsys.readouterr()
    assert code == exits.USAGE
    assert captured.err.startswith("harness: ")
    assert captured.err.count("\n") == 1
    assert sentence.replace("TMP", str(tmp_path)) in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    ("statuses", "more", "code"),
    [
        (["agree"], {}, exits.AGREE),
        (["agree", "out of scope"], {}, exits.AGREE),
        (["agree", "out of scope"], {"asked": ["decode"]}, exits.UNPROVEN),
        (["agree", "out of scope"], {"asked": ["layout"]}, exits.AGREE),
        (["out of scope"], {}, exits.UNPROVEN),
        (["agree", "unsupported"], {}, exits.UNPROVEN),
        ([], {}, exits.UNPROVEN),
        (["agree", "mistrusted"], {}, exits.UNPROVEN),
        (["agree", "mistrusted", "error"], {}, exits.ERROR),
        (["agree", "error", "differ"], {}, exits.DIFFER),
        (["agree"], {"stale": 1}, exits.DIFFER),
        (["agree"], {"complete": False}, exits.ERROR),
        (["differ"], {"complete": False}, exits.DIFFER),
    ],
)
def test_exit_code_of_a_run(statuses: list[str], more: dict[str, Any], code: int) -> None:
    """Only a run in which something agreed, all of it ended and nothing is in doubt exits 0.

    A path that lacks what it should have leaves doubt; an operation it never has does not.
    """
    scopes = {"out of scope": ("unsupported", True)}
    pairs = [scopes.get(status, (status, False)) for status in statuses]
    records = [
        {"status": status, "suite": "decode", "path": "aiter", "facts": {OUT_OF_SCOPE: outside}}
        for status, outside in pairs
    ]
    assert exits.of_records(records, **more) == code


def test_a_suite_that_was_named_need_not_be_in_every_paths_scope() -> None:
    """Two paths, one of which never has the operation: the other's agreement is what was asked for."""
    agreed = {"status": "agree", "suite": "gate", "path": "flydsl", "facts": {}}
    outside = {"status": "unsupported", "suite": "gate", "path": "aiter", "facts": {OUT_OF_SCOPE: True}}
    lacking = {**outside, "facts": {OUT_OF_SCOPE: False}}
    assert exits.of_records([agreed, outside], asked={"gate"}) == exits.AGREE
    assert exits.of_records([agreed, lacking], asked={"gate"}) == exits.UNPROVEN
    assert exits.of_records([outside, {**outside, "path": "atom"}], asked={"gate"}) == exits.UNPROVEN


def test_a_defect_of_the_harness_does_not_exit_like_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own exit code for an exception is 1, which here means that something differs."""

    def broken(*_: object) -> int:
        raise RuntimeError("a defect")

    monkeypatch.setattr("harness.command.cli_list.main", broken)
    assert cli.main(["list", "cases"]) == exits.ERROR
    assert "a defect" in capsys.readouterr().err


def test_a_package_that_is_absent_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A half-installed environment is told, with the package's name."""
    monkeypatch.delitem(sys.modules, "harness.command.cli_report", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "harness.command.cli_verify", raising=False)
    assert cli.main(["report"]) == exits.ERROR
    assert capsys.readouterr().err.startswith("harness: the package rich.console is not installed here")


def test_lists_need_no_torch() -> None:
    """``list`` answers at once: nothing heavy is imported for it."""
    code = (
        "import sys; from harness.cli import main\n"
        "for what in ('cases', 'paths', 'suites', 'fills'): assert main(['list', what]) == 0\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'flydsl', 'pandas', 'triton')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=planted.ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", ["smoke", "full"])
def test_listed_ids_are_cases_and_occur_once(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every id that is printed can be given to ``check``."""
    assert cli.main(["list", "cases", "--cases", size]) == 0
    ids = capsys.readouterr().out.split()
    assert len(set(ids)) == len(ids) == sum(len(case_lists.listed(suite, size)) for suite in cases.SUITES)
    assert [cases.parse(text).id for text in ids] == ids


def test_every_status_ends_in_the_summary_and_the_files(tmp_path: Path) -> None:
    """One run with all statuses: exit 1, texts, finding, JSON, JUnit, page, store."""
    files = ["--json", "v.json", "--junit", "v.xml", "--html", "v.html", "--suite", "decode"]
    code, out = verify(tmp_path, ALL, *files)
    assert code == exits.DIFFER, out
    assert "where   row 3, column 5: sequence 1" in out
    assert "NEW finding in 1 case: out-of-bounds-load of block_tables" in out
    assert "Traceback" not in out
    document = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert document["complete"] is True
    assert document["provenance"]["arguments"]["suite"] == ["decode"]
    assert len(document["records"]) == len(ALL)
    assert len(list(ElementTree.parse(tmp_path / "v.xml").iter("testcase"))) == len(ALL)
    assert "planted &lt;b&gt;reason" in (tmp_path / "v.html").read_text(encoding="utf-8")
    [run] = store.runs(tmp_path / "results")
    assert parquet.read(run.parquet) == document["records"]


def test_a_green_run_exits_0_and_can_be_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``report`` lists the run, shows it again and writes its page."""
    code, out = verify(tmp_path, [planted.AGREE])
    assert code == exits.AGREE, out
    assert "exit 0: every case that ran agrees (2 agree)" in out
    results = ["--results", str(tmp_path / "results")]
    assert cli.main(["report", *results]) == 0
    assert "2 agree" in capsys.readouterr().out
    assert cli.main(["report", "last", *results, "--html", str(tmp_path / "f.html")]) == 0
    assert "quantise" in capsys.readouterr().out
    assert (tmp_path / "f.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_worker_that_dies_is_an_error_of_its_case(tmp_path: Path) -> None:
    """The cases after it still run, and the dead one is named."""
    code, out = verify(tmp_path, [planted.CRASH, planted.AGREE], "--suite", "decode")
    assert code == exits.ERROR
    assert "the worker process died while it ran this case" in out
    assert "(1 agree, 1 error)" in out


def test_a_case_that_hangs_is_cut_off(tmp_path: Path) -> None:
    """With a limit of a second, a case that never returns costs a second."""
    code, out = verify(tmp_path, [planted.HANG, planted.AGREE], "--suite", "decode", "--limit", "1")
    assert code == exits.ERROR
    assert "longer than 1 s" in out
    assert "(1 agree, 1 error)" in out


def started(folder: Path, seeds: list[int]) -> tuple[subprocess.Popen[str], store.Run]:
    """A slow run of which at least two verdicts have ended."""
    line = ["-m", "harness", "verify", "--path", "oracle", "-n", "1", "--json", "v.json", "--suite", "decode"]
    process = planted.start(folder, line, planted.environment(folder, seeds, sleep=0.4))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        runs = store.runs(folder / "results")
        if runs and len(store.load(runs[-1]).records) >= 2:
            return process, runs[-1]
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


def test_an_interrupt_sums_up_what_ended(tmp_path: Path) -> None:
    """Ctrl-C: exit 130, a summary of what there is, and a document that says it is incomplete."""
    process, run = started(tmp_path, [planted.AGREE] * 100)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED
    assert "did not end" in out
    assert "Traceback" not in out + err
    document = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert document["complete"] is False
    assert 2 <= len(document["records"]) < 100
    assert run.manifest()["complete"] is False


def test_a_kill_loses_the_case_in_flight_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9: earlier runs are intact, the killed one can be read, and its engine stops by itself."""
    verify(tmp_path, [planted.AGREE], "--suite", "decode")
    process, run = started(tmp_path, [planted.AGREE] * 100)
    process.kill()
    process.communicate(timeout=60)
    before = len(store.load(run).records)
    assert before >= 2
    settled = stops_growing(run)
    assert settled < 100
    assert cli.main(["report", "--results", str(tmp_path / "results")]) == 0
    said = capsys.readouterr().out
    assert "complete" in said
    assert "cut short" in said


def stops_growing(run: store.Run) -> int:
    """Number of verdicts once none was added for two seconds."""
    seen, since, until = -1, time.monotonic(), time.monotonic() + 60
    while time.monotonic() < until:
        count = len(store.load(run).records)
        if count != seen:
            seen, since = count, time.monotonic()
        elif time.monotonic() - since > 2:
            return count
        time.sleep(0.1)
    raise AssertionError("the engine of a killed run goes on")


def test_module_and_script_are_the_same() -> None:
    """The script of the package is the function that ``python -m harness`` calls."""
    text = (planted.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'harness = "harness.cli:main"' in text
    code = subprocess.run(
        [sys.executable, "-m", "harness", "frob"], cwd=planted.ROOT, capture_output=True, timeout=60
    )
    assert code.returncode == exits.USAGE


def test_commands_are_the_modules_that_exist() -> None:
    """A command without a module would fail only when it is used."""
    for command in cli.COMMANDS:
        parser = cli.build_parser(command)
        assert isinstance(parser, argparse.ArgumentParser)


def test_output_goes_to_streams_and_through_links(tmp_path: Path) -> None:
    """A device or a pipe is written to and never replaced; a link is followed."""
    from harness.record import document

    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    document.check_output("--json", pipe)
    document.write_text(pipe, "told")
    assert os.read(reader, 10) == b"told"
    os.close(reader)
    assert pipe.is_fifo()
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    document.write_text(link, "new")
    assert (link.is_symlink(), real.read_text(encoding="utf-8")) == (True, "new")
    with pytest.raises(exits.InputError, match=r"--html .* is the file of --json too"):
        document.check_apart({"--json": real, "--junit": None, "--html": link})
