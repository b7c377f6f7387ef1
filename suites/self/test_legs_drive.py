"""Each way a server can misbehave earns its own verdict, and none of them is a wrong answer."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.command import legs_run
from harness.exits import CannotRun, InputError
from harness.legs import campaign, drive, journal, order
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
    assert journal.place(tmp_path / "out", "b", 1).manifest()["crashes"] == manifest["crashes"]


def test_a_silent_crash_is_not_blamed_on_base(tmp_path: Path) -> None:
    """Both servers die of SIGKILL without a word: nothing says that base has the same fault."""
    legs = {name: process(tmp_path, name, Script(die_at=4)) for name in "ab"}
    found, told = asked(tmp_path, legs, client={"concurrency": 1}), Told()
    assert driven(tmp_path, found, told) == {"a/1": "crashed", "b/1": "crashed"}
    assert not any("same crash" in one.replace("is the same", "") for one in told.said)
    digests = {journal.place(tmp_path / "out", leg, 1).manifest()["crashes"][0]["digest"] for leg in "ab"}
    assert len(digests) == 2


def test_a_crashed_server_is_restarted_if_asked(tmp_path: Path) -> None:
    """One restart is enough for six questions when each server dies at its fourth."""
    leg = process(tmp_path, "a", Script(die_at=4))
    found = asked(tmp_path, {"a": leg}, server={"restarts": 1}, client={"concurrency": 1})
    assert driven(tmp_path, found) == {"a/1": "finished"}
    assert len(journal.place(tmp_path / "out", "a", 1).manifest()["crashes"]) == 1


def test_every_crash_of_a_sample_is_kept(tmp_path: Path) -> None:
    """Two questions a server, so that the third one finishes: the manifest has both crashes."""
    leg = process(tmp_path, "a", Script(die_at=3))
    found = asked(tmp_path, {"a": leg}, server={"restarts": 2}, client={"concurrency": 1})
    assert driven(tmp_path, found) == {"a/1": "finished"}
    assert len(journal.place(tmp_path / "out", "a", 1).manifest()["crashes"]) == 2


@pytest.mark.parametrize("status", ["running", "stopped", "crashed"])
def test_a_sample_with_all_answers_is_not_finished_until_it_says_so(status: str, tmp_path: Path) -> None:
    """Killed after its last answer: nothing is asked again, and the manifest is written to its end."""
    with Stub() as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        driven(tmp_path, found)
        where = journal.place(tmp_path / "out", "a", 1)
        where.update(status=status, finished=None)
        assert driven(tmp_path, found) == {"a/1": "finished"}
        assert len(stub.bodies) == N
    assert (where.manifest()["status"], where.manifest()["finished"] is None) == ("finished", False)


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
    rounds = ["".join(leg for leg, at in order.samples("ab", 5, "abba") if at == n) for n in range(1, 6)]
    assert rounds == ["ab", "ba", "ab", "ba", "ab"]
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


@pytest.mark.parametrize("name", [drive.LOCK, drive.CAMPAIGN, drive.CERTIFICATES, "a/1", "a"])
def test_what_lies_in_a_files_place_is_told_before_anything_is_asked(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder where a file will be written, a file where a sample will lie: not after hours of measuring."""
    place = tmp_path / "out" / name
    place.parent.mkdir(parents=True)
    if name.startswith("a"):
        place.write_text("", encoding="utf-8")
    else:
        place.mkdir()
    with Stub(Script()) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        with pytest.raises(InputError, match=r"allowed is (a file, or nothing|the folder of|a name that no)"):
            legs_run.drive_legs(found, tmp_path / "out", ())
        assert stub.bodies == []
    if name == drive.CERTIFICATES:
        assert cli.main(["legs", "certify", str(tmp_path / "out")]) == exits.USAGE
        assert "certificates.json is a folder, allowed is a file" in capsys.readouterr().err


def test_a_leg_that_is_none_is_told_in_few_letters(tmp_path: Path) -> None:
    """And which there are."""
    found = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:9"}})
    with pytest.raises(InputError, match=r"--leg is 'b{79}\.\.\., allowed are a$"):
        drive.plan(found, tmp_path / "out", ["b" * 10_000])


def test_a_run_refuses_a_damaged_folder_before_it_asks(tmp_path: Path) -> None:
    """An edited answer would otherwise be kept, and the sample finished around it."""
    with Stub(Script()) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}})
        driven(tmp_path, found)
        file = journal.place(tmp_path / "out", "a", 1).samples
        file.write_text(file.read_text("utf-8").replace('"answered"', '"fine"'), encoding="utf-8")
        with pytest.raises(InputError, match="status is 'fine', allowed is"):
            legs_run.drive_legs(found, tmp_path / "out", ())
