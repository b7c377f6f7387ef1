"""The results store: what is written can be read, whatever happened in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.exits import InputError
from harness.findings import Finding
from harness.judge.verdict import Grade, Status, Verdict
from harness.record import parquet, store

FINDING = Finding("undefined-load", "k", "weights", "a/b.py:3 < a/c.py:9", 2, {"cta": 0, "lane": 5})


def record(seed: int = 0, **changes: Any) -> dict[str, Any]:
    case = f"quantise-r1-d128-fnatural-s{seed}"
    verdict = Verdict(
        case,
        "quantise",
        "oracle",
        "torch",
        Status.AGREE,
        Grade.EXACT,
        total=3,
        seconds=0.25,
        findings=(FINDING,),
    )
    return verdict.but(**changes).to_record()


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    return store.create(tmp_path, {"path": "oracle"})


def write(run: store.Run, worker: str, *records: dict[str, Any]) -> None:
    journal = store.Journal(run, worker)
    for one in records:
        journal.start(str(one["case"]), str(one["path"]))
        journal.verdict(one)
    journal.close()


def test_a_verdict_is_on_disk_before_the_journal_is_closed(run: store.Run) -> None:
    """A reader sees a verdict as soon as it was appended."""
    journal = store.Journal(run, "gw0")
    journal.verdict(record())
    assert store.load(run).records == (record(),)
    journal.close()


def test_journals_of_all_workers_are_read(run: store.Run) -> None:
    """No worker's verdicts are lost, and the plan is the largest that any of them collected."""
    write(run, "gw0", record(0), record(1))
    write(run, "gw1", record(2))
    journal = store.Journal(run, "main")
    journal.plan(3)
    journal.close()
    loaded = store.load(run)
    assert {str(one["case"])[-2:] for one in loaded.records} == {"s0", "s1", "s2"}
    assert loaded.planned == 3


def test_a_torn_last_line_is_told_and_costs_nothing_else(run: store.Run) -> None:
    """A write that a kill cut short leaves every earlier verdict readable."""
    write(run, "gw0", record(0), record(1))
    with open(run.folder / "journal-gw0.jsonl", "a", encoding="utf-8") as stream:
        stream.write('{"event": "verdict", "reco')
    loaded = store.load(run)
    assert len(loaded.records) == 2
    assert loaded.torn == 1


def test_a_line_that_is_json_but_no_event_counts_as_torn(run: store.Run) -> None:
    """Half a number is JSON too; it must not end the reading."""
    write(run, "gw0", record(0))
    with open(run.folder / "journal-gw0.jsonl", "a", encoding="utf-8") as stream:
        stream.write('7\n{"event": "verdict"}\n')
    assert (len(store.load(run).records), store.load(run).torn) == (1, 2)


def test_a_case_that_started_and_never_ended_is_named(run: store.Run) -> None:
    """The case in flight when a run was killed can be told."""
    journal = store.Journal(run, "gw0")
    journal.start("decode-x", "oracle")
    journal.close()
    assert store.load(run).unfinished == ("decode-x on oracle",)


def test_parquet_gives_back_every_field(run: store.Run) -> None:
    """A record survives the table, with its types, lists and empty values."""
    wanted = [
        record(0),
        record(
            1, status=Status.DIFFER, ulps=7, where={"row": 3, "token": "last"}, heat=((1, 0), (0, 2)), count=9
        ),
        record(2, facts={"codes": 16, "ratio": 0.5}, notes=("one", "two")),
    ]
    parquet.write(run.parquet, wanted)
    assert parquet.read(run.parquet) == wanted


def test_a_run_without_journals_is_read_from_its_table(run: store.Run) -> None:
    """A curated record needs no journals beside it."""
    write(run, "gw0", record(0))
    store.finish(run, complete=True, exit_code=0)
    (run.folder / "journal-gw0.jsonl").unlink()
    assert store.load(run).records == (record(0),)
    assert run.manifest()["complete"] is True


def test_a_table_that_cannot_be_written_leaves_no_part(
    run: store.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed compile leaves the old table and no temporary file."""
    parquet.write(run.parquet, [record(0)])
    with pytest.raises(TypeError):
        parquet.write(run.parquet, [{**record(1), "facts": object()}])
    assert parquet.read(run.parquet) == [record(0)]
    assert [path.name for path in run.folder.iterdir() if path.name.endswith(".tmp")] == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Writing replaces a file whole or not at all."""
    file = tmp_path / "f.json"
    store.write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        store.write_atomically(file, "\ud800")
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_manifest_that_cannot_be_read_means_incomplete(run: store.Run) -> None:
    """A run is complete only when its manifest says so."""
    (run.folder / "manifest.json").write_text("{", encoding="utf-8")
    assert run.manifest()["complete"] is False


def test_an_update_keeps_what_the_manifest_said(run: store.Run) -> None:
    """Closing a run does not lose what it started with."""
    store.finish(run, complete=True, exit_code=1)
    manifest = json.loads((run.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["provenance"] == {"path": "oracle"}
    assert manifest["exit_code"] == 1
    assert manifest["finished"]


def test_runs_are_listed_by_age_and_found_by_the_start_of_their_id(tmp_path: Path) -> None:
    """``last`` is the newest run; a start that fits two runs is refused with a sentence."""
    first = store.create(tmp_path, {}, run_id="20260101T000000Z-aaaa")
    second = store.create(tmp_path, {}, run_id="20260102T000000Z-bbbb")
    assert store.runs(tmp_path) == [first, second]
    assert store.find(tmp_path, "last") == second
    assert store.find(tmp_path, "20260101") == first
    with pytest.raises(InputError, match="matches 2 runs"):
        store.find(tmp_path, "2026")
    with pytest.raises(InputError, match="matches no run"):
        store.find(tmp_path, "1999")


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    """The store is append-only."""
    store.create(tmp_path, {}, run_id="same")
    with pytest.raises(InputError, match="exists already"):
        store.create(tmp_path, {}, run_id="same")


@pytest.mark.parametrize("inside", [".", "deeper/still"])
def test_a_directory_below_a_file_is_refused_with_a_sentence(tmp_path: Path, inside: str) -> None:
    """What cannot be written to is refused before any work, by the field's name."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"^--results .* can be written to"):
        store.create(tmp_path / "file" / inside, {})
