"""What prompts are built from: rows that are none are told, and a sample that goes on asks what it asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.exits import InputError
from harness.legs import campaign, drive, journal
from suites.self.legs_world import N, asked, driven, records
from suites.self.stub_server import Stub


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


def test_shots_beyond_the_data_are_refused(tmp_path: Path) -> None:
    """Told before a server is started."""
    found: campaign.Campaign = asked(tmp_path, {"a": {"base_url": "http://127.0.0.1:9"}}, task={"shots": 8})
    with pytest.raises(InputError, match=r"task\.shots is 8, allowed are 0 to 7"):
        drive.plan(found, tmp_path / "out")


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
