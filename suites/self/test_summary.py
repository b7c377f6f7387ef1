"""Summary and progress: sums that add up, causes told once, and counts of what really ended."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.command.progress import Display, Watch
from harness.findings import Finding
from harness.judge.ledger import Entry, Ledger
from harness.judge.verdict import SUBJECTS, Grade, Status, Verdict
from harness.record import store, summary

FINDING = Finding("out-of-bounds-load", "some_kernel", "block_tables", "k/some.py:12", 4, {"lane": 3})
BOOK = Ledger(
    (Entry("oracle", "some_kernel", FINDING.kind, "block_tables", "k/some.py", ("decode",), "it is so"),)
)


def record(seed: int, status: Status = Status.AGREE, **more: Any) -> dict[str, Any]:
    case = f"decode-n1-h16-d128-ctx9-tshuffled-u0-l0-fbytes-s{seed}"
    verdict = Verdict(case, "decode", "oracle", "emulated", status, Grade.EXACT, total=9, seconds=1.5)
    return verdict.but(**more).to_record()


def printed(records: list[dict[str, Any]], book: Ledger, **more: Any) -> str:
    stream = io.StringIO()
    summary.show(Console(file=stream, width=120), records, book, **more)
    return stream.getvalue()


def test_every_case_is_in_one_column() -> None:
    """Green cases count by grade, the others by status."""
    records = [record(0), record(1, grade=Grade.ORDERED), record(2, Status.ERROR), record(3, Status.ERROR)]
    assert dict(summary.tally(records)["decode"]) == {"agree exact": 1, "agree ordered": 1, "error": 2}
    assert summary.statuses(records) == "2 agree, 2 error"


def test_a_status_outside_the_closed_list_is_no_quiet_gap() -> None:
    """A record of a word that nobody knows stops the table instead of vanishing from its sums."""
    with pytest.raises(ValueError, match="outside the closed lists"):
        summary.table([{**record(0), "status": "splendid"}])


def test_an_error_with_one_cause_is_told_once() -> None:
    """Fifty cases that break in the same way take one text."""
    text = printed([record(seed, Status.ERROR, reason="no disk") for seed in range(5)], Ledger())
    assert text.count("reason: no disk") == 1
    assert "and 4 cases like it" in text


def test_differences_come_first_and_are_each_told() -> None:
    """Two cases that differ are two texts, before errors."""
    failed = summary.red([record(0, Status.MISTRUSTED), record(1, Status.ERROR), record(2, Status.DIFFER)])
    assert [one["status"] for one in failed] == ["differ", "error", "mistrusted"]
    text = printed([record(seed, Status.DIFFER, reason="bits") for seed in (1, 2)], Ledger())
    assert text.count("FAILED") == 2


def test_findings_are_known_or_new() -> None:
    """With its ledger entry a finding comes with the reason; without, it is marked new."""
    records = [record(0, findings=(FINDING,)), record(1, findings=(FINDING,))]
    assert "known finding in 2 cases" in printed(records, BOOK)
    assert "it is so" in printed(records, BOOK)
    assert "NEW finding in 2 cases" in printed(records, Ledger())


def test_an_entry_that_nothing_met_is_stale() -> None:
    """Only where accesses are seen, and only over suites that ran."""
    assert summary.stale([record(0)], BOOK) == [BOOK.entries[0].key]
    assert summary.stale([record(0, executor="torch")], BOOK) == []
    assert summary.stale([record(0, suite="prefill")], BOOK) == []


def test_nothing_is_said_to_be_nothing() -> None:
    """An empty run prints that nothing ran."""
    assert "nothing ran" in printed([], Ledger())


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    return store.create(tmp_path, {})


def test_a_line_half_written_waits(run: store.Run) -> None:
    """What a worker is just writing is read once it is whole, and only once."""
    watch = Watch(run)
    journal = run.folder / "journal-gw0.jsonl"
    journal.write_text('{"event": "plan", "count": 2, "worker": "gw0"}\n{"event": "sta', encoding="utf-8")
    watch.poll()
    assert (watch.planned, watch.current) == (2, {})
    with open(journal, "a", encoding="utf-8") as stream:
        stream.write('rt", "case": "decode-x", "worker": "gw0"}\n')
    watch.poll()
    assert watch.current["gw0"][0] == "decode-x"


def test_only_verdicts_count_as_ended(run: store.Run) -> None:
    """A case that started is current, a case that ended is counted."""
    watch, journal = Watch(run), store.Journal(run, "gw0")
    journal.plan(4)
    journal.start("one", "oracle")
    watch.poll()
    assert (len(watch.records), watch.left(10.0)) == (0, None)
    journal.verdict(record(0))
    assert len(watch.poll()) == 1
    assert watch.poll() == []
    assert (watch.current, watch.left(10.0)) == ({}, 30.0)
    journal.close()


def test_without_a_terminal_there_are_plain_lines(run: store.Run) -> None:
    """No control codes; a failure is told when it happens."""
    stream = io.StringIO()
    display, journal = Display(Console(file=stream, width=80), Watch(run)), store.Journal(run, "gw0")
    journal.plan(2)
    journal.verdict(record(1, Status.DIFFER, reason="bits"))
    display.update()
    display.close()
    journal.close()
    assert stream.getvalue().startswith("FAILED  decode-n1")
    assert "\x1b" not in stream.getvalue()
    assert display.line().startswith("1 of 2 cases: 1 differ; 0:00 elapsed")


def test_several_paths_are_told_apart_and_who_answered_is_said() -> None:
    """One row a suite and path; a stage that another path answered is never counted as this one's."""
    one = record(0, facts={SUBJECTS: {"DecodeScores": "oracle (torch)", "TopK": "oracle (torch)"}})
    stood_in = record(1, path="atom", facts={SUBJECTS: {"Lengths": "atom (torch)", "TopK": "oracle (torch)"}})
    assert summary.subjects([one]) == []
    assert summary.subjects([stood_in]) == ["decode on atom: atom (torch): Lengths; oracle (torch): TopK"]
    text = printed([one, stood_in], Ledger())
    assert [line.split()[:2] for line in text.splitlines()[2:4]] == [["decode", "│"], ["decode", "│"]]
    assert "decode on oracle: oracle (torch): DecodeScores, TopK" in text
