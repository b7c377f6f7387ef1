"""Tokens that the server did not tell are counted in the very prompts that were asked, or not at all."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from harness import cli, exits
from harness.exits import CannotRun
from harness.legs import importing, journal, kept_prompts
from harness.legs.certify import tokens
from harness.legs.certify.certificate import Verdict
from suites.self.legs_folders import point, record, sample
from suites.self.legs_world import N, asked, driven
from suites.self.stub_server import Script, Stub
from suites.self.test_legs_import import BOTH, run


def words(folder: Path) -> Path:
    """A folder with a tokenizer whose tokens are words, and which cuts at 3 unless told otherwise."""
    made = Tokenizer(WordLevel({"unknown": 0}, unk_token="unknown"))
    made.pre_tokenizer = WhitespaceSplit()
    made.enable_truncation(3)
    made.enable_padding(length=50)
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return folder


def test_words_are_counted_without_cutting_or_padding(tmp_path: Path) -> None:
    """A tokenizer.json may ask for both, and no prompt would exceed anything; folder and file are alike."""
    folder = words(tmp_path / "t")
    for path in (folder, folder / "tokenizer.json"):
        assert tokens.tokenizer(path)("one two three four five") == 5


def test_past_runs_keep_the_prompts_that_were_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each prompt once, though lm-eval logs it for both filters; counted only when a tokenizer is given."""
    camp = tmp_path / "camp"
    where = importing.import_run(run(tmp_path / "out", BOTH), "a", camp)
    kept = kept_prompts.read(where)
    assert kept == [f"{'x' * 20}Question: {question}\nAnswer:" for question in range(4)]
    assert point(camp, "prompts").said == "4 of 4 prompts have no token count"
    count = tokens.tokenizer(words(tmp_path / "t"))
    found = point(camp, "prompts", count=count, index_topk=2)
    assert (found.verdict, found.said) == (
        Verdict.HOLDS,
        "4 of 4 prompts are longer than 2 tokens (min 3, p50 3, max 3, 4 of 4 by the tokenizer); "
        "decode steps were not counted",
    )  # fmt: skip
    line = ["legs", "certify", str(camp), "--tokenizer", str(tmp_path / "t")]
    assert cli.main(line) == exits.UNPROVEN
    assert "does not exercise the sparse indexer: 4 of 4 prompts" in " ".join(capsys.readouterr().out.split())


def test_prompts_of_a_campaign_are_built_again(tmp_path: Path) -> None:
    """The server tells no usage; the prompts are those of the records, by their hashes, else uncounted."""
    with Stub(Script(default={"usage": "absent"})) as stub:
        driven(tmp_path, asked(tmp_path, {"a": {"base_url": stub.url}}))
        lengths = [len(body["prompt"].split()) for body in stub.bodies]
    count = tokens.tokenizer(words(tmp_path / "t"))
    found = point(tmp_path / "out", "prompts", count=count).figures
    assert (found["by_tokenizer"], found["min"], found["max"]) == (N, min(lengths), max(lengths))
    where = journal.place(tmp_path / "out", "a", 1)
    rows, _ = journal.read(where.samples)
    with journal.Writer(where) as writer:
        writer.add({**rows[0], "prompt_hash": "another"})
    one = point(tmp_path / "out", "prompts", count=count, index_topk=34)
    assert one.verdict is Verdict.UNKNOWN
    assert one.said.startswith("1 of 6 prompts have no token count (min 35, ")


def test_what_the_server_told_is_not_counted_anew(tmp_path: Path) -> None:
    """Its own count is that of what it read; a text that nobody kept has none."""
    where = importing.import_run(run(tmp_path / "out", BOTH), "a", tmp_path / "camp")
    rows, _ = journal.read(where.samples)
    with journal.Writer(where) as writer:
        writer.add({**rows[0], "prompt_tokens": 77})
    count = tokens.tokenizer(words(tmp_path / "t"))
    found = point(tmp_path / "camp", "prompts", count=count).figures
    assert (found["max"], found["min"], found["by_tokenizer"], found["counted"]) == (77, 3, 3, 4)
    sample(tmp_path / "bare", records=[record(0, prompt_tokens=None)])
    assert point(tmp_path / "bare", "prompts", count=count).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b'"a prompt"\n' * 99)[:-30], b"no gzip", b"",
        *(gzip.compress(line + b"\n") for line in (b"5", b'{"a": 1}', b"{bad", b'"\\ud800"', b"\xff")),
    ],
    # Gzip writes the time of day into its header: as names they would differ between two workers.
    ids=["cut", "no-gzip", "empty", "number", "mapping", "bad", "surrogate", "byte"],
)  # fmt: skip
def test_damaged_prompts_are_told(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut, no gzip, no text: one sentence that names the file, and nothing is counted."""
    where = importing.import_run(run(tmp_path / "out", BOTH), "a", tmp_path / "camp")
    (where.folder / kept_prompts.PROMPTS).write_bytes(content)
    line = ["legs", "certify", str(tmp_path / "camp"), "--tokenizer", str(words(tmp_path / "t"))]
    assert cli.main(line) == (exits.USAGE if content else exits.UNPROVEN)
    said = capsys.readouterr().err
    assert said.count("\n") == bool(content)
    assert (f"{where.folder / kept_prompts.PROMPTS} is damaged, allowed is" in said) == bool(content)


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate without token counts would look as if nobody had asked for them."""
    folder = words(tmp_path / "t")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(CannotRun, match="--tokenizer needs the package tokenizers"):
        tokens.tokenizer(folder)
