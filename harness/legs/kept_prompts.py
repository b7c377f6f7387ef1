"""The prompts of an imported sample, kept beside its answers: lm-eval counted no tokens, a tokenizer can.

Contract: one text a line, each once. A file that cannot be read to its end is refused; half of it would count
half of the prompts, and nobody would know which.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable

from harness.exits import InputError
from harness.legs import journal

PROMPTS = "prompts.jsonl.gz"


def read(where: journal.Place) -> list[str]:
    """The prompts that a sample keeps; none of one that was driven. Raises `InputError` where damaged."""
    file = where.folder / PROMPTS
    if not file.exists():
        return []
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            return [_text(line) for line in stream]
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        raise InputError(f"{file} is damaged, allowed is a gzip file with a JSON text on each line") from None


def _text(line: str) -> str:
    """The text of a line. Raises ValueError for what is none, halves of surrogate pairs among it."""
    found = json.loads(line)
    if not isinstance(found, str):
        raise ValueError("no text")
    found.encode()
    return found


def write(prompts: Iterable[str], where: journal.Place) -> None:
    with gzip.open(where.folder / PROMPTS, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
