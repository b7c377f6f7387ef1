"""Servers start, are watched and end with whoever started them; crashes are told apart by what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.exits import CannotRun
from harness.legs import crash, journal, server
from suites.self import planted
from suites.self.legs_world import N, asked, data, process, records
from suites.self.stub_server import Script, Stub


def started(folder: Path, script: Script, **watch: float) -> server.Server:
    found = asked(folder, {"a": process(folder, "a", script)}, server=watch)
    return server.Server(found, "a", folder / "server.log")


def test_a_server_is_started_logged_and_stopped(tmp_path: Path) -> None:
    """Its output is kept; after the stop nothing answers; a second stop does no harm."""
    one = started(tmp_path, Script(say=["hello"]))
    one.start()
    assert one.healthy()
    assert one.ended() is None
    one.stop()
    one.stop()
    assert not one.healthy()
    assert "hello" in (tmp_path / "server.log").read_text(encoding="utf-8")


def test_a_deaf_server_is_killed(tmp_path: Path) -> None:
    """One that ignores SIGTERM is gone after stop_timeout."""
    one = started(tmp_path, Script(deaf=True), stop_timeout=0.3)
    one.start()
    one.stop()
    assert not one.healthy()


@pytest.mark.parametrize(
    ("script", "watch", "sentence"),
    [
        (Script(exit_at_start=3), {}, "it ended with exit code 3 before it was healthy"),
        (Script(start=30), {"start_timeout": 0.5}, "it was not healthy within 0.5 s"),
    ],
)
def test_a_server_that_never_answers_is_told(
    script: Script, watch: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """Ended or too slow, each in its words."""
    one = started(tmp_path, script, **watch)
    with pytest.raises(server.Ended, match=sentence):
        one.start()
    one.stop()


def test_a_port_that_answers_already_is_refused(tmp_path: Path) -> None:
    """A server of another leg would pass the health check."""
    with Stub() as stub:
        leg = {"base_url": stub.url, "command": [sys.executable, "-c", "pass"]}
        one = server.Server(asked(tmp_path, {"a": leg}), "a", tmp_path / "server.log")
        with pytest.raises(CannotRun, match=r"something answers at .* already"):
            one.start()


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("fault by GPU node-2 on address 0x7f0011000", "fault by GPU node-5 on address 0x1"),
        ("2026-08-22 10:11:12,345 [4242] Error: boom", "2026-09-01 01:02:03,999 [17] Error: boom"),
        ("fatal: worker 3 pid=77", "fatal: worker 0 pid=123456"),
        ("error of request cmpl-8f3a", "error of request cmpl-1111"),
        ("File /tmp/abc123/x.so: fault", "File /tmp/zzz/x.so: fault"),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_is_not_in_a_signature(line: str, same: str) -> None:
    """Addresses, times, ids, ranks and process numbers go; another error stays another."""
    one, two = crash.signature("SIGABRT", [line]), crash.signature("SIGABRT", [same])
    assert crash.normalise(line) == crash.normalise(same)
    assert one["digest"] == two["digest"]
    assert (
        crash.signature("SIGABRT", ["Error: other"])["digest"]
        != crash.signature("SIGABRT", ["Error"])["digest"]
    )
    assert crash.signature("SIGSEGV", [line])["digest"] != one["digest"]


@pytest.mark.parametrize("word", ["rank", "node", "gpu", "device", "worker", "tp", "dp", "cuda:", "hip:"])
def test_which_of_many_failed_is_not_in_a_signature(word: str) -> None:
    """The same fault on another rank is the same fault; another number of something else is another."""
    for one, same in ((f"error on {word}1", f"error on {word}12"), (f"{word} 3: error", f"{word} 0: error")):
        assert crash.normalise(one) == crash.normalise(same)
    assert crash.normalise("error in layer 3") != crash.normalise("error in layer 4")


def test_a_line_that_many_said_counts_once() -> None:
    """Eight ranks that fail alike are one crash, however many of them the log has."""
    lines = ["[1] Error: boom", "[2] Error: boom"]
    one, two = crash.signature("SIGABRT", lines), crash.signature("SIGABRT", lines[:1])
    assert one["signature"] == two["signature"] == ["SIGABRT", "[N] Error: boom"]
    assert one["digest"] == two["digest"]


@pytest.mark.parametrize("lines", [[], ["POST /v1/completions 200 OK", "loading weights"]])
def test_crashes_without_an_error_are_not_the_same_crash(lines: list[str], tmp_path: Path) -> None:
    """Two servers that were killed: that their logs are silent is nothing that they have in common."""
    one, two = (
        crash.signature("it was ended by SIGKILL", lines),
        crash.signature("it was ended by SIGKILL", lines),
    )
    assert one["signature"] == two["signature"] == ["it was ended by SIGKILL"]
    assert one["digest"] != two["digest"]
    where = journal.place(tmp_path, "a", 1)
    where.folder.mkdir(parents=True)
    where.update(crashes=[one])
    own = journal.place(tmp_path, "b", 1)
    for found in (one, two):
        assert crash.compared(found, tmp_path, "a", own) == (
            "its log tells no error, so whether another crash is the same is not known"
        )


def test_every_crash_of_a_sample_is_known(tmp_path: Path) -> None:
    """Of a restarted server the first as well as the last; on the base leg it is told before any other."""
    first, last, other = (crash.signature("SIGKILL", [f"Error: {word}"]) for word in ("a", "b", "c"))
    for leg in ("b", "a"):
        journal.place(tmp_path, leg, 1).folder.mkdir(parents=True)
        journal.place(tmp_path, leg, 1).update(crashes=[first, last])
    own = journal.place(tmp_path, "c", 1)
    for one in (first, last):
        said = "the same crash happens on base (a sample 1)"
        assert crash.compared(one, tmp_path, "a", own) == said
        assert crash.compared(one, tmp_path, "z", own).startswith("the same crash was seen before (")
    assert crash.compared(other, tmp_path, "a", own) == "no other sample has this crash"
    assert crash.compared(other, tmp_path, "z", own) == "base (z) has not run yet"


def campaign_file(folder: Path, script: Script) -> Path:
    """A campaign of one leg with a slow stub, as a file."""
    leg = process(folder, "a", script)
    file = folder / "c.toml"
    file.write_text(
        f"""name = "sums"\nbase = "a"\nrepeats = 1
[certify]\nindex_topk = 0\nprobe = 2\nprobe_repeats = 2\nprobe_tokens = 8
[task]\ndata = {json.dumps(str(data(folder)))}\nshots = 2\nmax_tokens = 32
[client]\nconcurrency = 1
[legs.a]\nmodel = "stub"\nbase_url = "{leg["base_url"]}"\ncommand = {json.dumps(leg["command"])}
""",
        encoding="utf-8",
    )
    return file


def begun(folder: Path, file: Path, count: int) -> subprocess.Popen[str]:
    """``legs run`` with ``count`` questions done."""
    run = planted.start(folder, ["-m", "harness", "legs", "run", str(file), "--dir", "out"], environment())
    until = time.monotonic() + 60
    while len(records(folder)) < count:
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    return run


def asked_so_far(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else 0


def test_a_run_killed_in_its_probe_goes_on(tmp_path: Path) -> None:
    """No probe.json is left behind that is not whole; the second run probes, then asks each question once."""
    asked_file, probe_file = tmp_path / "asked.txt", tmp_path / "out" / "a" / "1" / "probe.json"
    file = campaign_file(tmp_path, Script(latency=0.3, asked=str(asked_file)))
    command = ["legs", "run", str(file), "--dir", str(tmp_path / "out")]
    run = planted.start(tmp_path, ["-m", "harness", *command], environment())
    until = time.monotonic() + 60
    while not asked_so_far(asked_file):
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    run.kill()
    run.communicate(timeout=60)
    cut = asked_so_far(asked_file)
    assert (cut < 2 * 2, probe_file.exists(), records(tmp_path)) == (True, False, {})
    assert cli.main(command) == exits.AGREE
    assert json.loads(probe_file.read_text(encoding="utf-8"))["distinct"] == [1, 1]
    assert asked_so_far(asked_file) == cut + 2 * 2 + N
    assert sorted(records(tmp_path)) == list(range(N))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(planted.ROOT)}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_however_a_run_ends_its_server_goes_and_a_second_run_goes_on(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9, Ctrl-C and SIGTERM: no question is asked twice but the one in flight, and none is lost."""
    asked_file = tmp_path / "asked.txt"
    file = campaign_file(tmp_path, Script(latency=0.3, asked=str(asked_file)))
    run = begun(tmp_path, file, 2)
    run.send_signal(number)
    out, err = run.communicate(timeout=60)
    assert run.returncode == (-9 if number == signal.SIGKILL else exits.INTERRUPTED), out + err
    assert "Traceback" not in out + err
    kept = records(tmp_path)
    assert cli.main(["legs", "run", str(file), "--dir", str(tmp_path / "out")]) == exits.AGREE
    again = records(tmp_path)
    assert len(again) == N
    assert {question: again[question] for question in kept} == kept
    assert len(asked_file.read_text(encoding="utf-8").splitlines()) <= 2 * 2 + N + 1
    capsys.readouterr()
    assert cli.main(["legs", "status", str(tmp_path / "out")]) == exits.AGREE
    out = capsys.readouterr().out
    assert ("finished" in out, f"{N}/{N}" in out) == (True, True)
