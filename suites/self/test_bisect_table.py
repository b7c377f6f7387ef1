"""`harness history`: one verdict for each state of the files, one row for commits that follow each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli, exits
from suites.self import bisect_history
from suites.self.bisect_history import CASE, History
from suites.self.test_bisect_packages import NAME, READ, wheel


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    return bisect_history.new(tmp_path, monkeypatch)


def table(made: History, *words: str) -> int:
    folder = str(made.folder.parent / "kept")
    return cli.main(["history", *words, "--repo", str(made.folder), "--case", CASE, "--dir", folder])


def rows(text: str) -> list[list[str]]:
    """Cells of the last table in ``text``, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_state_is_asked_once_and_every_commit_is_in_a_row(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commits before the file are left out; a state that comes back has the verdict that it had."""
    notes = ["", "a", "", "b", "", "", "a"]
    for number, note in enumerate(notes):
        if note:
            (history.folder / "kernel").write_text(note, encoding="utf-8")
        history.commit("differ" if note == "b" else "agree")
        assert len(history.hashes) == number + 1
    file = tmp_path / "f.md"
    assert table(history, "kernel", "--markdown", str(file)) == exits.DIFFER
    assert history.asked == 2
    found = rows(file.read_text(encoding="utf-8"))
    assert [(row[2], row[-1]) for row in found] == [("2", "1 agree"), ("3", "1 differ (1)"), ("1", "1 agree")]
    assert found[0][0].startswith(f"`{history.hashes[1][:10]}`")
    assert found[1][1].startswith(f"`{history.hashes[5][:10]}`")
    assert f"1. {CASE} on flydsl: differ, planted at row 3" in file.read_text(encoding="utf-8")
    assert table(history, "kernel") == exits.DIFFER
    assert history.asked == 2
    assert "2 states to ask" in capsys.readouterr().out
    assert history.git("worktree", "list").count("\n") == 0


def test_a_commit_without_a_verdict_is_unproven(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says why; agreement alone is exit code 0."""
    history.commit("agree", "kernel")
    assert table(history, "kernel") == exits.AGREE
    history.commit("crash", "kernel")
    file = tmp_path / "f.json"
    assert table(history, "kernel", "--json", str(file)) == exits.UNPROVEN
    assert "ModuleNotFoundError: No module named 'no_such_module'" in capsys.readouterr().out
    assert [one["count"] for one in json.loads(file.read_text(encoding="utf-8"))["records"]] == [1, 1]


def test_the_version_that_a_commit_asks_for_is_followed(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A commit that asks for another one is another state; one that names none cannot be told."""
    (tmp_path / "wheels").mkdir()
    for version, status in (("1.0", "agree"), ("2.0", "differ")):
        wheel(tmp_path / "wheels", version, status)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    main = history.folder / "harness" / "__main__.py"
    text = main.read_text(encoding="utf-8")
    read = next(line for line in text.splitlines() if line.startswith("lines ="))
    main.write_text(text.replace(read, READ), encoding="utf-8")
    (history.folder / "kernel").write_text("one", encoding="utf-8")
    for pin in ("other==3\n", f"other==3\n{NAME}==1.0\n", f"{NAME} == 2.0  # a reason\n", f"{NAME}==9.9\n"):
        (history.folder / "requirements.txt").write_text(pin, encoding="utf-8")
        history.commit("agree")
    assert table(history, "kernel", "--package", NAME) == exits.DIFFER
    said = capsys.readouterr().out
    found = rows(said)
    assert [row[4] for row in found] == ["none", "1.0", "2.0", "9.9"]
    assert [row[-1].split(" (")[0] for row in found] == ["no verdict", "1 agree", "1 differ", "no verdict"]
    assert f"the commit asks for no exact version of {NAME}" in said
    assert f"{NAME}==9.9 cannot be installed" in said


def test_bad_input_of_a_history_is_one_sentence(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    history.commit("agree", "kernel")
    line = ["history", "kernel", "--repo", str(history.folder)]
    for words, sentence in [
        (line, "--suite or --case is missing"),
        ([*line, "--case", CASE, "--to", "nope"], "--to is 'nope', which names no commit"),
        (["history", "nothing", *line[2:], "--case", CASE], "PATH is nothing, which no commit of --repo has"),
        ([*line, "--case", CASE, "--limit", "0"], "--limit is 0"),
    ]:
        assert cli.main([*words, "--dir", str(history.folder.parent / "kept")]) == exits.USAGE
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1
    assert history.asked == 0
