"""Slots that come as int32: a writer refuses them with everything as it was, or reads them as what they are.

aiter's cache kernels say that front ends with 32-bit integers hand them over so. A writer that takes their
address for one of int64 reads two slots as one, and half of them from past the end. How it would fail
silently: an error of another cause taken for a refusal, so a refusal must name the slots and a type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from harness.checks.book import Book
from harness.judge import compare
from harness.judge.several import bits
from harness.judge.verdict import Grade, Verdict
from harness.paths.base import Unsupported

if TYPE_CHECKING:
    from harness.paths.requests.eightbit import WriteTokens8
    from harness.paths.requests.writing import WriteTokens

FILL = "slots32"
FACT = "int32 slots"
SAID = "slots of int32 are neither refused nor read as what they are"

TYPE = re.compile(r"int(32|64)|[dD]?type|Long|Int\b")
"""What a refusal must also speak of: the type that slots have or should have."""


class Refused(Exception):
    """The path refused; the message is its own."""


def asked_of(book: Book, asked: WriteTokens | WriteTokens8) -> object:
    """The path's answer to ``asked`` with its slots as int32. Raises `Refused`, and what the path raises."""
    try:
        got = book.ask(replace(asked, slots=asked.slots.int()))
    except Unsupported:
        raise
    except (ValueError, RuntimeError) as refusal:
        if not ("slot" in str(refusal) and TYPE.search(str(refusal))):
            raise
        raise Refused(str(refusal)) from refusal
    book.facts[FACT] = "taken"
    return got


def refused(
    book: Book, asked: WriteTokens | WriteTokens8, before: Sequence[Tensor], refusal: Refused
) -> Verdict:
    """Everything must be as it was ``before``."""
    book.facts[FACT] = f"refused: {refusal}"
    for name, own, old in zip(asked.written, asked.outputs, before, strict=True):
        wrong = compare.integers(bits(own), bits(old))
        if wrong is not None:
            axes = {f"axis {axis}": index for axis, index in enumerate(wrong.first)}
            said = "written though int32 slots are refused"
            return book.differ(wrong, Grade.EXACT, where={"tensor": name} | axes, shared=said)
        book.total += own.numel()
    return book.agree(Grade.EXACT)
