"""What the columns of somebody's table hold, by their names: scores, their errors, numbers of questions.

Contract: a column whose name says nothing known holds nothing that is audited. The failure to fear is a
margin, a difference or an error that is held against arithmetic as if it were a score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.legs.claims.reported import FILTERS

QUESTIONS = frozenset(("n", "questions", "items", "samples", "n-samples", "limit"))
"""Names of columns that say over how many questions."""

SCORES = frozenset(
    ("strict", "flexible", "accuracy", "acc", "acc_norm", "score", "scores", "exact_match", "match", "em",
     "gsm8k")
)  # fmt: skip
"""Words of which one is in the name of a column of scores. lm-eval's own is called Value, beside a Metric."""

ERRORS = frozenset(("stderr", "error", "err", "se"))
DERIVED = frozenset(
    ("difference", "diff", "change", "delta", "drop", "gain", "loss", "margin", "p", "interval", "ci",
     "spread", "count", "k", "threshold", "seconds", "time")
)  # fmt: skip
"""Words that make something else of a score's column."""


@dataclass(frozen=True)
class Columns:
    """Places of the columns of ``header``: ``scores``, and the error of a score by the score's place."""

    header: tuple[str, ...]
    scores: tuple[int, ...]
    errors: dict[int, int]

    @property
    def others(self) -> list[int]:
        """Columns that hold neither scores nor their errors nor numbers of questions."""
        known = {*self.scores, *self.errors.values()}
        return [
            place for place, name in enumerate(self.header) if place not in known and name not in QUESTIONS
        ]

    def cell(self, row: Sequence[str], name: str) -> str | None:
        """The cell of ``row`` under the column ``name``, in small letters; None without such a column."""
        return row[self.header.index(name)].lower() if name in self.header else None

    def is_accuracy(self, row: Sequence[str]) -> bool:
        """Whether the metric of ``row``, where it names one, is a share of right answers."""
        metric = self.cell(row, "metric")
        return metric is None or bool(_words(metric) & SCORES)

    def which(self, row: Sequence[str], place: int) -> str:
        """The filter of a score: that of its column, else that of its row, else what the column is called."""
        said = (self.header[place], self.cell(row, "filter") or "")
        return next((which for name in said for which in FILTERS if which in name), self.header[place])


def of(header: Sequence[str]) -> Columns:
    """The columns called ``header``, which are in small letters."""
    scores = tuple(place for place, name in enumerate(header) if _holds_scores(name, header))
    errors: dict[int, int] = {}
    for place, name in enumerate(header):
        if place not in scores and _words(name) & ERRORS:
            owner = _owner(name, place, header, scores)
            if owner is not None:
                errors.setdefault(owner, place)
    return Columns(tuple(header), scores, errors)


def _holds_scores(name: str, header: Sequence[str]) -> bool:
    words = _words(name)
    if name == "value":
        return "metric" in header
    with_error = "±" in name or "+/-" in name
    return bool(words & SCORES) and not words & DERIVED and (with_error or not words & ERRORS)


def _owner(name: str, place: int, header: Sequence[str], scores: Sequence[int]) -> int | None:
    """The score that an error is of: that of the filter it names, else the last one before it."""
    named = _words(name) & set(FILTERS)
    fitting = [one for one in scores if named <= _words(header[one]) and (named or one < place)]
    return fitting[-1] if fitting else None


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9_]+", name))
