"""A capture that is not one is refused by one sentence that names the field and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from harness import cli, exits
from suites.self import captures
from suites.self.captures import DECODE, PREFILL, Tensors


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The sentence with which a command line is refused: exit code 2, one line of standard error."""
    capsys.readouterr()
    assert cli.main(line) == exits.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("harness: ") and said.err.count("\n") == 1
    return said.err


def check(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    return refused(capsys, "check", "--capture", str(folder), "--path", "oracle")


MANIFESTS = [
    ("next_n = 2", "next_n = ", "manifest.toml is no TOML"),
    ("format = 1", "format = 2", "format is 2 in manifest.toml, allowed is 1"),
    ("format = 1\n", "", "format is missing in manifest.toml, allowed is 1"),
    ('"decode"', '"varqlen"', 'kind is \'varqlen\' in manifest.toml, allowed is "decode" or "prefill"'),
    ('"decode"', "[]", "kind is [] in manifest.toml, allowed is"),
    ('"decode"', '"prefill"', "next_n is no field of a prefill manifest.toml, allowed are format, kind"),
    ("next_n = 2\n", "", "next_n is missing in manifest.toml, allowed is an integer of 1 and above"),
    ("next_n = 2", "next_n = true", "next_n is True in manifest.toml, allowed is an integer"),
    ("next_n = 2", "next_n = 3", "q_codes has 6 rows, allowed are 9: next_n = 3 for each of the 3 sequences"),
    ("max_seq_len = 512", "max_seq_len = 0", "max_seq_len is 0 in manifest.toml"),
    ("max_seq_len = 512", "max_seq_len = 512.0", "max_seq_len is 512.0 in manifest.toml"),
    ("max_seq_len = 512", "max_seq_len = 299", "logits has shape [6, 512], allowed is [T, max_seq_len]"),
    ("page_rows = 64", "page_rows = 16", "page_rows is 16 in manifest.toml, allowed is 64"),
    (
        "weight_scale = ",
        'weight_scale = "much" #',
        "weight_scale is 'much' in manifest.toml, allowed is a finite",
    ),
    ("weight_scale = ", 'weight_scale = "0xg" #', "weight_scale is '0xg' in manifest.toml"),
    ("weight_scale = ", "weight_scale = nan #", "weight_scale is nan in manifest.toml"),
    ("weight_scale = ", "weight_scale = 1e39 #", "weight_scale is 1e+39 in manifest.toml"),
    ("weight_scale = ", 'weight_scale = "0x1p9999" #', "weight_scale is '0x1p9999' in manifest.toml"),
    ("index_topk = 150", "index_topk = -1", "index_topk is -1 in manifest.toml"),
    (
        "index_topk = 150\n",
        "",
        "index_topk is missing in manifest.toml, it is needed with the tensor topk_ids",
    ),
    (
        "index_topk = 150",
        "index_topk = 64",
        "topk_ids has shape [6, 150], allowed is [T, index_topk], here [6, 64]",
    ),
    ("[versions]", "[version]", "version is no field of a decode manifest.toml"),
    ("[versions]", "[versions]\nchip = 950", "versions is"),
    ("note = ", "note = 3 #", "note is 3 in manifest.toml, allowed is a text"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), MANIFESTS)
def test_manifests(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every field, missing, of another type, out of range, or not known."""
    folder = captures.written(tmp_path / "cap", DECODE)
    text = (folder / "manifest.toml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (folder / "manifest.toml").write_text(text.replace(old, new), encoding="utf-8")
    assert f"harness: {sentence}" in check(capsys, folder)


def put(name: str, *place: Any, value: Any) -> Callable[[Tensors], object]:
    """Sets one element of a tensor."""

    def change(tensors: Tensors) -> None:
        tensors[name][place] = value

    return change


def swap(name: str, how: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors], object]:
    """Puts another tensor in place of one."""

    def change(tensors: Tensors) -> None:
        tensors[name] = how(tensors[name])

    return change


def rename(old: str, new: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({new: tensors.pop(old)})


TENSORS = [
    (
        DECODE,
        rename("q_codes", "query"),
        "query is no tensor of a decode capture, allowed are q_codes, q_scales",
    ),
    (DECODE, lambda tensors: tensors.pop("k_scales"), "k_scales is missing in tensors.safetensors, a decode"),
    (PREFILL, rename("row_end", "context_lens"), "context_lens is no tensor of a prefill capture"),
    (DECODE, swap("q_codes", lambda x: x.int()), "q_codes is int32, allowed is uint8"),
    (DECODE, swap("weights", lambda x: x.float()), "weights is float32, allowed is bfloat16"),
    (DECODE, swap("context_lens", lambda x: x.long()), "context_lens is int64, allowed is int32"),
    (DECODE, swap("logits", lambda x: x.bfloat16()), "logits is bfloat16, allowed is float32"),
    (DECODE, swap("q_codes", lambda x: x[:, :24]), "q_codes has 24 heads, allowed are multiples of 16"),
    (
        DECODE,
        swap("q_codes", lambda x: x.repeat(1, 5, 1)),
        "q_codes has 160 heads, allowed are multiples of 16",
    ),
    (DECODE, swap("q_codes", lambda x: x[..., :32]), "q_codes has head dim 64, allowed are 128 and 256"),
    (DECODE, swap("q_codes", lambda x: x.flatten(1)), "q_codes has shape [6, 2048], allowed is [T, H, D/2]"),
    (DECODE, swap("q_codes", lambda x: x[:5]), "q_codes has 5 rows, allowed are 6: next_n = 2"),
    (DECODE, swap("q_scales", lambda x: x[..., :2]), "q_scales has shape [6, 1, 4, 16, 2], allowed is [T, K"),
    (DECODE, swap("k_codes", lambda x: x[:, :, :, :16]), "k_codes has shape"),
    (DECODE, swap("k_codes", lambda x: x[:0]), "k_codes has shape [0, 1, 4, 64, 16], allowed is"),
    (DECODE, swap("k_codes", lambda x: x[:-1]), "k_scales has shape"),
    (DECODE, swap("block_tables", lambda x: x[:2]), "q_codes has 6 rows, allowed are 4"),
    (
        DECODE,
        swap("block_tables", lambda x: x[:, :4]),
        "context_lens is 300, allowed are 0 to 256 for sequence 0",
    ),
    (
        DECODE,
        swap("weights", lambda x: x[:, :16]),
        "weights has shape [6, 16], allowed is [T, H], here [6, 32]",
    ),
    (DECODE, swap("context_lens", lambda x: x[:2]), "context_lens has shape [2], allowed is [B], here [3]"),
    (DECODE, put("context_lens", 1, value=-1), "context_lens is -1, allowed are 0 to 512 for sequence 1"),
    (DECODE, put("context_lens", 2, value=513), "context_lens is 513, allowed are 0 to 512 for sequence 2"),
    (DECODE, put("block_tables", 1, 1, value=-1), "block_tables is -1, allowed are 0 to 9"),
    (DECODE, put("block_tables", 0, 4, value=10), "block_tables is 10, allowed are 0 to 9"),
    (DECODE, put("weights", 3, 7, value=torch.nan), "weights is NaN in row 3, head 7, allowed are numbers"),
    (DECODE, swap("schedule", lambda x: x[:, :3]), "schedule has shape"),
    (
        DECODE,
        swap("schedule", lambda x: x[:3]),
        "schedule has 3 entries, allowed are multiples of next_n = 2",
    ),
    (DECODE, put("schedule", 1, 0, value=6), "schedule row is 6, allowed are 0 to 5 for entry 1"),
    (DECODE, put("schedule", 1, 1, value=-1), "schedule first chunk is -1, allowed are 0 to 1 for entry 1"),
    (DECODE, put("schedule", 0, 2, value=3), "schedule chunk count is 3, allowed are 0 to 2 for entry 0"),
    (
        DECODE,
        put("schedule", 0, slice(1, 3), value=torch.tensor([1, 2])),
        "schedule first chunk + count is 3",
    ),
    (DECODE, put("schedule", 0, 3, value=513), "schedule context length is 513, allowed are 0 to 512"),
    (DECODE, swap("topk_ids", lambda x: x.long()), "topk_ids is int64, allowed is int32"),
    (PREFILL, put("row_seq", 2, value=2), "row_seq is 2, allowed are 0 to 1 for row 2"),
    (
        PREFILL,
        put("row_start", 1, value=292),
        "row_start is 292, allowed are 0 to 291 (its row_end) for row 1",
    ),
    (PREFILL, put("row_start", 1, value=-1), "row_start is -1, allowed are 0 to 291"),
    (PREFILL, put("row_end", 3, value=513), "row_end is 513, allowed are 0 to 512 for row 3"),
    (PREFILL, put("block_tables", 1, 0, value=99), "block_tables is 99, allowed are 0 to 9"),
    (PREFILL, put("schedule", 0, 1, value=2), "schedule sequence is 2, allowed are 0 to 1 for entry 0"),
    (PREFILL, put("schedule", 0, 5, value=600), "schedule end is 600, allowed are 0 to 512 for entry 0"),
]


@pytest.mark.parametrize(("text", "change", "sentence"), TENSORS)
def test_tensors(
    text: str,
    change: Callable[[Tensors], object],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names, dtypes, shapes and ranges; what a kernel would take on trust."""
    folder = captures.written(tmp_path / "cap", text, change)
    assert f"harness: {sentence}" in check(capsys, folder)


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No folder, a file, no manifest, no tensors, bytes that are no text, files that were cut off."""
    assert "none is no directory" in check(capsys, tmp_path / "none")
    folder = captures.written(tmp_path / "cap", DECODE)
    manifest, tensors = folder / "manifest.toml", folder / "tensors.safetensors"
    assert "manifest.toml is no directory" in check(capsys, manifest)
    whole, told = tensors.read_bytes(), manifest.read_bytes()
    for cut in (0, 5, 200, len(whole) // 2, len(whole) - 1):
        tensors.write_bytes(whole[:cut])
        assert "tensors.safetensors in" in check(capsys, folder)
    tensors.write_bytes(whole + b"\0")
    assert "is no whole safetensors file" in check(capsys, folder)
    tensors.unlink()
    assert "tensors.safetensors of --capture" in check(capsys, folder)
    tensors.mkdir()
    assert "cannot be read: is a directory" in check(capsys, folder)
    manifest.write_bytes(b"\xff\xfe" + told)
    tensors.rmdir()
    save_file({"x": torch.zeros(1)}, tensors)
    assert "manifest.toml in" in check(capsys, folder)
    manifest.unlink()
    assert "manifest.toml of --capture" in check(capsys, folder)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("check", "ID is missing; give a case id or --capture DIR"),
        (f"check {DECODE} --capture CAP", "beside --capture; give one or --capture DIR"),
        ("check --capture CAP --path nope", "--path is 'nope'"),
        ("verify --capture CAP --suite decode", "--suite means nothing with --capture"),
        ("verify --capture CAP --junit f", "--junit means nothing with --capture"),
        ("verify --capture CAP -n 2", "-n means nothing with --capture"),
        ("verify --capture CAP --limit 5", "--limit means nothing with --capture"),
        ("verify --capture CAP --cases smoke", "--cases means nothing with --capture"),
        ("verify --capture CAP --json CAP", "--json CAP is a directory"),
        ("verify --capture CAP/none", "--capture CAP/none is no directory"),
        ("capture-spec --example DIR", "--example expected 2 arguments"),
        ("capture-spec --example CAP nope", "suite is 'nope'"),
        (f"capture-spec --example CAP {DECODE}", "DIR CAP holds a manifest.toml already"),
        (f"capture-spec --example CAP/manifest.toml {DECODE}", "cannot be written to"),
        (
            "capture-spec --example x quantise-r4-d128-fbytes-s1",
            "ID is a case of suite quantise, allowed are",
        ),
    ],
)
def test_command_lines(
    line: str,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What does not go together is refused before anything runs or is written."""
    monkeypatch.chdir(tmp_path)
    cap = str(captures.written(tmp_path / "cap", DECODE))
    assert sentence.replace("CAP", cap) in refused(capsys, *line.replace("CAP", cap).split())
    assert [path.name for path in tmp_path.iterdir()] == ["cap"]
