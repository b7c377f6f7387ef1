"""Past lm-eval runs as legs: ``results_*.json`` and ``samples_*.jsonl`` become samples like any other.

Contract: a run is taken in whole, once, and as a sample that every later command reads, or not at all: the
folder is then as it was. The failure to fear is a run that counts twice, under one leg or two.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import journal, kept_prompts, past_results, past_samples, stored
from harness.legs.shown import short
from harness.record import store


def import_run(source: Path, leg: str, into: Path, task: str = "gsm8k") -> journal.Place:
    """Import the newest run of ``task`` in ``source`` as a new sample of ``leg``; where it lies.

    Raises `InputError` when ``source`` holds no such run, or a line that is not lm-eval's, and for a name
    of ``leg`` that can be no folder's.
    """
    if not re.fullmatch(r"\w[\w.+-]*", task):
        raise InputError(f"--task is {short(task)}, allowed is the name of an lm-eval task")
    journal.place(into, leg, 1)
    samples = past_results.newest(source, task)
    results = past_results.beside(samples, task)
    records, prompts = past_samples.read(samples, task)
    manifest = {
        "status": "finished",
        "identity": {**past_results.identity(results, task), "prompts": prompts_hash(records)},
        "imported": samples.name,
        "imported_sha256": hashlib.sha256(samples.read_bytes()).hexdigest(),
        "started": past_results.started(results),
        "expected": past_results.expected(results, task, len(records), samples),
    }
    store.check_directory("--into", into)
    for one in journal.places(into):
        if one.manifest().get("imported_sha256") == manifest["imported_sha256"]:
            raise InputError(
                f"{samples} is sample {one.sample} of leg {one.leg} already; it would count twice"
            )
    where = journal.place(into, leg, _next(into, leg))
    partial = journal.Place(where.folder.with_name(f".{where.sample}.partial"), leg, where.sample)
    shutil.rmtree(partial.folder, ignore_errors=True)
    try:
        _fill(partial, records, prompts, manifest)
        partial.folder.rename(where.folder)
    except BaseException:
        shutil.rmtree(partial.folder, ignore_errors=True)
        raise
    return where


def _fill(
    where: journal.Place, records: list[dict[str, Any]], prompts: list[str], manifest: dict[str, Any]
) -> None:
    """Write the sample, and read it as every command does."""
    with journal.Writer(where) as writer:
        for record in records:
            writer.add(record)
    kept_prompts.write(prompts, where)
    where.update(**manifest)
    stored.check_sample(where.folder)


def _next(into: Path, leg: str) -> int:
    return 1 + max((one.sample for one in journal.places(into) if one.leg == leg), default=0)


def prompts_hash(records: list[dict[str, Any]]) -> str:
    """One digest of all prompts in the order of their questions."""
    digest = hashlib.sha256()
    for record in sorted(records, key=lambda one: int(one["question"])):
        digest.update(f"{record['question']} {record['prompt_hash']}\n".encode())
    return digest.hexdigest()
