"""The verdict of every commit that has something: one evaluation for each state of the files it depends on.

Contract: commits whose ``paths`` hold the same contents (and that ask for the same version of the package,
where one is followed) have one verdict, and are one row where they follow each other. How this would fail
silently: a file outside ``paths`` that a verdict depends on; so the table says which paths it goes by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.bisect.cache import Cache, digest, surroundings
from harness.bisect.evaluating import SUITE, Evaluator
from harness.bisect.judging import Answer, headline
from harness.bisect.outcome import escaped
from harness.bisect.packages import Package
from harness.bisect.repository import Commit, Repository, check_out, restore
from harness.judge.verdict import Status

ORDER = (Status.ERROR, Status.DIFFER, Status.MISTRUSTED, Status.UNSUPPORTED, Status.AGREE)


@dataclass(frozen=True)
class Stretch:
    """Commits one after the other with the same files: ``first``, ``last``, and how many.

    ``version``: of the package that is followed. ``state``: digest of the files.
    """

    first: Commit
    last: Commit
    count: int
    version: str | None
    state: str


@dataclass(frozen=True)
class Row:
    """A stretch with an answer to each thing that was asked, in that order."""

    stretch: Stretch
    answers: tuple[Answer, ...]


def stretches(
    repository: Repository, commits: Sequence[str], paths: Sequence[str], package: Package | None
) -> Iterator[Stretch]:
    """``commits`` (oldest first) that have any of ``paths``, in stretches."""
    run: list[str] = []
    before: tuple[str, str | None] | None = None
    for commit in [*commits, ""]:
        now = None
        if commit:
            files = repository.files(commit, paths)
            version = package.pinned(repository, commit) if package else None
            now = (digest([files, version]), version) if files else None
        if before is not None and now != before:
            ends = repository.describe(run[0]), repository.describe(run[-1])
            yield Stretch(*ends, len(run), before[1], before[0])
            run = []
        if now is not None:
            run.append(commit)
        before = now


@dataclass
class History:
    """Asks ``asked`` (see `Evaluator.ask`) of stretches; ``tell`` is called with each row as it ends."""

    evaluator: Evaluator
    cache: Cache
    asked: Sequence[str]
    package: Package | None
    tell: Callable[[Row], None]

    def run(self, found: Sequence[Stretch]) -> list[Row]:
        """A row for each stretch; a state that came before is not asked again."""
        rows, known = [], dict[str, tuple[Answer, ...]]()
        for one in found:
            if one.state not in known:
                known[one.state] = tuple(self._answers(one))
            rows.append(Row(one, known[one.state]))
            self.tell(rows[-1])
        return rows

    def _answers(self, one: Stretch) -> Iterator[Answer]:
        evaluator, cache, lacking = self.evaluator, self.cache, ""
        if self.package is not None:
            if one.version is None:
                lacking = f"the commit asks for no exact version of {self.package.name}"
            else:
                lacking = self.package.lacks(one.version)
                evaluator = replace(evaluator, ahead=self.package.folder(one.version))
                around = surroundings(evaluator.subject, {self.package.name: one.version})
                cache = Cache(cache.file, digest(around))
        check_out(evaluator.tree, one.first.hash)
        for asked in self.asked:
            yield self._answer(evaluator, cache, one.first.hash, asked, lacking)
        restore(evaluator.tree)

    def _answer(self, evaluator: Evaluator, cache: Cache, commit: str, asked: str, lacking: str) -> Answer:
        if lacking:
            return Answer(commit, asked, failure=lacking)
        kept = cache.get(commit, asked, evaluator.limit)
        if kept is None:
            kept = evaluator.ask(commit, asked)
            cache.put(kept, evaluator.limit)
        return kept


def word(answer: Answer) -> str:
    """``26 agree``, ``1 differ, 25 agree``, ``no verdict``: the worst first."""
    counts = Counter(str(record["status"]) for record in answer.records)
    told = [f"{counts[status]} {status}" for status in ORDER if counts[status]]
    return ", ".join([*told, *(["cut short"] if told and answer.failure else [])]) or "no verdict"


def why(answer: Answer) -> str:
    """Why a cell is not all ``agree``: its worst verdict, or why there is none; empty where it is."""
    bad = [record for record in answer.records if record["status"] != Status.AGREE]
    bad.sort(key=lambda record: ORDER.index(record["status"]))
    return answer.failure or (headline(bad[0]) if bad else "")


def markdown(rows: Sequence[Row], asked: Sequence[str], about: dict[str, Any]) -> str:
    """The table, with the reasons beneath it, each once."""
    notes: dict[str, int] = {}
    package = about["package"]
    head = ["from", "to", "commits", "subject of the first", *([package] if package else [])]
    head += [one.removeprefix(SUITE) for one in asked]
    lines = ["# Verdicts of a history", "", f"Path {about['path']}; commits that have {_listed(about)}.", ""]
    lines += [f"| {' | '.join(head)} |", "| --- | --- | ---: |" + " --- |" * (len(head) - 3)]
    for row in rows:
        one = row.stretch
        cells = [f"`{end.hash[:10]}` {end.date[:10]}" for end in (one.first, one.last)]
        cells += [str(one.count), one.first.subject, *([one.version or "none"] if package else [])]
        for answer in row.answers:
            reason = why(answer)
            mark = f" ({notes.setdefault(reason, len(notes) + 1)})" if reason else ""
            cells.append(word(answer) + mark)
        lines.append(f"| {' | '.join(map(escaped, cells))} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in notes.items())]
    return "\n".join(lines).rstrip() + "\n"


def _listed(about: dict[str, Any]) -> str:
    return ", ".join(f"`{path}`" for path in about["paths"])


def to_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """JSON-able: a record for each row."""
    return [{**asdict(row.stretch), "answers": [asdict(answer) for answer in row.answers]} for row in rows]
