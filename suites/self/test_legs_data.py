"""What prompts are built from: rows that are none are told, and a sample that goes on asks what it asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs import campaign, drive, journal
from harness.legs.evaluation import library
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


@pytest.fixture
def unknown_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub whose name nobody knows, nothing cached, and no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def nobody(*address: object) -> None:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(library.socket, "getaddrinfo", nobody)
    monkeypatch.setattr(library.datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def test_a_hub_that_is_out_of_reach_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, unknown_hub: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """No retries are printed, and the folder of the results is not made; nor is it for a wrong option."""
    campaign_file = tmp_path / "c.toml"
    campaign_file.write_text(
        'name = "c"\nbase = "a"\n[legs.a]\nmodel = "m"\nbase_url = "http://127.0.0.1:9"\n', encoding="utf-8"
    )
    out, before = tmp_path / "results" / "out", library.datasets.config.HF_HUB_OFFLINE
    for more, code, said in (
        (
            [],
            exits.ERROR,
            "harness: task.data names no folder, and the hub does not give the data of task gsm8k",
        ),
        (["--leg", "b"], exits.USAGE, "harness: --leg is 'b', allowed are a"),
    ):
        assert cli.main(["legs", "run", str(campaign_file), "--dir", str(out), *more]) == code
        found = capfd.readouterr()
        assert (found.out, found.err.count("\n")) == ("", 1)
        assert found.err.startswith(said)
        assert not out.parent.exists()
    assert library.datasets.config.HF_HUB_OFFLINE is before


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    """Also an empty one: only what a run made itself is taken away."""
    (tmp_path / "own").mkdir()
    for name in ("own", "new"):
        with pytest.raises(InputError), drive.locked(tmp_path / name):
            raise InputError("refused")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own"]
    with drive.locked(tmp_path / "new"):
        (tmp_path / "new" / "kept").touch()
    assert (tmp_path / "new" / "kept").exists()


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
