"""Does a server answer the same prompt alike? A few prompts, greedy, several times each, replies hashed.

Contract: asked once a sample, on a healthy server, before its questions and with the campaign's own client,
so that what batching does to a reply shows. The failure to fear is a probe that calls a server deterministic
because nothing was compared: a request that failed, or came back without text, is null among the hashes and
counted as failed.

The questions are asked afterwards with the prompts and settings they always have. Only a prefix cache can
remember: the prompts are those of the first questions, which then find theirs in it. That is so in every
sample of every leg alike, but a server that answers otherwise from its cache answers those questions so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.legs.sections import Certify
from harness.record.store import write_atomically

if TYPE_CHECKING:
    from harness.legs.evaluation.replies import Reply
    from harness.legs.evaluation.run import Sample

PROBE = "probe.json"


def probe(sample: Sample, certify: Certify, folder: Path) -> None:
    """Ask what ``certify`` wants of ``sample``'s server and write ``folder/probe.json``, once.

    A whole file of the same prompts, repeats and tokens stands. Raises `ServerGone` when the server is,
    `CannotRun` when it refuses every request.
    """
    prompts = [question.prompt for question in sample.prepared.questions[: certify.probe]]
    shape = {"prompts": len(prompts), "repeats": certify.probe_repeats, "tokens": certify.probe_tokens}
    if not prompts or whole(folder / PROBE, shape):
        return
    content = {**shape, **summed(asked(sample, prompts, certify), len(prompts))}
    write_atomically(folder / PROBE, json.dumps(content, indent=1) + "\n")


def whole(file: Path, shape: dict[str, int]) -> bool:
    """Whether ``file`` is a probe of this shape, every request accounted for."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        replies = [hashes if isinstance(hashes, list) else [] for hashes in found["replies"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    same = all(found.get(name) == value for name, value in shape.items())
    had = all(one is None or isinstance(one, str) for hashes in replies for one in hashes)
    return same and had and list(map(len, replies)) == [shape["repeats"]] * shape["prompts"]


def asked(sample: Sample, prompts: Sequence[str], certify: Certify) -> list[Reply]:
    """Replies in the order in which they came; ``question`` is the prompt's place.

    Repeats of a prompt lie apart, so that they meet different neighbours in a batch. Without stop strings
    a reply goes on to its last token, and a difference has the longest time to show.
    """
    from harness.legs.evaluation.client import KeepingCompletions

    greedy = {"temperature": 0.0, "max_gen_toks": certify.probe_tokens, "until": []}
    rounds = [(place, prompt, greedy) for place, prompt in enumerate(prompts)] * certify.probe_repeats
    replies: list[Reply] = []
    model = KeepingCompletions(sample.server, sample.prepared.settings, sample.client, replies.append, {})
    asyncio.run(model.ask_all(rounds))
    return replies


def summed(replies: Sequence[Reply], prompts: int) -> dict[str, Any]:
    """``replies``: SHA-256 of each text by prompt, null without one; ``distinct`` and ``failed``."""
    hashes: list[list[str | None]] = [[] for _ in range(prompts)]
    for reply in replies:
        had = None if reply.failed or not reply.text else hashlib.sha256(reply.text.encode()).hexdigest()
        hashes[reply.question].append(had)
    return {
        "replies": hashes,
        "distinct": [len(set(one) - {None}) for one in hashes],
        "failed": sum(one.count(None) for one in hashes),
    }
