"""A sample was measured with all that can change a score; anything else is another measurement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.exits import InputError
from harness.legs import drive, identity, journal
from harness.legs.evaluation import task
from suites.self.legs_world import N, asked, driven
from suites.self.stub_server import Stub


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("task", "shots", 3), ("task", "fewshot_seed", 7), ("task", "limit", 5), ("task", "max_length", 600),
        ("task", "max_tokens", 33), ("task", "stop", ["x"]), ("task", "temperature", 0.5),
        ("task", "generation", {"top_k": 1}), ("task", "strict", "flexible-extract"),
        ("task", "flexible", "strict-match"), ("client", "concurrency", 3), ("client", "seed", 7),
    ],
)  # fmt: skip
def test_whatever_changes_a_score_is_another_identity(
    table: str, field: str, value: Any, tmp_path: Path
) -> None:
    """A sample that was measured with anything else is refused, and what differs is named."""
    leg = {"a": {"base_url": "http://127.0.0.1:9"}}
    one, two = (
        identity.of_leg(found, "a", drive.settings(task.load(found.task, found.data)))
        for found in (asked(tmp_path, leg), asked(tmp_path, leg, **{table: {field: value}}))
    )
    assert identity.digest(one) != identity.digest(two)
    names = {
        "max_tokens": "gen_kwargs",
        "stop": "stops",
        "temperature": "gen_kwargs",
        "generation": "gen_kwargs",
    }
    assert f"{names.get(field, field)} (" in identity.changed(one, two)


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


def test_a_tasks_own_limit_is_not_the_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lm-eval's file says of the length of a reply would go before it, and every cut reply be whole."""
    known = task.configuration("gsm8k")
    own = {**known["generation_kwargs"], "max_tokens": 5, "max_length": 9, "do_sample": True, "top_k": 1}
    monkeypatch.setattr(task, "configuration", lambda name: {**known, "generation_kwargs": own})
    with Stub() as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
        body = stub.bodies[0]
    assert (body["max_tokens"], body["top_k"], body["temperature"]) == (32, 1, 0.0)
    assert {"max_length", "do_sample"} & set(body) == set()
    assert body["stop"] == own["until"]


def test_a_version_that_is_no_utf_8_is_a_version(tmp_path: Path) -> None:
    """Its bytes are told as numbers, so that two of them stay two."""
    words = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'v1 \\xff\\n')"]
    campaign = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:1", "version": words}})
    assert identity.server_version(campaign, "a") == "v1 \\xff"


def test_a_task_without_a_stop_has_none_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null would mean that nobody wrote it down, and no two legs of the task could be compared."""
    known = task.configuration("gsm8k")
    own = {**known["generation_kwargs"], "until": None}
    monkeypatch.setattr(task, "configuration", lambda name: {**known, "generation_kwargs": own})
    found = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:9"}})
    assert drive.settings(task.load(found.task, found.data))["stops"] == []
