"""Questions on which the filters disagree, with the replies: what an extraction rule costs or gives.

Contract: what is left out is counted. A page that quietly showed the first replies only would make a rule
that fails everywhere look like a handful of odd answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

SHOWN = 30
"""Questions of a leg whose replies are shown; of the others the numbers are."""

LETTERS = 6000
"""Letters of a reply or target that are shown."""


@dataclass(frozen=True)
class Question:
    """A question with ``replies``, one for each sample in which the filters disagree."""

    number: int
    target: str
    replies: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Disagreement:
    """Of one leg: ``shown`` with replies, ``others`` by number. ``saved``: answers that only the flexible
    filter calls right, ``only_strict`` those that only the strict one does.
    """

    leg: str
    shown: tuple[Question, ...]
    others: tuple[int, ...]
    saved: int
    only_strict: int

    @property
    def questions(self) -> int:
        return len(self.shown) + len(self.others)


def of_legs(table: pd.DataFrame) -> list[Disagreement]:
    """Every leg with a question on which the filters disagree."""
    judged = table[table["strict_correct"].notna() & table["flexible_correct"].notna()]
    differ = judged[judged["strict_correct"].astype(bool) != judged["flexible_correct"].astype(bool)]
    return [_of_leg(str(leg), rows) for leg, rows in differ.groupby("leg", sort=False)]


def _of_leg(leg: str, rows: pd.DataFrame) -> Disagreement:
    flexible = int(rows["flexible_correct"].astype(bool).sum())
    numbers = sorted(int(number) for number in rows["question"].unique())
    shown = tuple(_question(number, rows[rows["question"] == number]) for number in numbers[:SHOWN])
    return Disagreement(leg, shown, tuple(numbers[SHOWN:]), flexible, len(rows) - flexible)


def _question(number: int, rows: pd.DataFrame) -> Question:
    replies = tuple(
        {
            "sample": int(one["sample"]),
            "right": "flexible" if one["flexible_correct"] else "strict",
            "strict": cut(one["strict"]),
            "flexible": cut(one["flexible"]),
            "reply": cut(one["reply"]),
        }
        for one in rows.sort_values("sample").to_dict("records")
    )
    return Question(number, cut(rows["target"].iloc[0]), replies)


def cut(text: Any) -> str:
    """A text as it is shown: what is beyond `LETTERS` is counted."""
    if text is None:
        return "none"
    said = str(text)
    return said if len(said) <= LETTERS else f"{said[:LETTERS]} ... ({len(said) - LETTERS} letters more)"
