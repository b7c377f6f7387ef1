"""Two repositories at once: a fault that needs a commit of each, or that one brings by itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import cli, exits
from suites.self import bisect_history
from suites.self.bisect_history import CASE, History


@dataclass
class Two:
    """``harness``: a tiny harness (see `bisect_history`) that reads the ``state`` of an aiter tree, too.

    A ``state`` is a number here; the case differs where ``rule`` (of both numbers, ``a`` and ``b``) says so.
    """

    harness: History
    aiter: History
    folder: Path

    def bisect(self, *more: str) -> int:
        first, second = (len(one.hashes) - 1 for one in (self.harness, self.aiter))
        line = self.harness.line(f"HEAD~{first}", "HEAD", "--path", "aiter")
        beside = [
            "--with-repo",
            str(self.aiter.folder),
            "--with-good",
            f"HEAD~{second}",
            "--with-bad",
            "HEAD",
        ]
        return cli.main([*line, *beside, *more])


RULED = """
b = int((pathlib.Path(words[words.index("--aiter") + 1]) / "state").read_text().splitlines()[-1])
a = int(pathlib.Path("state").read_text().splitlines()[-1])
lines = [[words[1], "differ" if (RULE) else "agree", "1"]]
"""


def two(folder: Path, monkeypatch: pytest.MonkeyPatch, rule: str, sizes: tuple[int, int]) -> Two:
    """Histories of ``sizes`` commits, numbered from 0."""
    made = bisect_history.new(folder, monkeypatch)
    main = made.folder / "harness" / "__main__.py"
    read = next(line for line in main.read_text(encoding="utf-8").splitlines() if line.startswith("lines ="))
    text = main.read_text(encoding="utf-8").replace(read, RULED.replace("RULE", rule))
    main.write_text(text, encoding="utf-8")
    (folder / "aiter/aiter/ops").mkdir(parents=True)
    (folder / "aiter/aiter/ops/module.py").touch()
    other = History(folder / "aiter", [])
    other.git("init", "-q", "-b", "main")
    for history, size in zip((made, other), sizes, strict=True):
        for number in range(size):
            (history.folder / "state").write_text(f"{number}\n", encoding="utf-8")
            history.git("add", "--all")
            history.git("commit", "-q", "-m", f"number {number}")
            history.hashes.append(history.git("rev-parse", "HEAD"))
    return Two(made, other, folder)


def test_a_fault_of_both_is_named_with_its_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over 9 by 17 commits, with corners and ends: at most 3 + 4 steps and 6 more."""
    both = two(tmp_path, monkeypatch, "a >= 3 and b >= 11", (9, 17))
    files = ["--json", str(tmp_path / "f.json"), "--markdown", str(tmp_path / "f.md")]
    assert both.bisect(*files) == exits.AGREE
    said = capsys.readouterr().out
    assert "neither suffices alone: it takes both self and aiter" in said
    assert f"first bad commit of self\n  {both.harness.hashes[3][:12]}" in said
    assert f"first bad commit of aiter\n  {both.aiter.hashes[11][:12]}" in said
    assert "file M state" in said
    assert f"reduce\n  smallest  {CASE}" in said
    assert both.harness.asked <= 3 + 4 + 6
    kept = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["provenance"]
    assert kept["candidates"] == [[both.harness.hashes[3]], [both.aiter.hashes[11]]]
    assert f"- aiter: `{both.aiter.hashes[11]}`" in (tmp_path / "f.md").read_text(encoding="utf-8")
    before = both.harness.asked
    assert both.bisect() == exits.AGREE
    assert both.harness.asked == before
    assert all(one.git("worktree", "list").count("\n") == 0 for one in (both.harness, both.aiter))


@pytest.mark.parametrize(
    ("rule", "sentence", "firsts"),
    [
        ("a >= 2", "self alone suffices", (2, None)),
        ("b >= 3", "aiter alone suffices", (None, 3)),
        ("a >= 2 or b >= 3", "self and aiter each suffice alone", (2, 3)),
    ],
)
def test_a_repository_that_suffices_alone_is_told(
    rule: str,
    sentence: str,
    firsts: tuple[int | None, int | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And the other is not searched."""
    both = two(tmp_path, monkeypatch, rule, (5, 5))
    assert both.bisect() == exits.AGREE
    said = capsys.readouterr().out.split("\n\n", 1)[1]
    assert sentence in said
    for history, first in zip((both.harness, both.aiter), firsts, strict=True):
        named = [number for number, one in enumerate(history.hashes) if one[:12] in said]
        assert named == ([] if first is None else [first])


def test_a_boundary_of_steps_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From commit 4 on it needs only commit 2 of the other: the pair that is named is one of two."""
    rule = "(a >= 2 and b >= 4) or (a >= 4 and b >= 2)"
    both = two(tmp_path, monkeypatch, rule, (6, 6))
    assert both.bisect() == exits.UNPROVEN
    assert "this is one of several such pairs" in capsys.readouterr().out


def test_bad_input_of_pairs_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 before anything is evaluated."""
    both = two(tmp_path, monkeypatch, "True", (2, 2))
    one, other = both.harness, both.aiter
    beside = ["--with-repo", str(other.folder), "--with-good", "HEAD~1", "--with-bad", "HEAD"]
    for line, sentence in [
        (one.line("HEAD~1", "HEAD", *beside[:4]), "--with-bad is missing"),
        (one.line("HEAD~1", "HEAD", *beside[:2], *beside[4:], "--with-good", "x"), "--with-good is 'x'"),
        (
            one.line("HEAD~1", "HEAD", *beside[:2], "--with-good", "HEAD", "--with-bad", "HEAD~1"),
            "--with-good HEAD is no ancestor of --with-bad HEAD~1",
        ),
        (other.line("HEAD~1", "HEAD", *beside), "--with-repo holds aiter and --repo aiter"),
        (one.line("HEAD~1", "HEAD", *beside, "--aiter", str(tmp_path)), "--aiter means nothing here"),
    ]:
        assert cli.main(line) == exits.USAGE
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert sentence in said
    assert one.asked == 0
