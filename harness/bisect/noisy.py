"""The search where an answer is a noisy figure: no commit is called good or bad by a single comparison.

Both ends are measured in turn until they are told apart, then whichever commit's next sample is expected to
tell most, until one commit is the first bad one with the probability that was asked for (see `posterior`).
Both ends are measured once more at the end. How this would fail silently: copies of a sample that count as
many; so a commit whose sample repeats an earlier one is asked no more, and the copy counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.bisect.leg import Measured
from harness.bisect.posterior import Sample, Search, scatter, worse
from harness.exits import CannotRun, InputError

EACH = 2
"""Samples of each end before the two are compared."""
CHANCE = 0.01
"""Samples of single commits that differ more than this chance allows have a cause: a drift, say."""


@dataclass(frozen=True)
class Taken:
    """One sample: of commit number ``commit``, the ``number``-th of it; ``copy``: it repeats another."""

    commit: int
    number: int
    measured: Measured
    copy: bool = False


@dataclass
class Noisy:
    """``commits``: the good end, the candidates in order, the bad end being the last.

    ``measure(commit, number)`` takes a sample; ``most``: samples that may be taken. ``tell`` is called with
    each. ``margin``: share of the questions by which the bad commits are worse at least; ``spread``: see
    `posterior`.
    """

    commits: Sequence[str]
    measure: Callable[[str, int], Measured]
    margin: float
    spread: float
    confidence: float
    most: int
    tell: Callable[[Taken, Search], None]
    taken: list[Taken] = field(default_factory=list)
    search: Search = field(init=False)
    prints: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.search = Search(len(self.commits) - 1, self.margin, self.spread, self.confidence)

    def run(self, names: tuple[str, str]) -> None:
        """Search. ``names``: of the ends, as given. Raises `InputError` where bad is no worse than good,
        `CannotRun` where an end cannot be told or the two cannot be told apart."""
        self._ends(names)
        while not self.search.settled and len(self.taken) < self.most:
            commit = self.search.next()
            if commit is None:
                return
            self._ask(commit)
        for end in (0, self.search.last):
            if end not in self.search.closed:
                self._ask(end)

    @property
    def scatter(self) -> float:
        """How likely samples of single commits differ as much as they do by chance."""
        return scatter(list(self.search.samples.values()))

    def candidates(self) -> tuple[list[int], float]:
        """(candidates, how likely the first bad one is among them): the fewest groups that suffice."""
        at = self.search.probabilities()
        left = sorted(self.search.groups(), key=lambda group: -float(at[group].sum()))
        found: list[int] = []
        for group in left:
            found += group
            if float(at[found].sum()) >= self.confidence:
                break
        return sorted(found), float(at[found].sum())

    def _ends(self, names: tuple[str, str]) -> None:
        ends = {0: f"--good {names[0]}", self.search.last: f"--bad {names[1]}"}
        while len(self.taken) < self.most:
            open_ = [end for end in ends if end not in self.search.closed]
            for end in open_:
                why = self._ask(end)
                if why and end not in self.search.samples:
                    raise CannotRun(f"{ends[end]} cannot be told: {why}")
            good, bad = (self.search.samples[end] for end in ends)
            if open_ and min(len(good), len(bad)) < EACH:
                continue
            chance = worse(good, bad, self.margin)
            if chance >= self.confidence:
                return
            if chance <= 1 - self.confidence:
                raise InputError(
                    f"{ends[self.search.last]} is not worse than --good by {100 * self.margin:g} points: "
                    f"{share(good)} at --good, {share(bad)} at --bad"
                )
            if not open_:
                break
        raise CannotRun(
            f"{ends[self.search.last]} cannot be told from --good: {share(good)} at --good, {share(bad)} at "
            f"--bad in {len(self.taken)} samples; ask more questions, or allow more samples"
        )

    def _ask(self, commit: int) -> str:
        """Take a sample of ``commit``; why there is none."""
        number = 1 + sum(one.commit == commit for one in self.taken)
        measured = self.measure(self.commits[commit], number)
        seen = self.prints.setdefault(commit, set())
        copy = measured.sample is not None and measured.print in seen
        self.taken.append(Taken(commit, number, measured, copy))
        if measured.sample is None or copy:
            self.search.closed.add(commit)
        else:
            seen.add(measured.print)
            self.search.add(commit, measured.sample)
        self.tell(self.taken[-1], self.search)
        return measured.why


def share(samples: Sequence[Sample]) -> str:
    """``1190/1319 (90.2 %)`` of all samples together."""
    right, asked = sum(one.right for one in samples), sum(one.asked for one in samples)
    return f"{right}/{asked} ({100 * right / asked:.1f} %)"
