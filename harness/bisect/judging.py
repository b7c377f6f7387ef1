"""Good, bad or skip: what the verdicts of a commit say about it, beside those of the good and the bad end.

The cases watched are those that were right at the good end and are red at the bad one, so that a search
does not slide to a case with another history. A commit where such a case raises an error counts as bad
only if it raises one at the bad end too; otherwise it cannot be told there whether the fault is in.
How this would fail silently: a commit without a verdict taken for a good one; so good takes a verdict of
every case that is watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.exits import CannotRun, InputError
from harness.judge.verdict import Status

Record = Mapping[str, Any]
RED = (Status.DIFFER, Status.ERROR)
RIGHT = (Status.AGREE, Status.MISTRUSTED)


class Word(StrEnum):
    """What git bisect is told of a commit."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Answer:
    """What an evaluation came to: verdict records, or why there are none.

    ``asked``: a case id, or ``suite NAME``. ``seconds``: what it took. ``kept``: read from disk.
    """

    commit: str
    asked: str
    records: tuple[Record, ...] = ()
    failure: str = ""
    seconds: float = 0.0
    kept: bool = False


@dataclass(frozen=True)
class Said:
    """The word on a commit, why in a sentence (empty for good), and the red verdict of a bad one."""

    word: Word
    why: str = ""
    record: Record | None = None


@dataclass(frozen=True)
class Watched:
    """A case that is right at the good end (``good``: its status there) and red at the bad one (``bad``)."""

    case: str
    good: str
    bad: str

    def say(self, answer: Answer) -> Said:
        """The word on a commit by this case alone."""
        record = next((one for one in answer.records if one["case"] == self.case), None)
        if record is None:
            return Said(Word.SKIP, answer.failure or f"there is no verdict of {self.case}")
        status = str(record["status"])
        if status == Status.DIFFER or (status == Status.ERROR and self.bad == Status.ERROR):
            return Said(Word.BAD, headline(record), record)
        if status == Status.AGREE or status == self.good:
            return Said(Word.GOOD)
        return Said(Word.SKIP, headline(record))


def right_at(revision: str, answers: Iterable[Answer], *, every: bool) -> dict[str, str]:
    """Case to status of those that are right at the good end; ``every``: all of them have to be.

    Raises `InputError` when one is red, `CannotRun` when none (or not every one) has a verdict.
    """
    found: dict[str, str] = {}
    without: list[str] = []
    for answer in answers:
        without += [answer.failure] if answer.failure else []
        for record in answer.records:
            if record["status"] in RED:
                raise InputError(f"--good {revision} is not good: {headline(record)}")
            if record["status"] in RIGHT:
                found[str(record["case"])] = str(record["status"])
            else:
                without.append(headline(record))
    if not found or (every and without):
        raise CannotRun(f"--good {revision} cannot be told: {(without or ['no case ran'])[0]}")
    return found


def red_at(revision: str, answers: Sequence[Answer], good: Mapping[str, str]) -> list[Watched]:
    """The cases that are right at the good end and red at the bad one, quickest first.

    Raises `InputError` when none is red, `CannotRun` when none is and some have no verdict.
    """
    records = [record for answer in answers for record in answer.records if record["case"] in good]
    red = [record for record in records if record["status"] in RED]
    if not red:
        without = [answer.failure for answer in answers if answer.failure]
        without += [headline(record) for record in records if record["status"] not in RIGHT]
        if without:
            raise CannotRun(f"--bad {revision} cannot be told: {without[0]}")
        raise InputError(f"--bad {revision} is not bad: no case is red that was right at --good")
    red.sort(key=lambda record: float(record["seconds"]))
    return [Watched(str(one["case"]), good[str(one["case"])], str(one["status"])) for one in red]


def headline(record: Record) -> str:
    """A verdict that is not green in one line."""
    where = ", ".join(f"{key} {value}" for key, value in dict(record.get("where") or {}).items())
    place = f" at {where}" if where else ""
    reason = record["reason"] or "no reason given"
    return f"{record['case']} on {record['path']}: {record['status']}, {reason}{place}"
