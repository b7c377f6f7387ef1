"""What is collected beside the answers: replies of the probe."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness.legs import journal
from suites.self.legs_world import N, asked, driven, process, records
from suites.self.stub_server import Script, Stub

PROBE = {"probe": 2, "probe_repeats": 3, "probe_tokens": 9}
FIRST, SECOND = "What is 100 plus 101?", "What is 101 plus 102?"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def probed(folder: Path) -> dict[str, Any]:
    file = journal.place(folder / "out", "a", 1).folder / "probe.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


def test_the_probe_is_asked_before_the_questions_and_changes_none(tmp_path: Path) -> None:
    """Greedy, without stops, repeats apart; the questions are then asked as without a probe."""
    with Stub() as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}, client={"concurrency": 1}))
        plain = stub.bodies[:]
    one = {"concurrency": 1}
    with Stub() as stub:
        found = asked(
            tmp_path, {"b": {"base_url": stub.url}}, client=one, certify=PROBE, task={"temperature": 0.5}
        )
        driven(tmp_path, found)
        probes, questions = stub.bodies[:6], stub.bodies[6:]
    assert [body["prompt"] for body in questions] == [body["prompt"] for body in plain]
    assert [body["temperature"] for body in plain + questions] == [0.0] * N + [0.5] * N
    assert [body["stop"] for body in questions] == [body["stop"] for body in plain]
    assert [body["prompt"] for body in probes] == [body["prompt"] for body in plain[:2]] * 3
    for body in probes:
        assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.0, 9, [])
    sums = [digest(" 100 + 101 = 201\n#### 201"), digest(" 101 + 102 = 203\n#### 203")]
    file = journal.place(tmp_path / "out", "b", 1).folder / "probe.json"
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "prompts": 2, "repeats": 3, "tokens": 9, "replies": [[sums[0]] * 3, [sums[1]] * 3],
        "distinct": [1, 1], "failed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("behaviours", "distinct", "failed"),
    [
        ({FIRST: {"text": "other", "times": 1}}, [2, 1], 0),
        ({SECOND: {"status": 400, "times": 2}}, [1, 1], 2),
        ({SECOND: {"status": 500, "times": 9}}, [1, 0], 3),
        ({SECOND: {"text": None}}, [1, 0], 3),
        ({FIRST: {"text": "", "times": 1}}, [1, 1], 1),
        ({FIRST: {"id": "always-the-same"}}, [1, 1], 0),
        ({FIRST: {"finish_reason": "length"}}, [1, 1], 0),
    ],
)
def test_what_replies_come_to(
    behaviours: dict[str, Any], distinct: list[int], failed: int, tmp_path: Path
) -> None:
    """Different texts are counted; a reply that was not had is null, no text, and ends nothing."""
    with Stub(Script(questions=behaviours)) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}}, certify=PROBE)
        assert driven(tmp_path, found) == {"a/1": "finished"}
    said = probed(tmp_path)
    assert (said["distinct"], said["failed"]) == (distinct, failed)
    assert [len(hashes) for hashes in said["replies"]] == [3, 3]
    assert sum(hashes.count(None) for hashes in said["replies"]) == failed
    assert len(records(tmp_path)) == N


def test_requests_of_a_probe_run_side_by_side(tmp_path: Path) -> None:
    """As many at a time as the campaign's client has, or batching would not show."""
    with Stub(Script(latency=0.2)) as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}}, certify=PROBE, client={"concurrency": 3})
        driven(tmp_path, found)
        assert stub.most == 3


def test_no_more_prompts_than_there_are(tmp_path: Path) -> None:
    """Six questions give six prompts, though ten were asked for."""
    with Stub() as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}}, certify={"probe": 10, "probe_repeats": 2})
        driven(tmp_path, found)
        assert len(stub.bodies) == N * 2 + N
    assert (probed(tmp_path)["prompts"], probed(tmp_path)["distinct"]) == (N, [1] * N)


def test_a_whole_probe_stands_and_a_torn_one_does_not(tmp_path: Path) -> None:
    """A sample that goes on is probed once; a file cut short, or of another shape, is asked for again."""
    with Stub() as stub:
        found = asked(tmp_path, {"a": {"base_url": stub.url}}, certify=PROBE)
        where = journal.place(tmp_path / "out", "a", 1)
        driven(tmp_path, found)
        content = (where.folder / "probe.json").read_text(encoding="utf-8")
        shorter = json.dumps({**json.loads(content), "replies": [["x"] * 3]})
        for text, again in ((content, 0), (content[:40], 6), (shorter, 6), ("[]", 6)):
            (where.folder / "probe.json").write_text(text, encoding="utf-8")
            where.samples.write_bytes(b"".join(where.samples.read_bytes().splitlines(keepends=True)[:-1]))
            where.update(status="running")
            before = len(stub.bodies)
            assert driven(tmp_path, found) == {"a/1": "finished"}
            assert len(stub.bodies) == before + again + 1
        other = asked(tmp_path, {"a": {"base_url": stub.url}}, certify={**PROBE, "probe_tokens": 5})
        where.update(status="running")
        driven(tmp_path, other)
    assert (probed(tmp_path)["tokens"], probed(tmp_path)["distinct"]) == (5, [1, 1])


def test_a_server_that_dies_in_the_probe_has_crashed(tmp_path: Path) -> None:
    """It is a crash as any: told with its last lines, restarted if asked, and no probe is left behind."""
    leg = process(tmp_path, "a", Script(die_at=4, die_with=["RuntimeError: fault in the probe"]))
    found = asked(tmp_path, {"a": leg}, certify=PROBE, client={"concurrency": 1}, server={"restarts": 1})
    assert driven(tmp_path, found) == {"a/1": "crashed"}
    where = journal.place(tmp_path / "out", "a", 1)
    crashes = where.manifest()["crashes"]
    assert [one["lines"][-1] for one in crashes] == ["RuntimeError: fault in the probe"] * 2
    assert (where.folder / "probe.json").exists() is False
    assert records(tmp_path) == {}
