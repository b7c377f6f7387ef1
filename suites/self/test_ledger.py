"""Known findings are matched exactly, new ones stay new, and an entry without its defect is stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.findings import Finding
from harness.judge import ledger
from harness.judge.ledger import Entry, Ledger, LedgerError
from harness.judge.verdict import Grade, Status, Verdict

ENTRY = Entry(
    "aiter", "prefill_kernel", "out-of-bounds-load", "tables", "mqa/prefill.py", ("prefill", "varqlen"), "why"
)
FOUND = Finding(
    "out-of-bounds-load", "prefill_kernel", "tables", "ops/mqa/prefill.py:439 < ops/mqa/prefill.py:548", 8
)
BOOK = Ledger((ENTRY,))

TEXT = """
[[known]]
path = "aiter"
kernel = "prefill_kernel"
kind = "out-of-bounds-load"
operand = "tables"
file = "mqa/prefill.py"
suites = ["prefill", "varqlen"]
reason = "why"
"""


def ran(suite: str, *, hit: bool = False, **changes: object) -> Verdict:
    verdict = Verdict(f"{suite}-x", suite, "aiter", "emulated", Status.AGREE, Grade.EXACT, total=1)
    return verdict.but(facts={ledger.HITS: [ENTRY.key] if hit else []}, **changes)


def test_a_known_finding_is_told_from_a_new_one() -> None:
    """Line numbers and counts do not matter, everything else does."""
    assert BOOK.split((FOUND,), "aiter") == (((FOUND, ENTRY),), ())
    assert BOOK.split((replace(FOUND, location="elsewhere/mqa/prefill.py:1"),), "aiter")[1] == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "out-of-bounds-store"},
        {"kernel": "decode_kernel"},
        {"operand": "weights"},
        {"location": "ops/mqa/decode.py:439"},
        {"location": "ops/other_mqa/prefill.py:439"},
        {"location": "prefill.py:439"},
    ],
)
def test_a_finding_that_differs_in_one_thing_is_new(changes: dict[str, str]) -> None:
    """Another kind, kernel, operand or file is another finding."""
    other = replace(FOUND, **changes)  # type: ignore[arg-type]
    assert BOOK.split((other, FOUND), "aiter") == (((FOUND, ENTRY),), (other,))


def test_another_path_has_its_own_findings() -> None:
    """What is known of one path is new on another."""
    assert BOOK.split((FOUND,), "flydsl") == ((), (FOUND,))


def test_an_entry_that_no_run_met_is_stale() -> None:
    """It takes all suites of the entry, run on its path, without a hit."""
    assert BOOK.stale([ran("prefill"), ran("varqlen")]) == (ENTRY,)
    assert BOOK.stale([ran("prefill", hit=True), ran("varqlen")]) == ()
    assert BOOK.stale([ran("prefill"), ran("decode")]) == ()
    assert BOOK.stale([ran("prefill"), ran("varqlen", path="flydsl")]) == ()
    assert BOOK.stale([]) == ()


@pytest.mark.parametrize("executor", ["torch", "device gfx950"])
def test_an_executor_that_sees_no_accesses_clears_nothing(executor: str) -> None:
    """Without an emulator there is nothing to be met."""
    assert BOOK.stale([ran("prefill"), ran("varqlen", executor=executor)]) == ()


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.ERROR])
def test_a_case_that_did_not_run_clears_nothing(status: Status) -> None:
    """A suite whose cases broke has not looked."""
    assert BOOK.stale([ran("prefill"), ran("varqlen", status=status)]) == ()


def test_a_file_is_read(tmp_path: Path) -> None:
    """One table an entry."""
    file = tmp_path / "ledger.toml"
    file.write_text(TEXT)
    assert ledger.load(file) == BOOK


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TEXT.replace('reason = "why"', ""), "lacks field reason"),
        (TEXT.replace('reason = "why"', 'reason = " "'), "field reason"),
        (TEXT.replace("out-of-bounds-load", "odd-load"), "kind 'odd-load'"),
        (TEXT.replace('"varqlen"', '"nosuch"'), "suites"),
        (TEXT.replace('["prefill", "varqlen"]', "[]"), "suites"),
        (TEXT + 'line = "12"', "unknown field line"),
        (TEXT + TEXT, "twice"),
        ("[[knwon]]", "'knwon'"),
        ("known = ", "no TOML"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    """The sentence names the entry and the field."""
    file = tmp_path / "ledger.toml"
    file.write_text(text)
    with pytest.raises(LedgerError, match=says):
        ledger.load(file)


def test_the_projects_own_ledger_reads() -> None:
    """Every entry has a path, a reason and suites."""
    for entry in ledger.load().entries:
        assert len(entry.reason) > 20
