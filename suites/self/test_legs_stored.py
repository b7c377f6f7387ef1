"""What no run has written is refused in a sentence: by status, certify, pool and report alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs import journal, stored
from harness.legs.page import facts
from harness.legs.pool.answers import matrix
from suites.self.legs_folders import asks, failed, record, sample

WHAT = ("status", "certify", "pool", "report")

CRASH = {"ended": "x", "compared": "y", "digest": "d"}

LINES: list[tuple[dict[str, Any], str]] = [
    ({"strict_correct": 5}, "strict_correct is 5, allowed is true or false"),
    ({"strict_correct": 0.5}, "strict_correct is 0.5, allowed is true or false"),
    ({"flexible_correct": []}, "flexible_correct is [], allowed is true or false"),
    ({"flexible_correct": None}, "flexible_correct is None, allowed is true or false: it is answered"),
    ({"status": "failed"}, "strict_correct is True, allowed is null: it is failed"),
    (
        {"status": "fine"},
        "status is 'fine', allowed is 'answered', 'empty', 'truncated', 'stopped' or 'failed'",
    ),
    ({"finish_reason": "length"}, "status is 'answered', allowed is 'truncated': finish_reason is 'length'"),
    ({"reply": " "}, "status is 'answered', allowed is 'empty': reply has no text"),
    ({"reply": "half \ud800"}, "reply: it has half of a surrogate pair, allowed is a text"),
    ({"question": -1}, "question is -1, allowed is a whole number of 0 or more"),
    ({"question": "1"}, "question is '1', allowed is a whole number of 0 or more"),
    ({"question": True}, "question is True, allowed is a whole number of 0 or more"),
    ({"prompt_tokens": -3000}, "prompt_tokens is -3000, allowed is a whole number of 0 or more"),
    ({"completion_tokens": 10**12}, "completion_tokens is 1000000000000, allowed is 10000000 or less"),
    ({"prompt_tokens": 3000.5}, "prompt_tokens is 3000.5, allowed is a whole number of 0 or more"),
    ({"latency": "fast"}, "latency is 'fast', allowed is a finite number"),
    ({"latency": float("nan")}, "latency is nan, allowed is a finite number"),
    ({"prompt_hash": 7}, "prompt_hash is 7, allowed is a text"),
    ({"retries": {}}, "retries is {}, allowed is a whole number of 0 or more"),
    ({"strict": "[invalid]"}, "strict_correct is True, allowed is false: strict is '[invalid]'"),
    ({"flexible": "[invalid]"}, "flexible_correct is True, allowed is false: flexible is '[invalid]'"),
    (
        {"finish_reason": "abort"},
        "finish_reason is 'abort', allowed is stop, eos, eos_token, stop_sequence, stop_token, end_turn,"
        " length, max_tokens, max_length: status is 'answered'",
    ),
    ({"http_status": 500}, "http_status is 500, allowed is 200: status is 'answered'"),
    ({"error": "HTTP 500"}, "error is 'HTTP 500', allowed is null: status is 'answered'"),
    (
        {**failed(2), "reply": "It is 2."},
        "reply is 'It is 2.', allowed is null: status is 'failed'",
    ),
    (
        {"status": "x" * 9999},
        f"status is '{'x' * 79}..., allowed is 'answered', 'empty', 'truncated', 'stopped' or 'failed'",
    ),
]
"""Changes of a line, and the sentence."""

MANIFESTS: list[tuple[Any, str]] = [
    ([], "it is [], allowed is a table"),
    ({"status": 5}, "status is 5, allowed is 'running', 'finished', 'crashed' or 'stopped'"),
    ({"identity": [1]}, "identity is [1], allowed is a table"),
    ({"identity": None}, "identity is None, allowed is a table"),
    ({"expected": -4}, "expected is -4, allowed is a whole number of 0 or more"),
    ({"expected": "4"}, "expected is '4', allowed is a whole number of 0 or more"),
    ({"started": 5}, "started is 5, allowed is a text"),
    ({"crashes": ["a"]}, "crashes.0 is 'a', allowed is a table"),
    ({"crashes": [{"ended": "x"}]}, "crashes.0.compared is missing, allowed is a file as the harness"),
    ({"log_segments": "abc"}, "log_segments is 'abc', allowed is a list"),
    ({"log_segments": None}, "log_segments is None, allowed is a list"),
    ({"crashes": None}, "crashes is None, allowed is a list"),
    ({"patterns": None}, "patterns is None, allowed is a table"),
    ({"attempts": None}, "attempts is None, allowed is a whole number of 0 or more"),
    ({"crashes": [{**CRASH, "lines": 5}]}, "crashes.0.lines is 5, allowed is a list"),
    ({"crashes": [{**CRASH, "signature": [5]}]}, "crashes.0.signature.0 is 5, allowed is a text"),
    ({"crashes": [{**CRASH, "time": 4}]}, "crashes.0.time is 4, allowed is a text"),
    ({"log_segments": [{"from": 0}]}, "log_segments.0.to is missing, allowed is a file as the harness"),
    ({"log_segments": [{"from": "0"}]}, "log_segments.0.from is '0', allowed is a whole number of 0 or more"),
    ({"log_segments": [{"from": 9, "to": 3}]}, "log_segments.0: to is 3, allowed is 9 (where it"),
    ({"patterns": {"log": 1}}, "patterns.log is 1, allowed is true or false"),
    ({"patterns": {"log": True, "required": {"a": -1}}}, "patterns.required.a is -1, allowed is a"),
    ({"patterns": {"log": True, "forbidden": ["a"]}}, "patterns.forbidden is ['a'], allowed is a table"),
    ({"acceptance": "two"}, "acceptance is 'two', allowed is a finite number"),
]  # fmt: skip
"""Manifests that are none, or changes of one, and the sentence."""


def lines(folder: Path, *rows: dict[str, Any]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "a" / "1" / "samples.jsonl").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("change", "sentence"), LINES)
def test_a_line_that_no_run_writes_is_refused(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    """With file, line, field and what is allowed there."""
    sample(tmp_path)
    stored.check(tmp_path)
    lines(tmp_path, record(0), failed(1), record(2) | change)
    with pytest.raises(InputError) as told:
        stored.check(tmp_path)
    assert str(told.value) == f"{tmp_path / 'a' / '1' / 'samples.jsonl'} line 3: {sentence}"


@pytest.mark.parametrize(("change", "sentence"), MANIFESTS)
def test_a_manifest_that_no_run_writes_is_refused(change: Any, sentence: str, tmp_path: Path) -> None:
    """With the field's place in it."""
    where = sample(tmp_path)
    file = where.folder / "manifest.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(
        json.dumps({**content, **change} if isinstance(change, dict) else change), encoding="utf-8"
    )
    with pytest.raises(InputError) as told:
        stored.check(tmp_path)
    assert str(told.value).startswith(f"{file}: {sentence}")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"strict": "7"},
            "strict_correct is True, allowed is false: strict is '7' and target is 'So.\\n#### 18'",
        ),
        ({"flexible": "$1,8"}, ""),
        (
            {"flexible": "-18"},
            "flexible_correct is True, allowed is false: flexible is '-18' and target is 'So",
        ),
        ({"strict_correct": False}, "strict_correct is False, allowed is true: strict is '18' and target is"),
        ({"strict": "18.", "strict_correct": False}, ""),
        ({"strict": "18.0", "strict_correct": False}, ""),
        ({"strict": "eighteen"}, ""),
        ({"target": None}, ""),
        ({"target": "#### [invalid]", "strict": "[invalid]"}, ""),
    ],
)
def test_a_score_fits_what_was_extracted(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    """Of tasks whose answer is a number; of what is no plain number, and of other tasks, nothing is said."""
    known = {"strict": "18", "flexible": "18", "target": "So.\n#### 18"}
    for task in ("gsm8k", "gsm8k_cot", "others"):
        where = sample(tmp_path / task, records=[record(0, **known)], identity={"task": task})
        stored.check(tmp_path / task)
        lines(tmp_path / task, record(0, **known) | change)
        if sentence and task != "others":
            with pytest.raises(InputError) as told:
                stored.check(tmp_path / task)
            assert str(told.value).startswith(f"{where.samples} line 1: {sentence}")
        else:
            stored.check(tmp_path / task)


@pytest.mark.parametrize("name", journal.FIELDS)
def test_what_is_read_as_unfinished_is_refused_first(name: str, tmp_path: Path) -> None:
    """Null in any field of a manifest: refused here, or a manifest that the journal reads."""
    where = sample(tmp_path)
    where.update(**{name: None})
    try:
        stored.check(tmp_path)
    except InputError:
        return
    assert where.manifest()["expected"] == (None if name == "expected" else 4)


@pytest.mark.parametrize("content", ["{", "\x00", "[" * 100_000, "\udcff", ""])
@pytest.mark.parametrize("name", ["manifest.json", "probe.json", "samples.jsonl"])
def test_a_damaged_file_is_refused(name: str, content: str, tmp_path: Path) -> None:
    """Cut, nested without end, no text; of answers only the start of a line is what a kill leaves."""
    where = sample(tmp_path)
    (where.folder / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    if name == "samples.jsonl" and content in ("{", ""):
        stored.check(tmp_path)
        return
    with pytest.raises(InputError, match=f"{name} (line 1 )?is no JSON, allowed is "):
        stored.check(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "probe.json", "samples.jsonl"])
def test_a_folder_in_a_files_place_is_refused(name: str, tmp_path: Path) -> None:
    """It would read as a sample that nobody measured, or a server that nobody probed."""
    where = sample(tmp_path)
    (where.folder / name).unlink(missing_ok=True)
    (where.folder / name).mkdir()
    with pytest.raises(InputError, match=f"{name} cannot be read: is a directory"):
        stored.check(tmp_path)


def test_answers_without_a_manifest_are_refused(tmp_path: Path) -> None:
    """The sample would be gone without a word."""
    (sample(tmp_path).folder / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"a/1/manifest\.json cannot be read: no such file"):
        stored.check(tmp_path)


def test_half_a_letter_in_an_identity_is_refused(tmp_path: Path) -> None:
    """No page could be written with it."""
    where = sample(tmp_path)
    file = where.folder / "manifest.json"
    file.write_text(json.dumps({"identity": {"x": "\ud800"}}), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"manifest\.json has half of a surrogate pair, allowed are whole letters"
    ):
        stored.check(tmp_path)


def test_a_torn_line_is_no_damage(tmp_path: Path) -> None:
    """A kill in the middle of one, then the next run's; its question has no answer."""
    where = sample(tmp_path)
    text = where.samples.read_text(encoding="utf-8")
    for cut in (1, 5, 14, 40, 200):
        where.samples.write_text(text[:cut] + "\n" + text, encoding="utf-8")
        stored.check(tmp_path)
    lines(tmp_path, {"question": 1})
    with pytest.raises(InputError, match="line 1: prompt_hash is missing, allowed is a file as the harness"):
        stored.check(tmp_path)


def test_a_folder_that_would_be_a_sample_twice_is_refused(tmp_path: Path) -> None:
    """01 beside 1."""
    sample(tmp_path).folder.rename(tmp_path / "a" / "01")
    with pytest.raises(InputError, match=r"a/01 is a sample's folder, allowed is the name 1$"):
        stored.check(tmp_path)


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", "[]"),
        ("manifest.json", '{"identity": 5}'),
        ("samples.jsonl", "[]\n"),
        ("samples.jsonl", json.dumps(record(0, strict_correct=5)) + "\n"),
        ("probe.json", '{"replies": ["abc"]}'),
        ("probe.json", "5"),
    ],
)
def test_every_command_refuses_in_one_sentence(
    what: str, name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the file is named."""
    asks(tmp_path / "camp")
    where = sample(tmp_path / "camp")
    (where.folder / name).write_text(content, encoding="utf-8")
    more = ["--html", str(tmp_path / "page.html")] if what == "report" else []
    assert cli.main(["legs", what, str(tmp_path / "camp"), *more]) == exits.USAGE
    said = capsys.readouterr().err
    assert (said.count("\n"), f"{where.folder / name}" in said, "allowed is" in said) == (1, True, True)


def test_certificates_of_before_are_not_read(tmp_path: Path) -> None:
    """They are made anew, so that a damaged or edited file of them changes nothing."""
    asks(tmp_path)
    sample(tmp_path)
    assert cli.main(["legs", "certify", str(tmp_path)]) == exits.AGREE
    file = tmp_path / "certificates.json"
    before = file.read_text(encoding="utf-8")
    file.write_text("[{", encoding="utf-8")
    for what in WHAT[:3]:
        assert cli.main(["legs", what, str(tmp_path)]) == exits.AGREE
    assert file.read_text(encoding="utf-8") == before


def test_answers_from_elsewhere_are_checked_again(tmp_path: Path) -> None:
    """A table that did not come through `stored` does not count 5 as an answer either."""
    import pandas as pd

    with pytest.raises(ValueError, match="leg a has an answer of 5"):
        matrix(pd.DataFrame([{"leg": "a", "sample": 1, "question": 0, "strict_correct": 5}]), "a", "strict")


def test_a_number_of_questions_that_nobody_knows_is_a_question_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the table of samples and on the page; None would read as a word of the harness."""
    sample(tmp_path, expected=None)
    assert cli.main(["legs", "status", str(tmp_path)]) == exits.AGREE
    assert " 4/? " in capsys.readouterr().out
    assert facts.of_folder(tmp_path).samples[0][facts.HEADS.index("done")] == "4/?"
