"""Answers that lm-eval wrote (``samples_*.jsonl``) as records, both filters of a question in one.

Contract: what lm-eval did not keep (finish reason, token counts, failures) stays unknown; filling it in would
certify what nobody saw. A reply that lm-eval logged as empty is ``empty``, since it scores a failed request
and an empty reply alike. A record that no later command would read is refused here, where its file is known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import journal, stored
from harness.legs.shown import short
from harness.legs.stored_line import MOST, TASK, Line

FILTERS = {"strict-match": "strict", "flexible-extract": "flexible"}

Record = dict[str, Any]


def read(file: Path, task: str) -> tuple[list[Record], list[str]]:
    """(records in the order of their questions, the prompts, each once) of a samples file of ``task``.

    Raises `InputError` for a line that is not lm-eval's.
    """
    merged: dict[int, Record] = {}
    asked: dict[str, None] = {}
    for number, line in _lines(file):
        try:
            _merge(merged, json.loads(line), asked)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise InputError(f"{file} line {number} is no lm-eval sample: {_said(error)}") from None
    if not merged:
        raise InputError(f"{file} holds no answer under {' or '.join(FILTERS)}")
    for question, record in merged.items():
        if None in (record["strict"], record["flexible"]):
            raise InputError(f"{file} has question {question} under one filter only, allowed are both")
        said = stored.wrong(Line, record, {TASK: task})
        if said:
            raise InputError(f"{file} question {question}: {said}")
    return [merged[question] for question in sorted(merged)], list(asked)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line) of every line that is not blank."""
    try:
        with open(file, "rb") as stream:
            yield from ((number, line) for number, line in enumerate(stream, 1) if line.strip())
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None


def _said(error: Exception) -> str:
    """The message of a `ValueError` is a sentence; what else Python raises is told with its kind."""
    text = str(error) if isinstance(error, ValueError) else repr(error)
    return text.encode("utf-8", "backslashreplace").decode()


def _merge(merged: dict[int, Record], sample: Mapping[str, Any], asked: dict[str, None]) -> None:
    """``sample`` into the record of its question. Raises what `read` makes a sentence of."""
    which = FILTERS.get(_text(sample["filter"], "filter"))
    if which is None:
        return
    question = sample["doc_id"]
    if not isinstance(question, int) or isinstance(question, bool) or not 0 <= question <= MOST:
        raise ValueError(f"doc_id is {short(question)}, allowed is a whole number of 0 to {MOST}")
    prompt = _text(sample["arguments"]["gen_args_0"]["arg_0"], "arg_0")
    record = _record(question, sample, prompt, _reply(question, sample))
    asked[prompt] = None
    known = merged.setdefault(question, record)
    for name in ("prompt_hash", "reply", "target"):
        if known[name] != record[name]:
            raise ValueError(f"question {question} comes twice, with another {name.removesuffix('_hash')}")
    if known[which] is not None:
        raise ValueError(f"question {question} comes twice under {sample['filter']}")
    score = sample["exact_match"]
    if not isinstance(score, int | float) or score not in (0, 1):
        raise ValueError(f"question {question} has exact_match {short(score)}, allowed are 0 and 1")
    known[which] = _text(sample["filtered_resps"][0], "filtered_resps")
    known[f"{which}_correct"] = bool(score)


def _reply(question: int, sample: Mapping[str, Any]) -> str:
    """The one reply; lm-eval can ask a question several times, and scores only some of that."""
    replies = [one for several in sample["resps"] for one in several]
    if len(replies) != 1:
        raise ValueError(f"question {question} has {len(replies)} replies, allowed is one")
    if not isinstance(replies[0], str):
        raise ValueError(f"question {question} has no reply, and a failed request is no wrong answer")
    return _text(replies[0], "resps")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {short(value)}, allowed is a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half of a surrogate pair, allowed is a text") from None
    return value


def _record(question: int, sample: Mapping[str, Any], prompt: str, reply: str) -> Record:
    empty: Record = dict.fromkeys(journal.KEYS)
    known = {
        "question": question,
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "prompt_chars": len(prompt),
        "reply": reply,
        "target": _text(str(sample["target"]), "target"),
        "status": "answered" if reply.strip() else "empty",
    }
    return empty | known
