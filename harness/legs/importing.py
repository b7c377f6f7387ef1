"""Past lm-eval runs as legs: ``results_*.json`` and ``samples_*.jsonl`` become samples like any other.

What lm-eval did not keep (finish reason, token counts, failures) stays unknown; filling it in would
certify what nobody saw. A reply that lm-eval logged as empty is ``empty``, since it scores a failed
request and an empty reply alike.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import journal

FILTERS = {"strict-match": "strict", "flexible-extract": "flexible"}
PROMPTS = "prompts.jsonl.gz"
"""The texts that were asked, a JSON string a line: lm-eval kept no token counts, a tokenizer can."""

SETTINGS = ("model", "model_args", "gen_kwargs", "limit", "fewshot_seed", "random_seed", "batch_size")
"""Entries of lm-eval's ``config`` that a leg's identity takes over."""


def import_run(source: Path, leg: str, into: Path, task: str = "gsm8k") -> journal.Place:
    """Import the newest run of ``task`` in ``source`` as a new sample of ``leg``; where it lies.

    Raises `InputError` when ``source`` holds no such run, or a line that is not lm-eval's.
    """
    samples = _newest(
        source, f"samples_{task}_*.jsonl", f"no samples_{task}_*.jsonl (run lm-eval with --log_samples)"
    )
    results = _beside(samples, task)
    asked: dict[str, None] = {}
    records = _records(samples, asked)
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
        expected=_expected(results, task, len(records)),
    )
    partial.folder.rename(where.folder)
    return where


def _next(into: Path, leg: str) -> int:
    return 1 + max((one.sample for one in journal.places(into) if one.leg == leg), default=0)


def identity(results: Mapping[str, Any], task: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What two legs must share to be compared, as far as lm-eval wrote it down."""
    config = results.get("config") or {}
    own = (results.get("configs") or {}).get(task) or {}
    return {
        "task": task,
        "shots": (results.get("n-shot") or {}).get(task),
        "stops": (own.get("generation_kwargs") or {}).get("until"),
        "chat_template": results.get("chat_template_sha"),
        "lm_eval": results.get("lm_eval_version"),
        **{name: config.get(name) for name in SETTINGS},
        "prompts": prompts_hash(records),
    }


def prompts_hash(records: list[dict[str, Any]]) -> str:
    """One digest of all prompts in the order of their questions."""
    digest = hashlib.sha256()
    for record in sorted(records, key=lambda one: int(one["question"])):
        digest.update(f"{record['question']} {record['prompt_hash']}\n".encode())
    return digest.hexdigest()


def _started(results: Mapping[str, Any]) -> str | None:
    """UTC time of lm-eval's ``date`` (seconds since 1970)."""
    date = results.get("date")
    return datetime.fromtimestamp(float(date), UTC).isoformat() if isinstance(date, int | float) else None


def _newest(source: Path, pattern: str, missing: str) -> Path:
    if not source.exists():
        raise InputError(f"{source} does not exist; give a folder of lm-eval results")
    found = sorted(source.rglob(pattern)) if source.is_dir() else [source]
    if not found:
        raise InputError(f"{source} holds {missing}")
    return found[-1]


def _beside(samples: Path, task: str) -> dict[str, Any]:
    """The results file of the same run: same date in its name; empty where there is none."""
    date = samples.stem.removeprefix(f"samples_{task}_")
    file = samples.with_name(f"results_{date}.json")
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is no JSON: {error}") from None
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
    with open(file, encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            try:
                _merge(merged, json.loads(line), asked)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise InputError(f"{file} line {number} is no lm-eval sample: {error!r}") from None
    if not merged:
        raise InputError(f"{file} holds no answer under {' or '.join(FILTERS)}")
    incomplete = [q for q, record in merged.items() if None in (record["strict"], record["flexible"])]
    if incomplete:
        raise InputError(f"{file} has question {incomplete[0]} under one filter only, allowed are both")
    return [merged[question] for question in sorted(merged)]


def _merge(merged: dict[int, dict[str, Any]], sample: Mapping[str, Any], asked: dict[str, None]) -> None:
    which = FILTERS.get(sample["filter"])
    if which is None:
        return
    question, reply = int(sample["doc_id"]), sample["resps"][0][0]
    if not isinstance(reply, str):
        raise ValueError(f"question {question} has no reply, and a failed request is no wrong answer")
    prompt = str(sample["arguments"]["gen_args_0"]["arg_0"])
    asked[prompt] = None
    record = merged.setdefault(question, _record(question, sample, prompt, reply))
    record[which] = str(sample["filtered_resps"][0])
    record[f"{which}_correct"] = bool(float(sample["exact_match"]) == 1.0)


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


def _expected(results: Mapping[str, Any], task: str, count: int) -> int:
    return int(((results.get("n-samples") or {}).get(task) or {}).get("effective") or count)
