"""An empty path is refused by every command that takes one, in one sentence that names the argument."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from harness import cli, exits
from harness.command.arguments import named_path

METAVARS = ("DIR", "F", "FILE", "SOURCE")


def paths(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from paths(below)
        elif action.metavar in METAVARS:
            yield action


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_path_of_a_command_has_the_type(command: str) -> None:
    """By the word that its help shows for it."""
    parser = cli.build_parser(command)
    assert [action.dest for action in paths(parser) if action.type is not named_path] == []


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("ab --base= --head=x", "--base"),
        ("ab --base=x --head=", "--head"),
        ("legs pool ", "DIR"),
        ("claims audit ", "FILE"),
        ("verify --aiter=", "--aiter"),
        ("check --capture=", "--capture"),
        ("capture-spec --example  decode-n1-h16-d128-ctx5-tshuffled-u0-l0-fbytes-s1", "--example"),
    ],
)
def test_an_empty_path_is_one_sentence(line: str, argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the current folder, which an empty path is to Python."""
    assert cli.main(line.split(" ")) == exits.USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"harness: {argument} is '', allowed is the name of a file or folder")
    assert len(said.splitlines()) == 1
