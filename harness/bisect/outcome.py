"""A whole bisection: both ends first, then the search; what came of it, as lines, Markdown and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.bisect import judging
from harness.bisect.asking import Source
from harness.bisect.ending import Explained
from harness.bisect.ending import markdown as explained_markdown
from harness.bisect.ending import text as explained_text
from harness.bisect.evaluating import SUITE
from harness.bisect.judging import Answer, Said, Watched, Word
from harness.bisect.repository import Commit
from harness.judge.verdict import Verdict

FILES_SHOWN = 20


@dataclass(frozen=True)
class Step:
    """One commit that was asked. ``left``: candidates before it; 0 for the two ends."""

    commit: Commit
    said: Said
    seconds: float
    kept: bool
    left: int = 0


@dataclass
class Outcome:
    """``candidates``: the first bad commit, or several where skips leave them, oldest first.

    ``explained``: what the diagnosis and the reduction of the red case said.
    """

    watched: list[Watched] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    candidates: tuple[Commit, ...] = ()
    explained: list[Explained] = field(default_factory=list)

    @property
    def found(self) -> bool:
        return len(self.candidates) == 1

    @property
    def red(self) -> dict[str, Any]:
        """The red verdict of the first bad commit (of the oldest one that was asked, among several)."""
        last = [step for step in self.steps if step.said.word is Word.BAD][-1]
        return dict(last.said.record or {})

    def said_of(self, commit: Commit) -> str:
        """What a candidate said."""
        step = next((step for step in self.steps if step.commit.hash == commit.hash), None)
        return "not asked" if step is None else f"{step.said.word}: {step.said.why}"

    def to_records(self) -> list[dict[str, Any]]:
        return [
            {**asdict(step), "commit": asdict(step.commit), "said": asdict(step.said)} for step in self.steps
        ]


Asker = Callable[[str, int], Said]
Searcher = Callable[[Asker], tuple[str, ...]]
"""Asks commits until it has candidates, oldest first (`Search.run`, or `linear.search` of a row)."""


@dataclass
class Bisection:
    """Everything a bisection needs; ``tell`` is called with each step as it ends."""

    source: Source
    asked: Sequence[str]
    tell: Callable[[Step], None]
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, good: tuple[str, str], bad: tuple[str, str], search: Searcher) -> Outcome:
        """``good``, ``bad``: (as given, name). Raises `InputError` or `CannotRun`."""
        self.watch(good, bad)
        found = search(self.ask)
        self.outcome.candidates = tuple(self.source.describe(commit, files=True) for commit in found)
        return self.outcome

    def watch(self, good: tuple[str, str], bad: tuple[str, str]) -> None:
        """Ask both ends, and watch what is right at the one and red at the other."""
        suite = any(one.startswith(SUITE) for one in self.asked)
        answers = [self.source.answer(good[1], asked) for asked in self.asked]
        right = judging.right_at(good[0], answers, every=not suite)
        self._note(good[1], Said(Word.GOOD), answers, 0)
        answers = [self.source.answer(bad[1], asked) for asked in self.asked]
        red = judging.red_at(bad[0], answers, right)
        self._note(bad[1], red[0].say(_with(red[0].case, answers)), answers, 0)
        self.outcome.watched = red[:1] if suite else red

    def ask(self, commit: str, left: int) -> Said:
        """The word on a commit: bad with the first red case, good only if every case is right."""
        answers, words = [], []
        for one in self.outcome.watched:
            answers.append(self.source.answer(commit, one.case))
            words.append(one.say(answers[-1]))
            if words[-1].word is Word.BAD:
                break
        rank = [Word.BAD, Word.SKIP, Word.GOOD]
        said = min(words, key=lambda said: rank.index(said.word))
        self._note(commit, said, answers, left)
        return said

    def _note(self, commit: str, said: Said, answers: Sequence[Answer], left: int) -> None:
        seconds = sum(answer.seconds for answer in answers if not answer.kept)
        kept = all(answer.kept for answer in answers)
        self.outcome.steps.append(Step(self.source.describe(commit), said, seconds, kept, left))
        self.tell(self.outcome.steps[-1])


def _with(case: str, answers: Sequence[Answer]) -> Answer:
    return next(one for one in answers if any(record["case"] == case for record in one.records))


def short(commit: Commit) -> str:
    """A commit in one line."""
    return commit.hash if commit.version else f"{commit.short}  {commit.date[:10]}  {commit.subject}"


def conclusion(outcome: Outcome, again: str) -> str:
    """The answer as people read it; ``again``: the lines that run the red case again."""
    lines = []
    if outcome.found:
        lines += named(outcome.candidates[0])
    else:
        what = "version" if outcome.candidates[0].version else "commit"
        lines.append(f"the first bad {what} is one of {len(outcome.candidates)}; skips leave no more to ask:")
        lines += [f"  {short(one)}\n    {outcome.said_of(one)}" for one in outcome.candidates]
    verdict = Verdict.from_record({**outcome.red, "rerun": ""}).text()
    lines += ["", verdict, "", "to see it again", *(f"  {line}" for line in again.splitlines())]
    lines += ["", explained_text(outcome.explained)] if outcome.explained else []
    return "\n".join(lines)


def markdown(outcome: Outcome, again: str, about: dict[str, Any]) -> str:
    """The summary for an issue or a pull request."""
    lines = [f"# First bad {'version' if outcome.candidates[0].version else 'commit'}", ""]
    if outcome.found:
        lines += named_in_markdown(outcome.candidates[0])
    else:
        lines += ["Skips leave several candidates:", ""]
        lines += [
            f"- `{one.short}` {escaped(one.subject)} ({escaped(outcome.said_of(one))})"
            for one in outcome.candidates
        ]
    verdict = Verdict.from_record({**outcome.red, "rerun": ""}).text()
    lines += ["", "```", verdict, "```", "", "```", again, "```", ""]
    lines += [f"Good `{about['good'][:12]}`, bad `{about['bad'][:12]}`, path {about['path']}.", ""]
    lines += ["| commit | date | subject | verdict | seconds |", "| --- | --- | --- | --- | ---: |"]
    for step in outcome.steps:
        told = step.said.word + (f": {step.said.why}" if step.said.why else "")
        cells = [f"`{step.commit.short}`", step.commit.date[:10], step.commit.subject, told]
        cells.append("kept" if step.kept else f"{step.seconds:.1f}")
        lines.append(f"| {' | '.join(map(escaped, cells))} |")
    return "\n".join(lines) + "\n" + explained_markdown(outcome.explained)


def named(commit: Commit) -> list[str]:
    """What the first bad commit is, and its files, a line each."""
    if commit.version:
        return [f"first bad version {commit.hash}"]
    lines = [f"first bad commit {commit.hash}", f"  date    {commit.date}", f"  subject {commit.subject}"]
    return [*lines, *(f"  file    {name}" for name in files_of(commit))]


def named_in_markdown(commit: Commit) -> list[str]:
    """The same for a summary."""
    if commit.version:
        return [f"`{commit.hash}`"]
    head = f"`{commit.hash}` of {commit.date}: {escaped(commit.subject)}"
    return [head, "", *(f"- `{name}`" for name in files_of(commit))]


def files_of(commit: Commit) -> list[str]:
    """The files of a commit, the first of many."""
    more = len(commit.files) - FILES_SHOWN
    return [*commit.files[:FILES_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def escaped(text: str) -> str:
    """For a cell of a Markdown table."""
    return text.replace("|", "\\|")
