"""What a server's reply says, and which of the closed list of statuses it earns.

Contract: a reply counts only when it is one whole choice to the one prompt that was sent. The failures to
fear all look like answers: a second choice that shifts every later reply, a reply that was meant for another
question, an aborted generation whose text ends in some number, a cut one that claims to have stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.legs import masked
from harness.legs.shown import short

INVALID = "[invalid]"
"""What lm-eval's filters give where they find nothing."""

STOPPED = ("stop", "eos", "eos_token", "stop_sequence", "stop_token", "end_turn")
"""Finish reasons of a reply that ended by itself or on a stop string."""

CUT = ("length", "max_tokens", "max_length")
"""Finish reasons of a reply that was cut at the token limit."""


class Unusable(Exception):
    """The server answered, but not with a reply to the question; the message is the sentence."""


class ServerGone(Exception):
    """The server ended or answers no more; the message says how."""


@dataclass(frozen=True)
class Reply:
    """What came of one question. ``text`` is None for null content and where ``failed``."""

    question: int
    text: str | None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float | None = None
    retries: int = 0
    http_status: int | None = None
    error: str | None = None
    failed: bool = False


@dataclass
class Seen:
    """Replies so far by their id, to notice one that is handed out twice."""

    _first: dict[str, tuple[int, str]] = field(default_factory=dict)

    def check(self, question: int, identifier: object, text: str | None) -> None:
        """Raises `Unusable` when the same id came with the same text for another question."""
        if not isinstance(identifier, str) or not text:
            return
        other, said = self._first.setdefault(identifier, (question, text))
        if other != question and said == text:
            raise Unusable(f"reply {identifier} came before, to question {other}")


MOST_TOKENS = 10**7
"""Tokens that a reply's usage is believed to count, and that a stored answer may have."""

SHOWN = 200
"""Letters of a reply that are shown where it is none."""

LONGEST = 500
"""Letters that are kept of what went wrong."""


def parsed(content: bytes) -> Any:
    """The JSON of a body. Raises `Unusable` where it is none, or is nested deeper than can be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise Unusable("the reply is nested too deep to be read") from None
    except ValueError as error:
        raise Unusable(f"the reply is no JSON: {error}") from None


def printable(text: str) -> str:
    """``text`` as it can be written: without keys, cut at `LONGEST`, halves of surrogate pairs as numbers."""
    return masked.text(text)[:LONGEST].encode("utf-8", "backslashreplace").decode()


def understand(question: int, body: Any, seen: Seen) -> Reply:
    """The reply in the JSON ``body`` of one request. Raises `Unusable`."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if choices and body.get("error"):
        raise Unusable(f"the reply has an error beside its choices: {short(body['error'], SHOWN)}")
    if not isinstance(choices, list) or not choices:
        raise Unusable(f"the reply has no choices: {short(body, SHOWN)}")
    if len(choices) != 1:
        raise Unusable(f"the reply has {len(choices)} choices where 1 was asked for")
    choice = choices[0]
    text = choice.get("text") if isinstance(choice, dict) else 0
    if text is not None and not isinstance(text, str):
        raise Unusable(f"the reply's choice has no text: {short(choice, SHOWN)}")
    if text is not None and not _is_unicode(text):
        raise Unusable("the reply's text has half of a surrogate pair, so it is not whole")
    reason = choice.get("finish_reason")
    if reason is not None and reason not in STOPPED + CUT:
        raise Unusable(f"finish_reason is {short(reason, SHOWN)}, so the reply is not whole")
    seen.check(question, body.get("id"), text)
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    return Reply(
        question,
        text,
        reason,
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        error="null content" if text is None else None,
    )


def status(reply: Reply, strict: str, flexible: str, max_tokens: int) -> tuple[str, str | None]:
    """(status, what is wrong with it) of a reply whose filters found ``strict`` and ``flexible``."""
    used_up = reply.completion_tokens is not None and reply.completion_tokens >= max_tokens
    if reply.failed:
        return "failed", reply.error
    if reply.finish_reason in CUT:
        return "truncated", reply.error
    if used_up and strict == INVALID:
        said = f"finish_reason is {reply.finish_reason!r} though all {max_tokens} tokens were used"
        return "truncated", reply.error or said
    if not (reply.text or "").strip():
        return "empty", reply.error
    if strict == flexible == INVALID:
        untold = None if reply.finish_reason else "no finish reason tells how it ended"
        return "stopped", reply.error or untold
    return "answered", reply.error


def _is_unicode(text: str) -> bool:
    """Whether ``text`` can be written: JSON can name halves of surrogate pairs, which are no letters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
        else None
    )
