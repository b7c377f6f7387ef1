"""`harness bisect` over small histories: the right commit, few questions, nobody's checkout touched."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from harness import cli, exits
from suites.self import bisect_history
from suites.self.bisect_history import CASE, OTHER, History


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    return bisect_history.new(tmp_path, monkeypatch)


@pytest.mark.parametrize(("first", "last"), [(1, 8), (8, 8), (22, 64)])
def test_the_first_bad_commit_is_named(
    first: int, last: int, history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 64 commits, in at most 8 evaluations, with its files, its verdict and the lines to see it again."""
    bisect_history.linear(history, ["agree"] * first + ["differ"] * (last + 1 - first))
    files = ["--json", str(tmp_path / "f.json"), "--markdown", str(tmp_path / "f.md")]
    assert history.bisect(f"HEAD~{last}", "main", *files) == exits.AGREE
    said = capsys.readouterr().out
    culprit = history.hashes[first]
    assert f"first bad commit {culprit}" in said
    assert "file    M state" in said
    assert "row 3" in said and "got 0x1 one  want 0x2 two" in said
    assert f"worktree add --detach ../first-bad {culprit[:12]}" in said
    assert history.asked <= 8
    kept = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert kept["provenance"]["candidates"] == [culprit]
    assert len(kept["records"]) == history.asked
    text = (tmp_path / "f.md").read_text(encoding="utf-8")
    assert f"`{culprit}` of" in text and "`M state`" in text and "commit 0 | good" in text


def test_the_users_checkout_is_left_as_it_is(history: History, tmp_path: Path) -> None:
    """Branch, index, changes, untracked files, references, configuration; no worktree stays."""
    bisect_history.linear(history, ["agree"] * 5 + ["differ"] * 4)
    (history.folder / "state").write_text("changed\n", encoding="utf-8")
    (history.folder / "staged").write_text("new\n", encoding="utf-8")
    history.git("add", "staged")
    (history.folder / "loose").write_text("mine\n", encoding="utf-8")
    (history.folder / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch ../hooked\n", encoding="utf-8")
    (history.folder / ".git/hooks/post-checkout").chmod(0o755)

    def snapshot() -> dict[str, bytes]:
        return {
            str(file.relative_to(history.folder)): file.read_bytes()
            for file in history.folder.rglob("*")
            if file.is_file() and file.name != "packed-refs"  # git writes one as it deletes a reference
        } | {"references": history.git("for-each-ref").encode()}

    before = snapshot()
    assert history.bisect("HEAD~8", "HEAD") == exits.AGREE
    after = snapshot()
    assert {name for name in before.keys() | after if before.get(name) != after.get(name)} == set()
    assert sorted(one.name for one in (tmp_path / "kept").iterdir()) == ["lock", "verdicts.jsonl"]
    assert not list(tmp_path.glob("**/hooked"))


def test_a_commit_that_cannot_be_tested_is_skipped(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that does not import, one that knows no such case, one that breaks otherwise than the bad end."""
    states = ["agree"] * 4 + ["crash", "unsupported", "error", "agree", "agree", "differ", "differ"]
    bisect_history.linear(history, states)
    assert history.bisect("HEAD~10", "HEAD") == exits.AGREE
    said = capsys.readouterr().out
    assert f"first bad commit {history.hashes[9]}" in said
    assert "skip" in said


def test_a_commit_without_a_package_is_not_asked_of_an_installed_one(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python would find the harness that runs the search in its place."""
    bisect_history.linear(history, ["agree", "agree"])
    history.git("mv", "oracles", "oracle")
    bisect_history.linear(history, ["agree"])
    history.git("mv", "oracle", "oracles")
    bisect_history.linear(history, ["agree", "differ"])
    assert history.bisect("HEAD~4", "HEAD") == exits.AGREE
    said = capsys.readouterr().out
    assert f"skip  {history.hashes[2][:12]}" in said
    assert "this commit has no package oracles" in said


def test_skips_that_leave_several_candidates_are_told(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4; each candidate with its reason, and none beside them."""
    bisect_history.linear(history, ["agree", "agree", "crash", "error", "differ", "differ"])
    assert history.bisect("HEAD~5", "HEAD") == exits.UNPROVEN
    said = capsys.readouterr().out
    told = said.split("is one of 3")[1]
    assert "ModuleNotFoundError: No module named 'no_such_module'" in told
    assert [commit[:12] in told.split("FAILED")[0] for commit in history.hashes] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


def test_an_error_counts_where_the_bad_end_has_one(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    bisect_history.linear(history, ["agree", "agree", "agree", "error", "error"])
    assert history.bisect("HEAD~4", "HEAD") == exits.AGREE
    assert f"first bad commit {history.hashes[3]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("states", "code", "sentence"),
    [
        (["differ", "agree", "differ"], exits.USAGE, "--good HEAD~2 is not good: "),
        (["agree", "differ", "agree"], exits.USAGE, "--bad HEAD is not bad: "),
        (["crash", "agree", "differ"], exits.ERROR, "--good HEAD~2 cannot be told: ModuleNotFoundError"),
        (["unsupported", "agree", "differ"], exits.ERROR, "--good HEAD~2 cannot be told: "),
        (["agree", "differ", "crash"], exits.ERROR, "--bad HEAD cannot be told: ModuleNotFoundError"),
        (["agree", "differ", "unsupported"], exits.ERROR, "--bad HEAD cannot be told: "),
    ],
)
def test_an_end_that_is_not_what_it_is_said_to_be(
    states: list[str], code: int, sentence: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, before any search."""
    bisect_history.linear(history, states)
    assert history.bisect("HEAD~2", "HEAD") == code
    told = capsys.readouterr().err
    assert told.startswith(f"harness: {sentence}")
    assert told.count("\n") == 1


def test_nothing_is_asked_twice(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by the same search again nor after a torn line, of which only that one is asked again."""
    bisect_history.linear(history, ["agree"] * 9 + ["differ"] * 8)
    assert history.bisect("HEAD~16", "HEAD") == exits.AGREE
    first = history.asked
    assert history.bisect("HEAD~16", "HEAD") == exits.AGREE
    assert history.asked == first
    assert f"{first} commits asked, {first} of them answered" in capsys.readouterr().out
    file = history.folder.parent / "kept" / "verdicts.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    for _ in range(2):
        assert history.bisect("HEAD~16", "HEAD") == exits.AGREE
        assert history.asked == first + 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_search_that_was_cut_off_goes_on(
    how: signal.Signals, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """What had ended is not asked again, and what was left behind is gone, at the latest after the next."""
    bisect_history.linear(history, ["agree"] * 9 + ["hang"] + ["differ"] * 8)
    process = bisect_history.running(history, "HEAD~17", "HEAD")
    deadline = time.monotonic() + 25
    while history.asked < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    process.communicate(timeout=10)
    assert history.asked == 3
    if how is not signal.SIGKILL:
        assert process.returncode == exits.INTERRUPTED
        assert history.git("worktree", "list").count("\n") == 0
    history.bisect("HEAD~17", "HEAD", "--limit", "1")
    assert "first bad commit is one of 2" in capsys.readouterr().out
    assert len(set(history.log.read_text(encoding="utf-8").splitlines())) == 1
    lines = (history.folder.parent / "kept/verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert history.asked - len(lines) in (0, 1)  # one at most was cut off
    assert history.git("worktree", "list").count("\n") == 0
    assert not list((history.folder.parent / "kept").glob("tree-*"))


def test_a_fault_of_a_branch_is_found_behind_its_merge(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """As git does; with --first-parent the merge is named."""
    bisect_history.linear(history, ["agree", "agree"])
    history.git("checkout", "-q", "-b", "side")
    culprit = history.commit("differ", "side")
    history.commit("differ", "more")
    history.git("checkout", "-q", "main")
    history.git("commit", "-q", "--allow-empty", "-m", "beside it")
    history.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = history.git("rev-parse", "HEAD")
    assert history.bisect(history.hashes[0], "HEAD") == exits.AGREE
    assert f"first bad commit {culprit}" in capsys.readouterr().out
    assert history.bisect(history.hashes[0], "HEAD", "--first-parent") == exits.AGREE
    assert f"first bad commit {merge}" in capsys.readouterr().out


def test_only_commits_that_touch_a_file_are_asked(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both ends, and one of the two that touch it; where neither turned bad, that is said."""
    for number in range(12):
        history.commit("agree" if number < 6 else "differ", "kernel" if number in (3, 6) else "")
    assert history.bisect("HEAD~11", "HEAD", "--only", "kernel") == exits.AGREE
    assert f"first bad commit {history.hashes[6]}" in capsys.readouterr().out
    assert history.asked <= 4
    history.commit("differ", "other")
    assert history.bisect("HEAD~12", "HEAD", "--only", "other") == exits.AGREE
    history.commit("agree", "late")
    history.commit("differ")
    assert history.bisect("HEAD~14", "HEAD", "--only", "late") == exits.ERROR
    assert "no commit that touches late turned bad" in capsys.readouterr().err


def test_the_quickest_red_case_speaks_for_a_suite(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """The suite is run at the ends only; a case that was unsupported at the good end has no say."""
    third = OTHER.replace("10", "11")
    for number in range(9):
        slow = "differ 5" if number > 2 else "agree 5"
        quick = "differ 2" if number > 5 else "agree 2"
        history.commit({CASE: slow, OTHER: quick, third: "differ 1" if number else "unsupported 1"})
    assert history.bisect("HEAD~8", "HEAD", ask=["--suite", "decode"]) == exits.AGREE
    assert f"first bad commit {history.hashes[6]}" in capsys.readouterr().out
    asked = history.log.read_text(encoding="utf-8").splitlines()
    assert asked[:2] == ["verify --suite"] * 2
    assert set(asked[2:]) == {f"check {OTHER}"}


def test_of_cases_that_were_named_any_red_one_makes_a_commit_bad(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(9):
        slow = "differ 5" if number > 2 else "agree 5"
        history.commit({CASE: slow, OTHER: "differ 2" if number > 5 else "agree 2"})
    assert history.bisect("HEAD~8", "HEAD", ask=["--case", CASE, OTHER]) == exits.AGREE
    assert f"first bad commit {history.hashes[3]}" in capsys.readouterr().out


def test_bad_input_is_one_sentence(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 before anything is evaluated."""
    bisect_history.linear(history, ["agree", "differ"])
    (tmp_path / "plain").mkdir()
    for line, sentence in [
        (history.line("HEAD", "HEAD~1"), "--good HEAD is no ancestor of --bad HEAD~1"),
        (history.line("HEAD", "HEAD"), "--good HEAD is no ancestor"),
        (history.line("nope", "HEAD"), "--good is 'nope', which names no commit"),
        (history.line("HEAD~1", "--all"), "--bad"),
        (history.line("HEAD~1", "HEAD", "--limit", "0"), "--limit is 0"),
        (history.line("HEAD~1", "HEAD", "--path", "nope"), "--path is 'nope'"),
        (history.line("HEAD~1", "HEAD", "--aiter", str(tmp_path)), "means nothing to path flydsl"),
        (
            history.line("HEAD~1", "HEAD", "--tree", "aiter", "--path", "flydsl"),
            "--path flydsl takes no tree",
        ),
        (history.line("HEAD~1", "HEAD", "--tree", "aiter", "--aiter", "x"), "--aiter x means nothing here"),
        (history.line("HEAD~1", "HEAD", "--tree", "aiter", ask=["--case", "nope"]), "suite is 'nope'"),
        (history.line("HEAD~1", "HEAD", ask=[]), "one of the arguments --case --suite --leg is required"),
        (["bisect", "--repo", str(tmp_path / "plain"), *history.line("a", "b")[3:]], "is no git repository"),
        (["bisect", "--repo", str(tmp_path / "none"), *history.line("a", "b")[3:]], "is no directory"),
    ]:
        assert cli.main(line) == exits.USAGE
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert sentence in said
    assert history.asked == 0
