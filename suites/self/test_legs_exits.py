"""Exit codes of ``harness legs``: each one that the help names is had, and no command has another."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from harness.command import legs_exits
from suites.self import legs_world
from suites.self.legs_folders import answers, asks, failed, sample
from suites.self.stub_server import Script

FINE, BROKEN, LEFT = "fine", "broken", "left"


def campaign(folder: Path, kind: str) -> Path:
    """A campaign of sums over one server: all is well, it dies at its third request, or replies are empty."""
    script = Script(die_at=3) if kind == BROKEN else Script(default={"text": ""} if kind == LEFT else {})
    leg = legs_world.process(folder, "a", script)
    words = ", ".join(f'"{word}"' for word in leg["command"])
    legs_world.data(folder)
    file = folder / "c.toml"
    file.write_text(
        'name = "c"\nbase = "a"\nrepeats = 1\n[task]\ndata = "data"\nshots = 2\nmax_tokens = 32\n'
        "max_length = 512\n[client]\nretries = 0\n[certify]\nprobe = 0\nindex_topk = 0\n[legs.a]\n"
        f'model = "m"\nbase_url = "{leg["base_url"]}"\ncommand = [{words}]\n',
        encoding="utf-8",
    )
    return file


def folder_of(folder: Path, kind: str) -> Path:
    """A folder of results: one leg that is certified, whose server crashed, or with a failed request."""
    asks(folder)
    status = {"status": "crashed", "expected": 9} if kind == BROKEN else {}
    rows = [failed(3), *answers([1, 1, 0])] if kind == LEFT else answers([1, 1, 0, 1])
    sample(folder, "a", 1, rows, **status)
    return folder


@pytest.mark.parametrize(
    ("kind", "run", "read"),
    [
        (FINE, exits.AGREE, exits.AGREE),
        (BROKEN, exits.ERROR, exits.UNPROVEN),
        (LEFT, exits.UNPROVEN, exits.UNPROVEN),
    ],
)
def test_a_crash_is_3_and_a_leg_that_is_not_certified_is_4(
    kind: str, run: int, read: int, tmp_path: Path
) -> None:
    """Of what is measured now; what is read off a folder crashed earlier, so there both are 4."""
    assert cli.main(["legs", "run", str(campaign(tmp_path, kind)), "--dir", str(tmp_path / "out")]) == run
    there = str(folder_of(tmp_path / "there", kind))
    for command in ("certify", "pool"):
        for where in (there, str(tmp_path / "out")):
            assert cli.main(["legs", command, where]) == read
        assert read in legs_exits.CODES[command]
    assert run in legs_exits.CODES["run"]
    assert cli.main(["legs", "status", there]) == exits.AGREE
    assert cli.main(["legs", "report", there, "--html", str(tmp_path / "page.html")]) == exits.AGREE


def test_every_command_tells_its_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """In its own help and in that of all legs, from one table; 2, 3 and 130 are the same everywhere."""
    with pytest.raises(SystemExit):
        cli.main(["legs", "--help"])
    whole = capsys.readouterr().out
    assert "driven through lm-eval" in whole.splitlines()[2]
    for command, codes in legs_exits.CODES.items():
        with pytest.raises(SystemExit):
            cli.main(["legs", command, "--help"])
        own = capsys.readouterr().out
        assert own.count("exit codes") == 1
        assert {exits.AGREE, exits.USAGE, exits.ERROR, exits.INTERRUPTED} <= set(codes) <= set(exits.MEANING)
        for code, text in codes.items():
            assert f"  {code:<4}{text}\n" in own + "\n"
            assert text in whole


@pytest.mark.parametrize("words", [["claims"], ["claims", "--n", "3"]])
def test_claims_without_a_word_says_what_there_is(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with what is allowed and how it is called."""
    assert cli.main(words) == exits.USAGE
    said = capsys.readouterr().err
    assert said.startswith("harness: what to do is missing, allowed is audit: 'harness claims audit' holds")
    assert said.count("\n") == 1
