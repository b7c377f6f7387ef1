"""Versions in a row: the first bad one, in few questions, around those that cannot be told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.bisect.judging import Said, Word
from harness.bisect.linear import search


def asker(words: str, asked: list[str]) -> Callable[[str, int], Said]:
    """Answers ``g``, ``b`` or ``s`` by place in ``words``."""
    known = {"g": Word.GOOD, "b": Word.BAD, "s": Word.SKIP}

    def ask(one: str, left: int) -> Said:
        asked.append(one)
        return Said(known[words[int(one)]])

    return ask


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("gb", "1"),
        ("ggggbbbb", "4"),
        ("gbbbbbbb", "1"),
        ("gggggggb", "7"),
        ("ggssbb", "234"),
        ("gsssssb", "123456"),
        ("ggsggsbb", "56"),
    ],
)
def test_the_first_bad_one_is_found(words: str, found: str) -> None:
    """Candidates are those that skips leave, and neither end is asked."""
    asked: list[str] = []
    row = [str(place) for place in range(len(words))]
    assert search(row, asker(words, asked)) == tuple(found)
    assert len(asked) == len(set(asked))
    assert not {row[0], row[-1]} & set(asked)


def test_questions_are_few() -> None:
    """Six for 64 candidates."""
    for first in range(1, 65):
        asked: list[str] = []
        row = [str(place) for place in range(65)]
        assert search(row, asker("g" * first + "b" * (65 - first), asked)) == (str(first),)
        assert len(asked) <= 6
