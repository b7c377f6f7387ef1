"""The bench beside lm-eval's command line compares like with like, and says when the limit is passed."""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.command import bench_commands, bench_legs
from harness.command.bench_commands import OURS, PLAIN, Setting
from harness.command.bench_legs import Run
from harness.command.bench_server import serving
from harness.exits import CannotRun
from harness.legs import campaign


def ask(url: str, prompt: Any) -> dict[str, Any]:
    body = json.dumps({"prompt": prompt}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body)) as response:
        return dict(json.load(response))


def test_the_server_adds_waits_and_counts() -> None:
    """Every request waits as long, many at a time as one; lm-eval's list of one prompt is a prompt."""
    prompt = "Question: What is 2 plus 3?\nAnswer: 5\n\nQuestion: What is 40 plus 2?\nAnswer:"
    with serving(0.2) as server:
        said = ask(server.url, prompt)
        assert said["choices"][0]["text"].endswith("#### 42")
        assert ask(server.url, [prompt])["choices"] == said["choices"]
        server.begin()
        threads = [threading.Thread(target=ask, args=(server.url, prompt)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.count == 8
        assert 0.2 <= server.last - server.first < 8 * 0.2


def test_both_commands_get_the_same_questions(tmp_path: Path) -> None:
    """The campaign is a campaign over the data that the task of lm-eval's command line reads."""
    setting = Setting(questions=7, concurrency=3, probe=2)
    commands = bench_commands.prepare(setting, tmp_path, "http://127.0.0.1:9")
    found = campaign.load(tmp_path / "campaign.toml")
    assert found.data == tmp_path / "."
    assert (found.client.concurrency, found.certify.probe, found.task.shots) == (3, 2, bench_commands.SHOTS)
    assert len((tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()) == 7
    words = " ".join(commands[PLAIN])
    assert "num_concurrent=3" in words
    assert f"--num_fewshot {found.task.shots} --batch_size 1" in words
    assert f"max_gen_toks={found.task.max_tokens}" in words
    assert str(tmp_path / "train.jsonl") in (tmp_path / "task" / "sums.yaml").read_text(encoding="utf-8")
    assert (setting.requests(PLAIN), setting.requests(OURS)) == (7, 13)


ASKS = """
import sys, time, urllib.request
time.sleep(0.4)
for _ in range(3):
    urllib.request.urlopen(sys.argv[1] + "/v1/completions", b'{{"prompt": ""}}').read()
time.sleep(0.5)
"""


def test_parts_of_a_run_are_timed_apart(tmp_path: Path) -> None:
    """Start, asking and end come to the whole."""
    with serving(0.2) as server:
        began = time.perf_counter()
        found = bench_legs.timed([sys.executable, "-c", ASKS, server.url], tmp_path, 1, server)
        took = time.perf_counter() - began
        assert server.count == 3
    assert found.start >= 0.4
    assert 3 * 0.2 <= found.asking <= took - 0.9
    assert found.after >= 0.5
    assert 0 < found.cpu <= took
    assert 1.5 <= found.whole <= took


def test_work_of_all_processes_is_counted(tmp_path: Path) -> None:
    """Half a second of work in a child of the command, beside one that only waits."""
    burn = "import time\nuntil = time.process_time() + 0.5\nwhile time.process_time() < until: pass"
    ask = (
        "import urllib.request; "
        "urllib.request.urlopen(sys.argv[1] + '/v1/completions', b'{\"prompt\": \"\"}')"
    )
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); {ask}"
    wait = f"import sys, time; time.sleep(0.5); {ask}"
    with serving(0.0) as server:
        works, waits = (
            bench_legs.timed([sys.executable, "-c", words.replace("{", "{{").replace("}", "}}"), server.url],
                             tmp_path, 1, server).cpu
            for words in (child, wait)
        )  # fmt: skip
    assert works >= 0.5 + waits / 2


def test_a_run_that_fails_or_asks_otherwise_ends_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its last words, or with how many requests it sent; no ratio of unlike work comes out."""
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with serving(0.0) as server, pytest.raises(CannotRun, match="exit code 1 and said: no such model"):
        bench_legs.timed(command, tmp_path, 1, server)
    three = {
        name: [sys.executable, "-c", ASKS.replace("0.4", "0").replace("0.5", "0")] for name in (PLAIN, OURS)
    }
    monkeypatch.setattr(
        bench_legs,
        "prepare",
        lambda setting, folder, url: {one: [*words, url] for one, words in three.items()},
    )
    assert [
        len(runs) for runs in bench_legs.measure(Setting(questions=3, latency=0.0, repeats=2)).values()
    ] == [2, 2]
    with pytest.raises(CannotRun, match="harness legs run sent 3 requests, not 4"):
        bench_legs.measure(Setting(questions=4, latency=0.0))


PLAIN_RUNS = [Run(1.0, 10.0, 1.0, 2.0), Run(9.0, 99.0, 9.0, 9.0), Run(1.0, 10.0, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("ours", "whole", "asking", "within"),
    [
        (Run(0.1, 10.5, 1.0, 7.0), 11.6 / 12, 1.05, True),
        (Run(0.1, 10.6, 1.0, 7.0), 11.7 / 12, 1.06, False),
        (Run(1.0, 10.0, 4.0, 7.0), 15 / 12, 1.0, False),
    ],
)
def test_the_limit_holds_for_the_whole_and_for_the_asking(
    ours: Run,
    whole: float,
    asking: float,
    within: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ratios are those of medians, so that one slow run of three moves none; the exit code says the rest."""
    runs = {PLAIN: PLAIN_RUNS, OURS: [ours] * 3}
    monkeypatch.setattr(bench_legs, "measure", lambda setting: runs)
    code = cli.main(["bench", "legs", "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert (code, figures["within"]) == (exits.AGREE if within else exits.DIFFER, within)
    assert figures["ratios"]["whole"] == pytest.approx(whole)
    assert figures["ratios"]["asking"] == pytest.approx(asking)
    assert (figures["seconds"][OURS]["cpu"], figures["ratios"]["cpu"]) == (7.0, 3.5)
    out = capsys.readouterr().out
    assert (f"{whole:.3f}" in out, f"{asking:.3f}" in out, "12.00 to 117.00" in out) == (True, True, True)
    assert ("within the limit of 1.05" in out) is within
    assert "CPU" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["legs", "--questions", "0"], "--questions is 0, allowed are 1 to 10000"),
        (["legs", "--latency", "61"], "--latency is 61.0, allowed are 0 to 60"),
        (["--rows", "3", "legs"], "--rows is given, allowed is what 'harness bench legs --help' lists"),
    ],
)
def test_bad_arguments_are_told(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence; those of the other bench belong to it alone."""
    assert cli.main(["bench", *words]) == exits.USAGE
    assert capsys.readouterr().err == f"harness: {sentence}\n"
