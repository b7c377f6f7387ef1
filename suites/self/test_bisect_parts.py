"""The parts of a bisection: trees, command lines, words, the cache, exit codes for git bisect run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits, runner
from harness.bisect import judging, repository
from harness.bisect.cache import Cache
from harness.bisect.judging import Answer, Watched, Word
from harness.bisect.subject import HOME, SELF, Subject, kind_of
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths.registry import Trees
from suites.self import bisect_history
from suites.self.bisect_history import CASE


def record(status: str, case: str = CASE) -> dict[str, object]:
    return {"case": case, "path": "aiter", "status": status, "reason": "planted", "seconds": 1.0}


@pytest.mark.parametrize(
    ("status", "good", "bad", "word"),
    [
        ("agree", "agree", "differ", Word.GOOD),
        ("agree", "mistrusted", "differ", Word.GOOD),
        ("mistrusted", "mistrusted", "differ", Word.GOOD),
        ("mistrusted", "agree", "differ", Word.SKIP),
        ("differ", "agree", "differ", Word.BAD),
        ("differ", "agree", "error", Word.BAD),
        ("error", "agree", "error", Word.BAD),
        ("error", "agree", "differ", Word.SKIP),
        ("unsupported", "agree", "differ", Word.SKIP),
    ],
)
def test_the_word_on_a_commit(status: str, good: str, bad: str, word: Word) -> None:
    said = Watched(CASE, good, bad).say(Answer("c", CASE, (record(status),)))
    assert said.word is word
    assert bool(said.why) == (word is not Word.GOOD)


def test_no_verdict_is_no_good_verdict() -> None:
    """The reason is kept; a verdict of another case is none."""
    said = Watched(CASE, "agree", "differ").say(Answer("c", CASE, failure="it fell over"))
    assert (said.word, said.why) == (Word.SKIP, "it fell over")
    assert Watched(CASE, "agree", "differ").say(Answer("c", CASE, (record("agree", "x"),))).word is Word.SKIP


def test_every_case_that_is_named_has_to_be_right_at_the_good_end() -> None:
    """Of a suite, those that are unsupported there are left out."""
    answers = [Answer("c", "suite decode", (record("agree"), record("unsupported", "other")))]
    assert judging.right_at("v1", answers, every=False) == {CASE: "agree"}
    with pytest.raises(exits.CannotRun, match="--good v1 cannot be told: other on aiter: unsupported"):
        judging.right_at("v1", answers, every=True)


def test_the_kind_of_a_tree_is_told_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a clone without a checkout, too; the option is for trees that have no such file."""
    made = bisect_history.new(tmp_path, monkeypatch)
    made.commit("agree")
    repo = repository.Repository.of(made.folder / ".git")
    assert kind_of(repo, made.hashes[-1]) == SELF
    made.git("mv", "harness", "other")
    for folder, kind in (("atom/model_ops", "atom"), ("aiter/ops", "aiter")):
        (made.folder / folder).mkdir(parents=True)
        made.commit("agree", f"{folder}/file.py")
        assert kind_of(repo, made.hashes[-1]) == kind
        made.git("rm", "-q", "-r", folder)
    made.commit("agree")
    with pytest.raises(exits.InputError, match=r"no tree that is known.*give --tree aiter\|atom\|self"):
        kind_of(repo, made.hashes[-1])


def test_the_process_is_given_the_tree_of_the_commit(tmp_path: Path) -> None:
    """aiter and ATOM as options to this harness; of this project the harness itself is the commit's."""
    for folder in ("aiter/aiter/ops", "atom/atom/model_ops"):
        (tmp_path / folder).mkdir(parents=True)
    aiter = Subject.of("aiter", None, Trees())
    words = ["-m", "harness", "check", "x", "--path", "aiter", "--aiter", "/t"]
    assert aiter.command(Path("/t"), ["check", "x"])[1:] == words
    atom = Subject.of("atom", None, Trees(aiter=tmp_path / "aiter"))
    assert atom.options(Path("/t")) == ["--path", "atom", "--atom", "/t", "--aiter", str(tmp_path / "aiter")]
    under = Subject.of("aiter", "atom", Trees(atom=tmp_path / "atom"))
    assert under.options(Path("/t")) == ["--path", "atom", "--aiter", "/t", "--atom", str(tmp_path / "atom")]
    with pytest.raises(exits.InputError, match="--atom is missing"):
        Subject.of("aiter", "atom", Trees())
    own = Subject.of(SELF, None, Trees())
    assert own.options(Path("/t")) == ["--path", "flydsl"]
    for subject, at, home in ((aiter, Path("/empty"), HOME), (own, Path("/t"), Path("/t"))):
        where, environment = subject.surroundings(Path("/t"), Path("/empty"))
        assert where == at
        assert environment["PYTHONPATH"].split(":")[0] == str(home)
        assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_an_answer_belongs_to_its_surroundings(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    Cache(file, "a").put(Answer("c", CASE, (record("agree"),), seconds=2.0), 10)
    kept = Cache(file, "a").get("c", CASE, 99)
    assert kept is not None and kept.kept and kept.records == (record("agree"),)
    assert Cache(file, "b").get("c", CASE, 10) is None
    assert Cache(file, "a").get("d", CASE, 10) is None
    assert Cache(file, "a").get("c", "other", 10) is None


def test_what_was_too_slow_is_asked_again_when_it_is_given_more_time(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    Cache(file, "a").put(Answer("c", CASE, failure="it took longer than 10 s"), 10)
    assert Cache(file, "a").get("c", CASE, 10) is not None
    assert Cache(file, "a").get("c", CASE, 11) is None


def test_two_searches_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        repository.alone(tmp_path),
        pytest.raises(exits.InputError, match="in use by another"),
        repository.alone(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("status", "code"),
    [("agree", 0), ("differ", 1), ("mistrusted", 125), ("unsupported", 125), ("error", 125)],
)
def test_git_bisect_run_is_told_good_bad_or_neither(
    status: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = Verdict(CASE, "decode", "oracle", "torch", Status(status), Grade.EXACT, reason="x", total=9)
    monkeypatch.setattr(runner, "run", lambda *_: verdict)
    assert cli.main(["check", CASE, "--path", "oracle", "--git-exit"]) == code


@pytest.mark.parametrize("line", ["nope", f"{CASE} --path aiter --aiter TMP", f"{CASE} --path nope"])
def test_git_bisect_run_is_never_told_bad_for_want_of_an_answer(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Git takes every code but 0 and 125 for bad; the sentence is printed as ever."""
    words = ["check", *line.replace("TMP", str(tmp_path)).split()]
    assert cli.main(words) == exits.USAGE
    sentence = capsys.readouterr().err
    assert cli.main([*words, "--git-exit"]) == 125
    assert capsys.readouterr().err == sentence


def test_an_interrupt_ends_git_bisect_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes above 127 make git stop."""

    def interrupted(*_: object) -> Verdict:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    assert cli.main(["check", CASE, "--path", "oracle", "--git-exit"]) == exits.INTERRUPTED
