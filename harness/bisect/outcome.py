"""A whole bisection: both ends first, then the search; what came of it, as lines, Markdown and records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.bisect import judging
from harness.bisect.cache import Cache
from harness.bisect.evaluating import SUITE, Evaluator
from harness.bisect.judging import Answer, Said, Watched, Word
from harness.bisect.repository import Commit, Repository, check_out, restore
from harness.bisect.search import Search
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
    """``candidates``: the first bad commit, or several where skips leave them, oldest first."""

    watched: list[Watched] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    candidates: tuple[Commit, ...] = ()

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


@dataclass
class Bisection:
    """Everything a bisection needs; ``tell`` is called with each step as it ends."""

    repository: Repository
    evaluator: Evaluator
    cache: Cache
    asked: Sequence[str]
    tell: Callable[[Step], None]
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, good: tuple[str, str], bad: tuple[str, str], search: Search) -> Outcome:
        """``good``, ``bad``: (as given, full hash). Raises `InputError` or `CannotRun`."""
        suite = any(one.startswith(SUITE) for one in self.asked)
        answers = self._end(good[1])
        right = judging.right_at(good[0], answers, every=not suite)
        self._note(good[1], Said(Word.GOOD), answers, 0)
        answers = self._end(bad[1])
        red = judging.red_at(bad[0], answers, right)
        self._note(bad[1], red[0].say(_with(red[0].case, answers)), answers, 0)
        self.outcome.watched = red[:1] if suite else red
        found = search.run(self._ask)
        self.outcome.candidates = tuple(self.repository.describe(commit, files=True) for commit in found)
        return self.outcome

    def _end(self, commit: str) -> list[Answer]:
        check_out(self.evaluator.tree, commit)
        answers = [self._answer(commit, asked) for asked in self.asked]
        restore(self.evaluator.tree)
        return answers

    def _ask(self, commit: str, left: int) -> Said:
        """The word on a commit: bad with the first red case, good only if every case is right."""
        answers, words = [], []
        for one in self.outcome.watched:
            answers.append(self._answer(commit, one.case))
            words.append(one.say(answers[-1]))
            if words[-1].word is Word.BAD:
                break
        rank = [Word.BAD, Word.SKIP, Word.GOOD]
        said = min(words, key=lambda said: rank.index(said.word))
        self._note(commit, said, answers, left)
        return said

    def _answer(self, commit: str, asked: str) -> Answer:
        kept = self.cache.get(commit, asked, self.evaluator.limit)
        if kept is not None:
            return kept
        answer = self.evaluator.ask(commit, asked)
        self.cache.put(answer, self.evaluator.limit)
        return answer

    def _note(self, commit: str, said: Said, answers: Sequence[Answer], left: int) -> None:
        seconds = sum(answer.seconds for answer in answers if not answer.kept)
        kept = all(answer.kept for answer in answers)
        self.outcome.steps.append(Step(self.repository.describe(commit), said, seconds, kept, left))
        self.tell(self.outcome.steps[-1])


def _with(case: str, answers: Sequence[Answer]) -> Answer:
    return next(one for one in answers if any(record["case"] == case for record in one.records))


def short(commit: Commit) -> str:
    return f"{commit.hash[:12]}  {commit.date[:10]}  {commit.subject}"


def conclusion(outcome: Outcome, again: str) -> str:
    """The answer as people read it; ``again``: the lines that run the red case again."""
    lines = []
    if outcome.found:
        commit = outcome.candidates[0]
        lines += [
            f"first bad commit {commit.hash}",
            f"  date    {commit.date}",
            f"  subject {commit.subject}",
        ]
        lines += [f"  file    {name}" for name in _files(commit)]
    else:
        lines.append(f"the first bad commit is one of {len(outcome.candidates)}; skips leave no more to ask:")
        lines += [f"  {short(one)}\n    {outcome.said_of(one)}" for one in outcome.candidates]
    verdict = Verdict.from_record({**outcome.red, "rerun": ""}).text()
    return "\n".join(
        [*lines, "", verdict, "", "to see it again", *(f"  {line}" for line in again.splitlines())]
    )


def markdown(outcome: Outcome, again: str, about: dict[str, Any]) -> str:
    """The summary for an issue or a pull request."""
    lines = ["# First bad commit", ""]
    if outcome.found:
        commit = outcome.candidates[0]
        lines += [f"`{commit.hash}` of {commit.date}: {_escaped(commit.subject)}", ""]
        lines += [f"- `{name}`" for name in _files(commit)]
    else:
        lines += ["Skipped commits leave several candidates:", ""]
        lines += [
            f"- `{one.hash[:12]}` {_escaped(one.subject)} ({_escaped(outcome.said_of(one))})"
            for one in outcome.candidates
        ]
    verdict = Verdict.from_record({**outcome.red, "rerun": ""}).text()
    lines += ["", "```", verdict, "```", "", "```", again, "```", ""]
    lines += [f"Good `{about['good'][:12]}`, bad `{about['bad'][:12]}`, path {about['path']}.", ""]
    lines += ["| commit | date | subject | verdict | seconds |", "| --- | --- | --- | --- | ---: |"]
    for step in outcome.steps:
        told = step.said.word + (f": {step.said.why}" if step.said.why else "")
        cells = [f"`{step.commit.hash[:12]}`", step.commit.date[:10], step.commit.subject, told]
        cells.append("kept" if step.kept else f"{step.seconds:.1f}")
        lines.append(f"| {' | '.join(map(_escaped, cells))} |")
    return "\n".join(lines) + "\n"


def _files(commit: Commit) -> list[str]:
    more = len(commit.files) - FILES_SHOWN
    return [*commit.files[:FILES_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
