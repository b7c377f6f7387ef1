"""Past lm-eval runs as legs: ``results_*.json`` and ``samples_*.jsonl`` become samples like any other.

What lm-eval did not keep (finish reason, token counts, failures) stays unknown; filling it in would
certify what nobody saw. A reply that lm-eval logged as empty is ``empty``, since it scores a failed
request and an empty reply alike.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import credentials, journal
from harness.record import store

FILTERS = {"strict-match": "strict", "flexible-extract": "flexible"}
PROMPTS = "prompts.jsonl.gz"
"""The texts that were asked, a JSON string a line: lm-eval kept no token counts, a tokenizer can."""

SETTINGS = ("model", "model_args", "gen_kwargs", "limit", "fewshot_seed", "random_seed", "batch_size")
"""Entries of lm-eval's ``config`` that a leg's identity takes over."""


def import_run(source: Path, leg: str, into: Path, task: str = "gsm8k") -> journal.Place:
    """Import the newest run of ``task`` in ``source`` as a new sample of ``leg``; where it lies.

    Raises `InputError` when ``source`` holds no such run, or a line that is not lm-eval's, and for a name
    of ``leg`` that can be no folder's.
    """
    if not re.fullmatch(r"\w[\w.+-]*", task):
        raise InputError(f"--task is {task!r}, allowed is the name of an lm-eval task")
    journal.place(into, leg, 1)
    samples = _newest(source, task)
    results = _beside(samples, task)
    asked: dict[str, None] = {}
    records = _records(samples, asked)
    expected = _expected(results, task, len(records), samples)
    store.check_directory("--into", into)
    where = journal.place(into, leg, _next(into, leg))
    digest = hashlib.sha256(samples.read_bytes()).hexdigest()
    for one in journal.places(into):
        if one.manifest().get("imported_sha256") == digest:
            raise InputError(
                f"{samples} is sample {one.sample} of leg {one.leg} already; it would count twice"
            )
    partial = journal.Place(where.folder.with_name(f".{where.sample}.partial"), leg, where.sample)
    shutil.rmtree(partial.folder, ignore_errors=True)
    with journal.Writer(partial) as writer:
        for record in records:
            writer.add(record)
    _keep(asked, partial)
    partial.update(
        status="finished",
        identity=identity(results, task, records),
        imported=samples.name,
        imported_sha256=digest,
        started=_started(results),
        expected=expected,
    )
    partial.folder.rename(where.folder)
    return where


def _next(into: Path, leg: str) -> int:
    return 1 + max((one.sample for one in journal.places(into) if one.leg == leg), default=0)


def identity(results: Mapping[str, Any], task: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What two legs must share to be compared, as far as lm-eval wrote it down."""
    config = _table(results, "config")
    own = _table(results, "configs", task)
    found = {
        "task": task,
        "shots": _table(results, "n-shot").get(task),
        "stops": _table(own, "generation_kwargs").get("until"),
        "chat_template": results.get("chat_template_sha"),
        "lm_eval": results.get("lm_eval_version"),
        **{name: config.get(name) for name in SETTINGS},
    }
    return {**dict(credentials.hidden(found)), "prompts": prompts_hash(records)}


def _table(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The table at ``names``; empty where there is none. Raises `InputError` where something else is."""
    for name in names:
        inner = found.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise InputError(f"the results have {name} that is no table")
        found = inner or {}
    return found


def prompts_hash(records: list[dict[str, Any]]) -> str:
    """One digest of all prompts in the order of their questions."""
    digest = hashlib.sha256()
    for record in sorted(records, key=lambda one: int(one["question"])):
        digest.update(f"{record['question']} {record['prompt_hash']}\n".encode())
    return digest.hexdigest()


def _started(results: Mapping[str, Any]) -> str | None:
    """UTC time of lm-eval's ``date`` (seconds since 1970)."""
    try:
        return datetime.fromtimestamp(float(results["date"]), UTC).isoformat()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _newest(source: Path, task: str) -> Path:
    """The samples file of ``task`` with the latest date in its name; ``source`` itself where it is a file."""
    if source.is_file():
        return source
    if not source.is_dir():
        said = "is no file or folder" if source.exists() else "does not exist"
        raise InputError(f"{source} {said}; give a folder of lm-eval results")
    named = f"samples_{task}_[0-9]*.jsonl"  # a date: samples_gsm8k_cot_* are another task's
    found = sorted((file for file in source.rglob(named) if file.is_file()), key=lambda file: file.name)
    if not found:
        raise InputError(f"{source} holds no samples_{task}_*.jsonl (run lm-eval with --log_samples)")
    return found[-1]


def _beside(samples: Path, task: str) -> dict[str, Any]:
    """The results file of the same run: same date in its name; empty where there is none."""
    date = samples.stem.removeprefix(f"samples_{task}_")
    file = samples.with_name(f"results_{date}.json")
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is no JSON: {error}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} is no lm-eval results file: it holds no table")
    return found


def prompts(where: journal.Place) -> Iterator[str]:
    """The prompts that an imported sample keeps; none of any other."""
    file = where.folder / PROMPTS
    if file.is_file():
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            yield from map(json.loads, stream)


def _keep(asked: Iterable[str], where: journal.Place) -> None:
    with gzip.open(where.folder / PROMPTS, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(prompt) + "\n" for prompt in asked)


def _records(file: Path, asked: dict[str, None]) -> list[dict[str, Any]]:
    """The answers of a samples file, both filters of a question in one record; prompts go to ``asked``."""
    merged: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(_lines(file), 1):
        try:
            _merge(merged, json.loads(line), asked)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise InputError(f"{file} line {number} is no lm-eval sample: {_said(error)}") from None
    if not merged:
        raise InputError(f"{file} holds no answer under {' or '.join(FILTERS)}")
    incomplete = [q for q, record in merged.items() if None in (record["strict"], record["flexible"])]
    if incomplete:
        raise InputError(f"{file} has question {incomplete[0]} under one filter only, allowed are both")
    return [merged[question] for question in sorted(merged)]


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with open(file, "rb") as stream:
            yield from stream
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None


def _said(error: Exception) -> str:
    """The message of a `ValueError` is a sentence; what else Python raises is told with its kind."""
    text = str(error) if isinstance(error, ValueError) else repr(error)
    return text.encode("utf-8", "backslashreplace").decode()


def _merge(merged: dict[int, dict[str, Any]], sample: Mapping[str, Any], asked: dict[str, None]) -> None:
    """``sample`` into the record of its question. Raises what `_records` makes a sentence of."""
    which = FILTERS.get(_text(sample["filter"], "filter"))
    if which is None:
        return
    question = sample["doc_id"]
    if not isinstance(question, int) or isinstance(question, bool) or question < 0:
        raise ValueError(f"doc_id is {question!r}, allowed is a whole number of 0 or more")
    record = _record(question, sample, _prompt(sample), _reply(question, sample))
    asked[_prompt(sample)] = None
    known = merged.setdefault(question, record)
    for name in ("prompt_hash", "reply", "target"):
        if known[name] != record[name]:
            raise ValueError(f"question {question} comes twice, with another {name.removesuffix('_hash')}")
    if known[which] is not None:
        raise ValueError(f"question {question} comes twice under {sample['filter']}")
    score = sample["exact_match"]
    if not isinstance(score, int | float) or score not in (0, 1):
        raise ValueError(f"question {question} has exact_match {score!r}, allowed are 0 and 1")
    known[which] = _text(sample["filtered_resps"][0], "filtered_resps")
    known[f"{which}_correct"] = bool(score)


def _prompt(sample: Mapping[str, Any]) -> str:
    return _text(sample["arguments"]["gen_args_0"]["arg_0"], "arg_0")


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
        raise ValueError(f"{name} is {value!r}, allowed is a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half of a surrogate pair, allowed is a text") from None
    return value


def _record(question: int, sample: Mapping[str, Any], prompt: str, reply: str) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(journal.KEYS)
    known = {
        "question": question,
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "prompt_chars": len(prompt),
        "reply": reply,
        "target": str(sample["target"]),
        "status": "answered" if reply.strip() else "empty",
    }
    return empty | known


def _expected(results: Mapping[str, Any], task: str, count: int, samples: Path) -> int:
    """Questions that were to be asked; without results beside the samples, those that there are."""
    found = _table(results, "n-samples", task).get("effective")
    if found is None:
        return count
    if not isinstance(found, int) or isinstance(found, bool) or found < count:
        raise InputError(f"{samples} has {count} questions, and the results beside it say {found!r}")
    return found
