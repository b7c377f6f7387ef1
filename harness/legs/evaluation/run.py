"""One sample measured: lm-eval evaluates, every reply is on disk as it comes, and both must agree.

Contract: `measure` returns when every question has a record. Questions with a record are not asked again.
At the end lm-eval's own extractions and scores of all replies are held against the records, since a record
that scores otherwise than lm-eval would make this another benchmark of the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.exits import CannotRun
from harness.legs import journal
from harness.legs import sections as asked
from harness.legs.evaluation.client import KeepingCompletions, Server
from harness.legs.evaluation.library import evaluate
from harness.legs.evaluation.replies import Reply, ServerGone, status
from harness.legs.evaluation.task import Prepared

__all__ = ["Server", "ServerGone", "measure", "record"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """What a sample is made of."""

    prepared: Prepared
    client: asked.Client
    server: Server
    attempt: int = 1


def measure(
    sample: Sample,
    where: journal.Place,
    kept: Iterable[Record],
    told: Callable[[Record], None] = lambda record: None,
) -> None:
    """Ask what is not in ``kept``; each record is in ``where`` before ``told`` is called with it.

    Raises `ServerGone` when the server is, `CannotRun` when it refuses or lm-eval scores otherwise.
    """
    records = {int(one["question"]): one for one in kept}
    prepared = sample.prepared
    with journal.Writer(where) as writer:

        def keep(reply: Reply) -> None:
            made = record(sample, reply)
            writer.add(made)
            records[reply.question] = made
            told(made)

        texts = {question: str(one["reply"] or "") for question, one in records.items()}
        model = KeepingCompletions(sample.server, prepared.settings, sample.client, keep, texts)
        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        found = evaluate(
            model,
            {"tasks": {prepared.name: prepared.task}, "groups": {}},
            limit=prepared.settings.limit,
            bootstrap_iters=0,
        )
    hold(found["samples"][prepared.name], records, prepared.settings)


def record(sample: Sample, reply: Reply) -> Record:
    """The line of one question."""
    prepared = sample.prepared
    question = prepared.of[reply.question]
    scored = prepared.score(reply.question, reply.text or "")
    word, wrong = status(reply, scored.strict, scored.flexible, prepared.settings.max_tokens)
    judged = not reply.failed
    return {
        "question": reply.question,
        "prompt_hash": question.prompt_hash,
        "prompt_chars": len(question.prompt),
        "reply": reply.text,
        "strict": scored.strict if judged else None,
        "flexible": scored.flexible if judged else None,
        "strict_correct": scored.strict_correct if judged else None,
        "flexible_correct": scored.flexible_correct if judged else None,
        "target": question.target,
        "status": word,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "latency": reply.latency,
        "retries": reply.retries,
        "http_status": reply.http_status,
        "error": wrong,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "attempt": sample.attempt,
    }


def hold(samples: Iterable[Mapping[str, Any]], records: Mapping[int, Record], settings: asked.Task) -> None:
    """Raises `CannotRun` where lm-eval extracts or scores a reply otherwise than its record does."""
    fields = {settings.strict: "strict", settings.flexible: "flexible"}
    for sample in samples:
        which, one = fields.get(sample["filter"]), records[int(sample["doc_id"])]
        if which is None or one["status"] == "failed":
            continue
        theirs = str(sample["filtered_resps"][0]), bool(float(sample["exact_match"]) == 1.0)
        ours = one[which], one[f"{which}_correct"]
        if theirs != ours:
            raise CannotRun(
                f"lm-eval scores question {one['question']} as {theirs} under {sample['filter']}, "
                f"the record says {ours}; was it made by another version?"
            )
