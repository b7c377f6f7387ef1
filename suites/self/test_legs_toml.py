"""TOML files that people write: what is none is one sentence, in a campaign and in reported figures alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs import toml


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"n = " + b"1" * 5000, "is no TOML: a whole number in it has more than 64 bits"),
        (b"n = 0x" + b"f" * 5000, "is no TOML: n has more than 64 bits"),
        (b"[a]\nb = [1, {c = -9223372036854775809}]", "is no TOML: a.b 2.c has more than 64 bits"),
        (b"x = " + b"[" * 9999, "is no TOML: it is nested too deeply"),
        (b"x = ", "is no TOML: Invalid value"),
        (b"x = '\xff'", "cannot be read: it is no UTF-8 text"),
    ],
)
@pytest.mark.parametrize("words", [["legs", "run", "FILE"], ["claims", "audit", "--reported", "FILE"]])
def test_what_is_no_toml_is_one_sentence(
    words: list[str], content: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with the file."""
    file = tmp_path / "f.toml"
    file.write_bytes(content)
    assert cli.main([str(file) if word == "FILE" else word for word in words]) == exits.USAGE
    said = capsys.readouterr().err
    assert f"{file} {sentence}" in said
    assert said.count("\n") == 1


def test_the_widest_numbers_are_read(tmp_path: Path) -> None:
    """64 bits with a sign, as TOML defines; a folder and no file are refused."""
    file = tmp_path / "f.toml"
    file.write_text("a = 9223372036854775807\nb = -9223372036854775808\nc = true\n", encoding="utf-8")
    assert toml.read(file) == {"a": 2**63 - 1, "b": -(2**63), "c": True}
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            toml.read(path)
