"""Each way a server can misbehave earns its own verdict, and none of them is a wrong answer."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.command import legs_run
from harness.exits import CannotRun, InputError
from harness.legs import campaign, drive, identity, journal, order
from harness.legs.certify import certifying
from harness.legs.certify.certificate import Point, Verdict
from suites.self.legs_world import N, Told, asked, driven, process, records
from suites.self.stub_server import Script, Stub

THIRD = "What is 102 plus 103?"


def test_right_answers_are_right_and_complete(tmp_path: Path) -> None:
    """Every key is there, the server's own figures are kept, and nothing is asked twice."""
    with Stub() as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        assert driven(tmp_path, found) == {"a/1": "finished"}
        kept = records(tmp_path)
        assert len(stub.bodies) == N
        assert driven(tmp_path, found) == {"a/1": "finished"}
        assert len(stub.bodies) == N
    assert sorted(kept) == list(range(N))
    one = kept[2]
    assert (one["strict"], one["flexible"], one["strict_correct"], one["flexible_correct"]) == (
        "205", "205", True, True,
    )  # fmt: skip
    assert (one["status"], one["finish_reason"], one["http_status"], one["retries"]) == (
        "answered", "stop", 200, 0,
    )  # fmt: skip
    assert one["prompt_tokens"] == len(stub.bodies[2]["prompt"].split())
    assert one["completion_tokens"] == 7
    body = stub.bodies[0]
    assert isinstance(body["prompt"], str)
    assert body["prompt"].count("Question:") == 3
    assert (body["max_tokens"], body["temperature"], body["model"]) == (32, 0.0, "stub")
    assert "Question:" in body["stop"]


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
    """One question meets it; its neighbours are answered, and only a failed one is not judged."""
    with Stub(Script(questions={THIRD: behaviour})) as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
    found = records(tmp_path)
    one = found.pop(2)
    assert (one["status"], one["retries"], one["flexible_correct"]) == (status, retries, right)
    assert (error is None) == (one["error"] is None)
    assert (error or "") in (one["error"] or "")
    assert {other["status"] for other in found.values()} == {"answered"}


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


def test_failed_questions_are_asked_again_only_on_demand(tmp_path: Path) -> None:
    """--retry-failed reopens a finished sample for them, and for nothing else."""
    with Stub(Script(questions={THIRD: {"status": 500, "times": 3}})) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        driven(tmp_path, found)
        count = len(stub.bodies)
        driven(tmp_path, found)
        assert len(stub.bodies) == count
        driven(tmp_path, found, retry_failed=True)
        assert len(stub.bodies) == count + 1
    assert (records(tmp_path)[2]["status"], records(tmp_path)[2]["attempt"]) == ("answered", 2)


def test_a_wrong_address_is_told_at_once(tmp_path: Path) -> None:
    """What every question would meet ends the run in a sentence, with nothing recorded."""
    refused = pytest.raises(CannotRun, match="refuses every request, HTTP 404")
    with Stub(Script(default={"status": 404})) as stub, refused:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
    assert records(tmp_path) == {}
    assert journal.place(tmp_path / "out", "a", 1).manifest()["status"] == "stopped"


def test_resumed_questions_have_the_same_prompts(tmp_path: Path) -> None:
    """Few shots are drawn in sequence: a sample that goes on must not draw others for what is left."""
    with Stub() as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        driven(tmp_path, found)
        whole = {question: one["prompt_hash"] for question, one in records(tmp_path).items()}
        where = journal.place(tmp_path / "out", "a", 1)
        lines = where.samples.read_bytes().splitlines(keepends=True)
        where.samples.write_bytes(b"".join(lines[:2]) + lines[2][:20])
        where.update(status="running")
        before = len(stub.bodies)
        assert driven(tmp_path, found) == {"a/1": "finished"}
        assert len(stub.bodies) == before + N - 2
    assert {question: one["prompt_hash"] for question, one in records(tmp_path).items()} == whole


def test_a_changed_identity_never_reuses_a_sample(tmp_path: Path) -> None:
    """Refused with what changed; --supersede sets the old sample aside, whole."""
    with Stub() as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
        changed = asked(tmp_path, {"a": {"base_url": stub.url}}, task={"shots": 3})
        with pytest.raises(InputError, match=r"another identity: prompts, shots \(2, now 3\); give another"):
            drive.plan(changed, tmp_path / "out")
        again = drive.plan(changed, tmp_path / "out", supersede=True)
        assert drive.run(again, drive.Display()) == dict.fromkeys(again.samples, "finished")
    assert len(list((tmp_path / "out" / "a").glob("1.superseded-*/samples.jsonl"))) == 1
    assert len(journal.table(tmp_path / "out")) == N


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    """The second would ask what the first is asking."""
    refused = pytest.raises(CannotRun, match="another harness legs run works in")
    with drive.locked(tmp_path), refused, drive.locked(tmp_path):
        pass


def test_a_crash_is_not_a_score(tmp_path: Path) -> None:
    """Dead at request 4 of 6: crashed, with signature; the same on base is seen; a later run goes on."""
    scripts = [
        Script(die_at=4, die_with=[f"RuntimeError: fault at 0x{leg:x}00f [pid {leg}1]"]) for leg in (7, 8)
    ]
    legs = {name: process(tmp_path, name, one) for name, one in zip("ab", scripts, strict=True)}
    found, told = asked(tmp_path, legs, client={"concurrency": 1}), Told()
    assert driven(tmp_path, found, told) == {"a/1": "crashed", "b/1": "crashed"}
    assert any("b sample 1 crashed: it was ended by SIGKILL; the same crash happens on base" in one
               for one in told.said)  # fmt: skip
    manifest = journal.place(tmp_path / "out", "b", 1).manifest()
    assert manifest["crashes"][0]["lines"][-1] == "RuntimeError: fault at 0x800f [pid 81]"
    assert sorted(records(tmp_path, "b")) == [0, 1, 2]
    assert driven(tmp_path, found) == {"a/1": "finished", "b/1": "finished"}
    assert sorted(records(tmp_path, "b")) == list(range(N))


def test_a_crashed_server_is_restarted_if_asked(tmp_path: Path) -> None:
    """One restart is enough for six questions when each server dies at its fourth."""
    leg = process(tmp_path, "a", Script(die_at=4))
    found = asked(tmp_path, {"a": leg}, server={"restarts": 1}, client={"concurrency": 1})
    assert driven(tmp_path, found) == {"a/1": "finished"}
    assert len(journal.place(tmp_path / "out", "a", 1).manifest()["crashes"]) == 1


def test_an_external_server_that_falls_sick_is_a_crash(tmp_path: Path) -> None:
    """Failures of a server whose health fails too are not failures of the questions."""
    script = Script(default={}, sick_after=2, questions={THIRD: {"status": 500}})
    with Stub(script) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}}, client={"concurrency": 1})
        assert driven(tmp_path, found) == {"a/1": "crashed"}
    assert sorted(records(tmp_path)) == [0, 1]


def test_order_turns_round() -> None:
    """A B B A: a drift of the machine falls on both legs alike."""
    assert order.samples(["a", "b"], 2, "abba") == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]
    assert order.samples(["a", "b"], 2, "abab") == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert order.samples(["a", "b"], 2, "blocks") == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_server_that_wants_a_login_gets_it_and_nothing_shows_it(tmp_path: Path) -> None:
    """Health check and questions carry it; the folder, the message and the page have no trace of it."""
    with Stub() as stub:
        url = stub.url.replace("http://", "http://me:word@")
        told = Told()
        assert driven(tmp_path, asked(tmp_path, {"a": {"base_url": url}}), told) == {"a/1": "finished"}
        expected = "Basic " + base64.b64encode(b"me:word").decode()
        assert {headers["Authorization"] for headers in stub.headers} == {expected}
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert len(files) >= 3
    assert not [file for file in files if b"word" in file.read_bytes()]
    assert cli.main(["legs", "report", str(tmp_path / "out"), "--html", str(tmp_path / "r.html")]) == 0
    assert b"me:word" not in (tmp_path / "r.html").read_bytes()


def test_a_folder_that_is_none_is_told_before_anything_starts(tmp_path: Path) -> None:
    """A server would be started in it."""
    leg = {"base_url": "http://127.0.0.1:9", "command": ["true"], "folder": "nope"}
    with pytest.raises(InputError, match=r"legs\.a\.folder is 'nope', allowed is a folder that exists"):
        drive.plan(asked(tmp_path, {"a": leg}), tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}\n" * 9, "line 1 has no field"),
        ("x\n", "line 1 is no JSON"),
        ("[" * 100_000, "line 1 is no JSON"),
        ("\udcff\n", "line 1 is no JSON"),
        ("[1]\n", "line 1 is no JSON object"),
        ("\n", "holds no row"),
        ('{"question": "a"}\n' * 9, "task.data has no questions of task gsm8k: 'answer' is undefined"),
        ('{"question": "a", "answer": null}\n' * 9, "line 1 has no answer"),
        ('{"question": "a", "answer": "b"}\n{"question": "a"}\n', "line 2 has no answer"),
        ('{"question": "a", "answer": "b"}\n{"question": 1, "answer": "b"}\n', "not of one kind"),
        ('{"question": "\\ud83d", "answer": "b"}\n', "not of one kind"),
    ],
)
@pytest.mark.parametrize("name", ["test.jsonl", "train.jsonl"])
def test_data_that_are_none_of_the_task_are_told(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    """One sentence with file and line: a row without an answer would be asked, and scored, as None."""
    found = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:9"}})
    (tmp_path / "data" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as refused:
        drive.plan(found, tmp_path / "out")
    assert sentence in str(refused.value)


@pytest.mark.parametrize("text", ["[]", "5", "", "[" * 100_000, '{"started": 5, "campaign": []}'])
def test_a_run_writes_a_campaign_anew_where_none_can_be_read(text: str, tmp_path: Path) -> None:
    """What lies under its name and is no campaign does not end a run."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / drive.CAMPAIGN).write_text(text, encoding="utf-8")
    with Stub() as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
    assert certifying.certify(tmp_path / "out")["a"].leg == "a"


def external(folder: Path, stub: Stub, **leg: Any) -> campaign.Campaign:
    """A server that runs already and logs to ``server.txt``: one required line, one forbidden."""
    more = {"base_url": stub.url, "log": "server.txt", "required": ["index fp4"], "forbidden": ["fallback"]}
    return asked(folder, {"a": {**more, "acceptance": "length ([0-9.]+)", **leg}})


def path_of(folder: Path) -> Point:
    found = certifying.certify(folder / "out")["a"].points
    return next(one for one in found if one.name == "path")


def test_what_a_running_server_said_at_its_start_counts(tmp_path: Path) -> None:
    """Its path is told once, before any sample; a fallback of that time is as forbidden as a later one."""
    log = tmp_path / "server.txt"
    log.write_text("index fp4\nlength 9.0\n", encoding="utf-8")
    with Stub(Script(asked=str(log))) as stub:
        driven(tmp_path, external(tmp_path, stub))
        assert path_of(tmp_path).verdict is Verdict.HOLDS
        assert journal.place(tmp_path / "out", "a", 1).manifest()["acceptance"] is None
    second = tmp_path / "second"
    second.mkdir()
    (second / "server.txt").write_text("index fp4\nfallback\n", encoding="utf-8")
    with Stub(Script(asked=str(second / "server.txt"))) as stub:
        driven(second, external(second, stub))
    assert path_of(second).verdict is Verdict.FAILS


def test_a_log_of_earlier_servers_is_looked_at_from_now_on_only_if_asked(tmp_path: Path) -> None:
    """``log_from = "now"``: neither line of before counts, and nothing written is nothing known."""
    (tmp_path / "server.txt").write_text("index fp4\nfallback\n", encoding="utf-8")
    with Stub() as stub:
        driven(tmp_path, external(tmp_path, stub, log_from="now"))
    patterns = journal.place(tmp_path / "out", "a", 1).manifest()["patterns"]
    assert (patterns["required"], patterns["forbidden"]) == ({"index fp4": 0}, {"fallback": 0})


def test_what_a_server_said_between_two_attempts_counts(tmp_path: Path) -> None:
    """A sample that is gone on with: the gap is a segment too, and no byte is in two."""
    log = tmp_path / "server.txt"
    log.write_text("index fp4\n", encoding="utf-8")
    with Stub(Script(questions={THIRD: {"status": 500, "times": 3}})) as stub:
        driven(tmp_path, external(tmp_path, stub))
        with open(log, "a", encoding="utf-8") as stream:
            stream.write("fallback\n")
        driven(tmp_path, external(tmp_path, stub), retry_failed=True)
    manifest = journal.place(tmp_path / "out", "a", 1).manifest()
    segments = manifest["log_segments"]
    assert [one.get("earlier", False) for one in segments] == [True, False, True, False]
    assert [one["to"] for one in segments[:-1]] == [one["from"] for one in segments[1:]]
    assert (segments[0]["from"], segments[2]["to"] - segments[2]["from"]) == (0, 9)
    assert manifest["patterns"]["forbidden"] == {"fallback": 1}


def test_shots_beyond_the_data_are_refused(tmp_path: Path) -> None:
    """Told before a server is started."""
    found: campaign.Campaign = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:9"}}, task={"shots": 8})
    with pytest.raises(InputError, match=r"task\.shots is 8, allowed are 0 to 7"):
        drive.plan(found, tmp_path / "out")


def test_a_version_that_is_no_utf_8_is_a_version(tmp_path: Path) -> None:
    """Its bytes are told as numbers, so that two of them stay two."""
    words = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'v1 \\xff\\n')"]
    campaign = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:1", "version": words}})
    assert identity.server_version(campaign, "a") == "v1 \\xff"


def test_a_run_refuses_a_damaged_folder_before_it_asks(tmp_path: Path) -> None:
    """An edited answer would otherwise be kept, and the sample finished around it."""
    with Stub(Script()) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        driven(tmp_path, found)
        file = journal.place(tmp_path / "out", "a", 1).samples
        file.write_text(file.read_text("utf-8").replace('"answered"', '"fine"'), encoding="utf-8")
        with pytest.raises(InputError, match="status is 'fine', allowed is"):
            legs_run.drive_legs(found, tmp_path / "out", ())
