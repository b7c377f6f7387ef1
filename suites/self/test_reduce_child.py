"""Crashes and hangs reduce like any other failure; bad input, interrupts and unsteady failures end well."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from harness import cli, exits
from harness.case import cases
from harness.command import cli_reduce
from harness.judge.verdict import Grade, Status, Verdict
from harness.paths import registry
from harness.reduce.trying import Child
from suites.self import planted

CASE = "decode-n2-h32-d128-ctx9,4-ttight-u4-l0-fbytes-s{seed}"


def overlay(folder: Path) -> dict[str, str]:
    return planted.environment(folder, [0])


def reduced(folder: Path, seed: int, *more: str, environment: dict[str, str]) -> tuple[int, str, str]:
    arguments = ["-m", "harness", "reduce", CASE.format(seed=seed), "--path", "oracle", "--dir", str(folder)]
    return planted.run(folder, [*arguments, *more], environment)


def test_a_crash_reduces_by_all_but_what_it_needs(tmp_path: Path) -> None:
    """The planted runner dies by the seed, so that this alone stays; a second run judges nothing again."""
    environment = overlay(tmp_path)
    code, out, err = reduced(tmp_path, planted.CRASH, environment=environment)
    assert code == 0, out + err
    smallest = f"decode-n1-h16-d128-ctx0-tshuffled-u0-l0-fbytes-s{planted.CRASH}"
    assert f"smallest  {smallest}" in out and "the process ended with SIGABRT" in out
    assert "script    none: the process ended with SIGABRT before it could hand over its tensors" in out
    code, out, err = reduced(tmp_path, planted.CRASH, environment=environment)
    assert code == 0 and f"smallest  {smallest}" in out and "; 0 cases judged" in out, out + err


def test_a_hang_is_a_failure_after_the_time_that_is_given(tmp_path: Path) -> None:
    """The child that hangs is ended, and the sentence names the limit."""
    os_environ = overlay(tmp_path)
    code = (
        "import sys\n"
        "from harness.case.cases import parse\n"
        "from harness.paths.registry import Choice\n"
        "from harness.reduce.trying import Child\n"
        "if __name__ == '__main__':\n"
        "    with Child(Choice('oracle'), 4.0) as child:\n"
        f"        print(child.verdict(parse({CASE.format(seed=planted.HANG)!r})).reason)\n"
        f"        print(child.verdict(parse({CASE.format(seed=planted.DIFFER)!r})).reason)\n"
    )
    (tmp_path / "one.py").write_text(code)
    _, out, err = planted.run(tmp_path, [str(tmp_path / "one.py")], os_environ)
    assert out.splitlines() == ["the process gave no answer within 4 s", "planted <b>reason</b>"], out + err


def test_an_interrupt_says_the_smallest_so_far(tmp_path: Path) -> None:
    """Ctrl-C in the middle: exit 130, the smallest so far, and no child left."""
    environment = planted.environment(tmp_path, [0], sleep=0.5)
    arguments = ["-m", "harness", "reduce", CASE.format(seed=planted.DIFFER), "--path", "oracle"]
    process = planted.start(tmp_path, [*arguments, "--dir", str(tmp_path)], environment)
    deadline = time.monotonic() + 60
    while not any(len(file.read_bytes().splitlines()) >= 2 for file in tmp_path.rglob("tried-*.jsonl")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == exits.INTERRUPTED and "smallest so far  decode-" in out, out + err


def test_a_case_that_does_not_fail_is_bad_input(tmp_path: Path) -> None:
    """One sentence, exit 2."""
    environment = overlay(tmp_path)
    code, _, err = reduced(tmp_path, planted.AGREE, environment=environment)
    assert code == exits.USAGE
    assert err == f"harness: ID {CASE.format(seed=0)} does not fail on oracle: it is agree\n"
    code, _, err = reduced(tmp_path, planted.UNSUPPORTED, environment=environment)
    assert code == exits.ERROR and "is unsupported on oracle: planted" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--timeout", "0"], "--timeout is 0, allowed are seconds up to 86400"),
        (["--timeout", "nan"], "--timeout is nan, allowed are seconds up to 86400"),
        (["--path", "flydsl"], "--path is oracle, flydsl, allowed is one path; name it with --path"),
        (["--dir", "/dev/null/x"], "--dir /dev/null/x"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything runs: exit 2 and the argument."""
    assert cli.main(["reduce", CASE.format(seed=1), "--path", "oracle", *arguments]) == exits.USAGE
    assert says in capsys.readouterr().err


class Unsteady(Child):
    """Differs, until it is asked for a script."""

    def __init__(self) -> None:
        pass

    def verdict(self, case: cases.Case) -> Verdict:
        return Verdict(
            case.id,
            case.suite,
            "oracle",
            "torch",
            Status.DIFFER,
            Grade.EXACT,
            layer="bits",
            reason="bits-differ",
        )

    def script(self, case: cases.Case, folder: Path) -> tuple[Verdict, str]:
        return self.verdict(case).but(status=Status.AGREE, total=1), ""


def test_a_failure_that_does_not_come_twice_is_no_result(tmp_path: Path) -> None:
    """What differs at random must not be handed out as a smallest case."""
    case = cases.parse(CASE.format(seed=1))
    with pytest.raises(exits.CannotRun, match=r"run again it is agree .* the failure is not steady"):
        cli_reduce.reduce(case, registry.Choice("oracle"), tmp_path, Unsteady())


def test_other_sources_start_a_file_of_their_own(tmp_path: Path) -> None:
    """A mended kernel never inherits the verdicts of the broken one."""
    file = tmp_path / "aiter/ops/kernel.py"
    file.parent.mkdir(parents=True)
    choice = registry.Choice("aiter", registry.Trees(aiter=tmp_path))
    file.write_text("wrong = 1\n")
    before = cli_reduce.source(choice)
    assert before == cli_reduce.source(choice)
    file.write_text("wrong = 10\n")
    assert cli_reduce.source(choice) != before
