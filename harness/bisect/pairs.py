"""Two repositories at once: the pair of first commits at which a fault appears that needs both.

Contract: a pair (commit of A, commit of B) is taken to stay bad when either of the two gets newer. The
corners say whether one repository alone suffices; if neither does, A is searched beside B's bad end, then B
beside the commit found in A, about log2 steps each. How this would fail silently: a fault that a later commit
of A needs only an earlier one of B for, so that there are several such pairs; so the commit before the one
found in B is asked beside A's bad end, and a red answer is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.bisect.asking import Source, kept
from harness.bisect.cache import Cache, digest, surroundings
from harness.bisect.evaluating import Evaluator
from harness.bisect.judging import Answer, Watched, Word
from harness.bisect.outcome import Bisection, Outcome, Step, escaped, files_of, short
from harness.bisect.repository import Commit, Repository, check_out, restore
from harness.bisect.search import Search
from harness.judge.verdict import Verdict

Pair = tuple[str, str]
SEVERAL = (
    "a newer commit of the first needs only an older one of the second: this is one of several such pairs"
)


@dataclass(frozen=True)
class Axis:
    """One repository, and the search in its worktree."""

    repository: Repository
    search: Search


@dataclass(frozen=True)
class Grid:
    """Asks pairs. ``evaluator``: of the first axis, with the second's worktree among its other trees."""

    axes: tuple[Axis, Axis]
    evaluator: Evaluator
    cache: Cache

    def answer(self, pair: Pair, asked: str) -> Answer:
        """The answer of ``pair``, kept by the commit of the first and the state of the second."""
        self.ready(pair)
        key = digest(surroundings(self.evaluator.subject))
        return kept(Cache(self.cache.file, key), self.evaluator, pair[0], asked)

    def ready(self, pair: Pair) -> Evaluator:
        """Check both out."""
        for axis, commit in zip(self.axes, pair, strict=True):
            restore(axis.search.tree)
            check_out(axis.search.tree, commit)
        return self.evaluator


@dataclass(frozen=True)
class Line(Source):
    """Commits of axis ``number``, each beside the commit of the other that ``beside`` says."""

    grid: Grid
    number: int
    beside: Callable[[str], str]

    def pair(self, name: str) -> Pair:
        return (name, self.beside(name)) if self.number == 0 else (self.beside(name), name)

    def answer(self, name: str, asked: str) -> Answer:
        return self.grid.answer(self.pair(name), asked)

    def describe(self, name: str, *, files: bool = False) -> Commit:
        return self.grid.axes[self.number].repository.describe(name, files=files)

    def ready(self, name: str) -> Evaluator:
        return self.grid.ready(self.pair(name))


@dataclass
class Found:
    """``along``: what the search of each axis came to, None where there was none. ``alone``: axes that
    suffice. ``several``: a newer commit of the first axis needs only an older one of the second."""

    alone: tuple[bool, bool] = (False, False)
    along: list[Outcome | None] = field(default_factory=lambda: [None, None])
    several: bool = False
    steps: list[tuple[Pair, Step]] = field(default_factory=list)

    @property
    def single(self) -> bool:
        """Whether every search that was made has one candidate, and no other pair does it."""
        made = [one for one in self.along if one is not None]
        return all(one.found for one in made) and not self.several


@dataclass
class Pairs:
    """The search; ``tell`` is called with (pair, step) as each pair is answered."""

    grid: Grid
    asked: Sequence[str]
    tell: Callable[[Pair, Step], None]
    found: Found = field(default_factory=Found)
    watched: list[Watched] = field(default_factory=list)

    def run(self, good: str, bad: str) -> Found:
        """``good``, ``bad``: the ends as they were given. Raises `InputError` or `CannotRun`."""
        first, second = (axis.search for axis in self.grid.axes)
        diagonal = self._line(0, {first.good: second.good, first.bad: second.bad}.__getitem__)
        diagonal.watch((good, first.good), (bad, first.bad))
        self.watched = diagonal.outcome.watched
        self.found.alone = self._bad(0, first.bad, second.good), self._bad(1, second.bad, first.good)
        if any(self.found.alone):
            for number, other in ((0, second.good), (1, first.good)):
                if self.found.alone[number]:
                    self._along(number, other)
            return self.found
        self._along(0, second.bad)
        self._along(1, self._candidate(0))
        self.found.several = self._more(self._candidate(1))
        return self.found

    def pair(self) -> Pair:
        """The pair that was found; of an axis that was not searched, the good end."""
        ends = [axis.search.good for axis in self.grid.axes]
        first, second = (
            ends[number] if self.found.along[number] is None else self._candidate(number) for number in (0, 1)
        )
        if all(self.found.alone):  # each is bad beside the other's good end
            second = ends[1]
        return first, second

    def _candidate(self, number: int) -> str:
        """The newest candidate of an axis, which is bad for sure."""
        outcome = self.found.along[number]
        assert outcome is not None
        return outcome.candidates[-1].hash

    def _along(self, number: int, other: str) -> None:
        """Search axis ``number`` beside ``other``."""
        line = self._line(number, lambda name: other)
        line.outcome.watched = self.watched
        search = self.grid.axes[number].search
        line.ask(search.bad, 0)  # its verdict is shown if it is the first bad one
        found = search.run(line.ask)
        line.outcome.candidates = tuple(line.source.describe(commit, files=True) for commit in found)
        self.found.along[number] = line.outcome

    def _bad(self, number: int, name: str, other: str) -> bool:
        line = self._line(number, lambda name: other)
        line.outcome.watched = self.watched
        return line.ask(name, 0).word is Word.BAD

    def _more(self, second: str) -> bool:
        """Whether the commit before ``second`` is bad beside the first axis' bad end."""
        axis = self.grid.axes[1]
        before = axis.repository.parent(second)
        if before in ("", axis.search.good):  # that corner is known
            return False
        return self._bad(1, before, self.grid.axes[0].search.bad)

    def _line(self, number: int, beside: Callable[[str], str]) -> Bisection:
        line = Line(self.grid, number, beside)

        def tell(step: Step) -> None:
            pair = line.pair(step.commit.hash)
            self.found.steps.append((pair, step))
            self.tell(pair, step)

        return Bisection(line, self.asked, tell)


def sentence(found: Found, names: tuple[str, str]) -> str:
    """Whether one repository suffices; ``names``: what the two hold."""
    suffice = [name for name, alone in zip(names, found.alone, strict=True) if alone]
    if len(suffice) == 2:
        return f"{names[0]} and {names[1]} each suffice alone, beside the other's good end"
    if suffice:
        return f"{suffice[0]} alone suffices, beside the other's good end"
    return f"neither suffices alone: it takes both {names[0]} and {names[1]}"


def conclusion(found: Found, names: tuple[str, str]) -> str:
    """The answer as people read it."""
    lines = [sentence(found, names)]
    for name, line in zip(names, found.along, strict=True):
        if line is not None:
            one = len(line.candidates) == 1
            lines.append(
                f"first bad commit of {name}" + ("" if one else f" is one of {len(line.candidates)}")
            )
            for commit in line.candidates:
                lines += [f"  {short(commit)}", *(f"    file {file}" for file in files_of(commit))]
    lines += [SEVERAL] if found.several else []
    return "\n".join([*lines, "", verdict(found)])


def verdict(found: Found) -> str:
    """The red verdict at the pair."""
    last = [line for line in found.along if line is not None][-1]
    return Verdict.from_record({**last.red, "rerun": ""}).text()


def markdown(found: Found, names: tuple[str, str]) -> str:
    """The summary for an issue."""
    lines = ["# First bad pair of commits", "", f"{sentence(found, names).capitalize()}.", ""]
    for name, line in zip(names, found.along, strict=True):
        for commit in line.candidates if line is not None else ():
            lines.append(f"- {name}: `{commit.hash}` {escaped(commit.subject)}")
            lines += [f"  - `{file}`" for file in files_of(commit)]
    lines += ["", f"{SEVERAL.capitalize()}."] if found.several else []
    lines += ["", "```", verdict(found), "```", ""]
    lines += [f"| {names[0]} | {names[1]} | verdict |", "| --- | --- | --- |"]
    for pair, step in found.steps:
        told = step.said.word + (f": {step.said.why}" if step.said.why else "")
        lines.append(f"| `{pair[0][:12]}` | `{pair[1][:12]}` | {escaped(told)} |")
    return "\n".join(lines) + "\n"
