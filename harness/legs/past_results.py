"""Files that lm-eval wrote: which samples file is meant, and what the results beside it say of its settings.

Contract: a file is the task's whose name it has and no other's; a task's name may begin another's (gsm8k,
gsm8k_8shot). What was not written down stays unknown, and what cannot be read is refused: settings that are
damaged must not count as settings that nobody kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.exits import InputError
from harness.legs import credentials
from harness.legs.shown import short
from harness.legs.stored_line import MOST

NAMED = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\d.*)\.jsonl")
"""How lm-eval names a samples file."""

SETTINGS = ("model", "model_args", "gen_kwargs", "limit", "fewshot_seed", "random_seed", "batch_size")
"""Entries of lm-eval's ``config`` that a leg's identity takes over."""


def newest(source: Path, task: str) -> Path:
    """The samples file of ``task`` with the latest date in its name; ``source`` itself where it is a file.

    Raises `InputError` where there is none, or where ``source`` has another task's name.
    """
    if source.is_file():
        named = NAMED.fullmatch(source.name)
        if named and named["task"] != task:
            raise InputError(f"--task is {task!r}, allowed is {named['task']}, the task of {source}")
        return source
    if not source.is_dir():
        said = "is no file or folder" if source.exists() else "does not exist"
        raise InputError(f"{source} {said}; give a folder of lm-eval results")
    found = sorted(_of_task(source.rglob("samples_*.jsonl"), task))
    if not found:
        raise InputError(f"{source} holds no samples_{task}_*.jsonl (run lm-eval with --log_samples)")
    return found[-1][1]


def _of_task(files: Iterable[Path], task: str) -> Iterable[tuple[str, Path]]:
    """(date, file) of those that are ``task``'s."""
    for file in files:
        named = NAMED.fullmatch(file.name)
        if named and named["task"] == task and file.is_file():
            yield named["date"], file


def beside(samples: Path, task: str) -> dict[str, Any]:
    """The results file of the same run: same date in its name; empty where there is none.

    Raises `InputError` for one that cannot be read.
    """
    date = samples.stem.removeprefix(f"samples_{task}_")
    file = samples.with_name(f"results_{date}.json")
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{file} has half of a surrogate pair, allowed are whole letters") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is no JSON: {error}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {str(error.strerror).lower()}") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} is no lm-eval results file: it holds no table")
    return found


def identity(results: Mapping[str, Any], task: str) -> dict[str, Any]:
    """What two legs must share to be compared, as far as lm-eval wrote it down; without credentials."""
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
    return dict(credentials.hidden(found))


def started(results: Mapping[str, Any]) -> str | None:
    """UTC time of lm-eval's ``date`` (seconds since 1970)."""
    try:
        return datetime.fromtimestamp(float(results["date"]), UTC).isoformat()
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def expected(results: Mapping[str, Any], task: str, count: int, samples: Path) -> int:
    """Questions that were to be asked; without results beside the samples, those that there are.

    Raises `InputError` where the results say fewer, or what is no number.
    """
    found = _table(results, "n-samples", task).get("effective")
    if found is None:
        return count
    if not isinstance(found, int) or isinstance(found, bool) or not count <= found <= MOST:
        raise InputError(f"{samples} has {count} questions, and the results beside it say {short(found)}")
    return found


def _table(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The table at ``names``; empty where there is none. Raises `InputError` where something else is."""
    for name in names:
        inner = found.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise InputError(f"the results have {name} that is no table")
        found = inner or {}
    return found
