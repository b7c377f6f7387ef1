"""What a reply says decides what it counts as, and nothing else of it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.command import legs_run
from harness.legs import journal, stored
from harness.legs.evaluation import replies
from suites.self.legs_world import asked, driven, records
from suites.self.stub_server import Script, Stub

THIRD = "What is 102 plus 103?"


@pytest.mark.parametrize(
    ("behaviour", "status", "error", "retries", "right"),
    [
        ({"status": 500, "times": 2}, "answered", None, 2, True),
        ({"status": 500}, "failed", "HTTP 500: scripted failure", 2, None),
        ({"status": 400}, "failed", "HTTP 400: scripted failure", 0, None),
        ({"drop": True, "times": 1}, "answered", None, 1, True),
        ({"drop": True}, "failed", "ServerDisconnected", 2, None),
        ({"raw": "no json"}, "failed", "the reply is no JSON", 2, None),
        ({"raw": "{}"}, "failed", "the reply has no choices", 2, None),
        ({"text": None}, "empty", "null content", 0, False),
        ({"text": ""}, "empty", None, 0, False),
        ({"text": " 205 and", "finish_reason": "length"}, "truncated", None, 0, True),
        ({"text": " well " * 32}, "truncated", "though all 32 tokens were used", 0, False),
        ({"text": " Let me think."}, "stopped", None, 0, False),
        ({"finish_reason": "abort"}, "failed", "finish_reason is 'abort'", 2, None),
        ({"finish_reason": None}, "answered", None, 0, True),
        (
            {"text": " Let me think.", "finish_reason": None},
            "stopped",
            "no finish reason tells how it ended",
            0,
            False,
        ),
        ({"choices": 2}, "failed", "2 choices where 1 was asked for", 2, None),
        ({"usage": "absent"}, "answered", None, 0, True),
        ({"text": " 205\ud83d"}, "failed", "half of a surrogate pair", 2, None),
        ({"raw": "[" * 100_000}, "failed", "nested too deep to be read", 2, None),
        ({"raw": '"\\ud83d"'}, "failed", "has no choices: '\\ud83d'", 2, None),
        ({"raw": '{"choices": ' + "[" * 400 + "]" * 400 + "}"}, "failed", "choice has no text", 2, None),
        ({"finish_reason": ["stop"]}, "failed", "finish_reason is ['stop']", 2, None),
        ({"usage": {"prompt_tokens": 10**400}}, "answered", None, 0, True),
        ({"usage": {"prompt_tokens": 50_000_000, "completion_tokens": 3}}, "answered", None, 0, True),
        ({"usage": {"completion_tokens": 32}}, "answered", None, 0, True),
        ({"text": " well", "usage": {"completion_tokens": 31}}, "stopped", None, 0, False),
        (
            {"text": " well", "usage": {"completion_tokens": 32}},
            "truncated",
            "though all 32 tokens",
            0,
            False,
        ),
        (
            {"raw": '{"choices": [{"text": " #### 205", "finish_reason": "stop"}], "error": {"code": 7}}'},
            "failed",
            "the reply has an error beside its choices: {'code': 7}",
            2,
            None,
        ),
        (
            {"raw": '{"choices": [{"text": " #### 205", "finish_reason": "stop"}], "error": null}'},
            "answered",
            None,
            0,
            True,
        ),
        ({"status": 500, "raw": "\ufffe\u2028" * 900}, "failed", "HTTP 500", 2, None),
    ],
)
def test_verdict_of_a_behaviour(
    behaviour: dict[str, Any],
    status: str,
    error: str | None,
    retries: int,
    right: bool | None,
    tmp_path: Path,
) -> None:
    """One question meets it; its neighbours are answered, and only a failed one is not judged.

    Whatever came, what is written of it is what every later command reads.
    """
    with Stub(Script(questions={THIRD: behaviour})) as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
    found = records(tmp_path)
    one = found.pop(2)
    assert (one["status"], one["retries"], one["flexible_correct"]) == (status, retries, right)
    assert (error is None) == (one["error"] is None)
    assert (error or "") in (one["error"] or "")
    assert {other["status"] for other in found.values()} == {"answered"}
    stored.check(tmp_path / "out")


@pytest.mark.parametrize("tokens", [10_000_000, 10_000_001])
def test_a_count_that_no_prompt_has_is_not_believed(tokens: int, tmp_path: Path) -> None:
    """Written as unknown, so that the campaign stays one that can be gone on with, certified and shown."""
    usage = {"usage": {"prompt_tokens": tokens, "completion_tokens": 7}}
    with Stub(Script(questions={THIRD: usage})) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        for _ in range(2):
            assert legs_run.drive_legs(found, tmp_path / "out", ()) == {
                journal.place(tmp_path / "out", "a", 1): "finished"
            }
    assert records(tmp_path)[2]["prompt_tokens"] == (tokens if tokens == 10**7 else None)
    assert cli.main(["legs", "status", str(tmp_path / "out")]) == exits.AGREE


@pytest.mark.parametrize("reason", ["stop", "eos", "eos_token", "stop_sequence", "stop_token", "end_turn"])
def test_a_reply_that_ended_by_itself_is_whole(reason: str) -> None:
    """Servers have their own words for it; one that no server is known to use is refused."""
    body = {"choices": [{"text": " #### 5", "finish_reason": reason}]}
    found = replies.understand(0, body, replies.Seen())
    assert replies.status(found, "5", "5", 32) == ("answered", None)
    body["choices"][0]["finish_reason"] = f"{reason}?"
    with pytest.raises(replies.Unusable, match="so the reply is not whole"):
        replies.understand(0, body, replies.Seen())


def test_a_reply_handed_out_twice_is_not_an_answer(tmp_path: Path) -> None:
    """The same id with the same text for two questions: the second did not get its own reply."""
    twice = {"id": "cmpl-same", "text": " 201\n#### 201"}
    script = Script(questions={"What is 100 plus": twice, THIRD: twice})
    with Stub(script) as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}, client={"concurrency": 1}))
    found = records(tmp_path)
    assert found[0]["status"] == "answered"
    assert (found[2]["status"], found[2]["error"]) == ("failed", "reply cmpl-same came before, to question 0")


def test_a_slow_reply_is_a_failed_request(tmp_path: Path) -> None:
    """A timeout is told with its length, and is no answer."""
    with Stub(Script(questions={THIRD: {"latency": 1.0}})) as stub:
        more = {"timeout": 0.3, "retries": 0}
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}, client=more))
    assert records(tmp_path)[2]["status"] == "failed"
    assert records(tmp_path)[2]["error"] == "no reply within 0.3 s"
