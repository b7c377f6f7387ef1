"""Word problems in GSM8K's format, small enough for a model of 135M parameters: pick a number told.

A model of that size cannot add, but it can look up; and looking up is what an index is for.

Contract: the same seed gives the same files, and no test question is a training question (it would be
answered by copying from the shots).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Ida", "Jack", "Kate", "Leo")
THINGS = ("apples", "books", "coins", "stamps", "pencils", "marbles", "cards", "shells", "stickers", "plums")
SPLITS = {"train.jsonl": 200, "test.jsonl": 200}


def problem(draw: random.Random) -> dict[str, str]:
    """One row: question, and an answer that ends in ``#### number``."""
    name = draw.choice(NAMES)
    things = draw.sample(THINGS, draw.choice((1, 2, 3)))
    counts = [draw.randint(11, 99) for _ in things]
    asked = draw.randrange(len(things))
    told = " ".join(f"{name} has {count} {thing}." for count, thing in zip(counts, things, strict=True))
    question = f"{told} How many {things[asked]} does {name} have?"
    answer = f"{name} has {counts[asked]} {things[asked]}.\n#### {counts[asked]}"
    return {"question": question, "answer": answer}


def problems(seed: int) -> Iterator[dict[str, str]]:
    """Rows without end, no question twice."""
    draw, seen = random.Random(seed), set[str]()
    while True:
        row = problem(draw)
        if row["question"] not in seen:
            seen.add(row["question"])
            yield row


def write(folder: Path, seed: int = 4) -> None:
    """``train.jsonl`` and ``test.jsonl`` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = problems(seed)
    for name, count in SPLITS.items():
        text = "".join(json.dumps(next(rows)) + "\n" for _ in range(count))
        (folder / name).write_text(text, encoding="utf-8")
