"""The README is true: commands, options, exit codes, suites, words and paths in it exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import cli, exits
from harness.case import cases
from harness.case.cases import SUITES
from harness.judge.verdict import Grade, Status
from suites.self import planted

README = (planted.ROOT / "README.md").read_text(encoding="utf-8")


def rows(header: str) -> dict[str, str]:
    """First to second cell of the table whose first heading is ``header``."""
    table = README.split(f"| {header} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {cell[0].strip("`"): cell[1] for cell in cells}


def test_the_first_screen_is_a_sentence_two_commands_and_their_output() -> None:
    """What a reader needs comes before line 40."""
    screen = "\n".join(README.splitlines()[:40])
    assert "python3 -m pip install tox && python3 -m tox -e verify" in screen
    assert "python3 -m pip install tox && python3 -m tox -e tests" in screen
    assert "<!-- output of: harness verify -->" in screen


def test_every_environment_that_is_named_exists() -> None:
    """``tox -e NAME`` in the text is an environment of tox.ini."""
    named = set(re.findall(r"tox -e (\w+)", README))
    assert {"verify", "tests", "lint", "types"} <= named
    tox = (planted.ROOT / "tox.ini").read_text(encoding="utf-8")
    assert all(f"[testenv:{name}]" in tox for name in named)


def test_every_command_is_listed_and_every_listed_one_exists() -> None:
    """The table of commands is the command line's own."""
    listed = [name.split()[1] for name in rows("command")]
    assert sorted(listed) == sorted(cli.COMMANDS)


def test_the_options_of_verify_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Options named beside ``verify`` are in its help."""
    with pytest.raises(SystemExit):
        cli.main(["verify", "--help"])
    said = capsys.readouterr().out
    options = re.findall(r"`(-[-\w]+)`", rows("command")["harness verify"])
    assert len(options) == 11
    assert all(option in said for option in options)


def test_the_exit_codes_are_the_real_ones() -> None:
    """The table is the one that ``--help`` prints."""
    assert rows("exit code") == {str(code): meaning for code, meaning in exits.MEANING.items()}


def test_suites_statuses_and_grades_are_the_closed_lists() -> None:
    """No word is missing and none is invented."""
    assert list(rows("suite")) == list(SUITES)
    assert list(rows("status")) == [str(status) for status in Status]
    assert list(rows("grade")) == [str(grade) for grade in Grade if grade is not Grade.NONE]


def test_every_id_in_it_is_a_case() -> None:
    """An id that is shown can be run."""
    for found in re.findall(r"harness check ([a-z][a-z-]*-\S+)", README):
        assert cases.parse(found).id == found


def test_the_module_map_is_true() -> None:
    """Every path in the layout exists, and every package has its line."""
    layout = README.split("## Layout", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`((?:oracles|harness|suites|results)/[\w./]*)`", layout))
    missing = [name for name in sorted(named) if not (planted.ROOT / name).exists()]
    assert missing == []
    packages = {
        path.parent.relative_to(planted.ROOT).as_posix() for path in packages_of(planted.ROOT / "harness")
    }
    assert {f"{name}/" for name in packages - {"harness"} if name.count("/") == 1} <= named


def packages_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("__init__.py") if "__pycache__" not in path.parts]
