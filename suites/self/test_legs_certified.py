"""Campaigns driven against a scripted server end with the right certificate and the right exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.legs.certify.certificate import Certificate, Point, Verdict
from harness.legs.certify.certifying import certify
from suites.self.legs_world import N, asked, data, driven, process
from suites.self.stub_server import Script, Stub

THIRD = "What is 102 plus 103?"
PROMPT = 35
"""Words, which are a stub's tokens, of every prompt with two shots."""

GOOD = f"{N} of {N} answered, 0 empty, 0 truncated, 0 stopped, 0 failed (1 sample)"
BAD = f"1 of {N} replies of sample 1 are {{}} (16.67 %, allowed 0.00 %)"
FAILED = "sample 1 has 1 failed request"
SAME_TEXT = f"{GOOD}; one reply was given to 6 different questions (sample 1)"

BEHAVIOURS: dict[str, tuple[dict[str, Any], Verdict, str]] = {
    "right": ({}, Verdict.HOLDS, GOOD),
    "slow": ({"latency": 0.3}, Verdict.HOLDS, GOOD),
    "passing-500s": ({"status": 500, "times": 2}, Verdict.HOLDS, GOOD),
    "500s": ({"status": 500}, Verdict.FAILS, FAILED),
    "dropped": ({"drop": True}, Verdict.FAILS, FAILED),
    "no-json": ({"raw": "no json"}, Verdict.FAILS, FAILED),
    "two-choices": ({"choices": 2}, Verdict.FAILS, FAILED),
    "aborted": ({"finish_reason": "abort"}, Verdict.FAILS, FAILED),
    "null-content": ({"text": None}, Verdict.FAILS, BAD.format("empty")),
    "blank": ({"text": " \n"}, Verdict.FAILS, BAD.format("empty")),
    "cut": ({"text": " 205 and", "finish_reason": "length"}, Verdict.FAILS, BAD.format("truncated")),
    "cut-but-says-stop": ({"text": " well" * 32}, Verdict.FAILS, BAD.format("truncated")),
    "stopped-early": ({"text": " Let me think."}, Verdict.FAILS, BAD.format("stopped")),
    "no-finish-reason": ({"finish_reason": None}, Verdict.HOLDS, GOOD),
}
"""Name to what the third question meets, and the verdict and sentence of the point 'answers'."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Certificate]]:
    """One campaign with a leg for each behaviour, and three that need a server of their own."""
    folder = tmp_path_factory.mktemp("behaviours")
    scripts = {name: Script(questions={THIRD: what}) for name, (what, _, _) in BEHAVIOURS.items()}
    scripts["one-text"] = Script(default={"text": " 205\n#### 205"})
    scripts["one-reply"] = Script(default={"text": " 205\n#### 205", "id": "cmpl-same"})
    scripts["no-usage"] = Script(default={"usage": "absent"})
    with ExitStack() as stack:
        stubs = {name: stack.enter_context(Stub(script)) for name, script in scripts.items()}
        legs = {name: {"base_url": stub.url} for name, stub in stubs.items()}
        driven(folder, asked(folder, legs, certify={"index_topk": PROMPT - 1}))
    yield certify(folder / "out")


def of(certificate: Certificate, name: str) -> Point:
    return next(one for one in certificate.points if one.name == name)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_each_behaviour_has_its_verdict(name: str, certificates: dict[str, Certificate]) -> None:
    """What is no whole answer makes the leg not measured; what the client got over does not."""
    _, verdict, said = BEHAVIOURS[name]
    found = of(certificates[name], "answers")
    assert (found.verdict, found.said) == (verdict, said)
    assert certificates[name].certified == (verdict is Verdict.HOLDS)
    assert of(certificates[name], "settings").verdict is Verdict.HOLDS


def test_prompts_are_measured_by_the_servers_own_usage(certificates: dict[str, Certificate]) -> None:
    """35 tokens each exceed 34; a reply of 7 tokens has 7 decode steps at 35 and more."""
    found = of(certificates["right"], "prompts")
    assert found.said == (
        "6 of 6 prompts are longer than 34 tokens (min 35, p50 35, max 35); "
        "100.00 % of 42 decode steps are above it"
    )
    found = of(certificates["no-usage"], "prompts")
    assert (found.verdict, found.said) == (Verdict.UNKNOWN, "6 of 6 prompts have no token count")
    assert certificates["no-usage"].word == "not certified"


def test_one_text_for_all_is_told_and_one_reply_for_all_is_refused(
    certificates: dict[str, Certificate],
) -> None:
    """With ids of their own they may be answers; under one id all but the first are another question's."""
    found = of(certificates["one-text"], "answers")
    assert (found.verdict, found.said) == (Verdict.HOLDS, SAME_TEXT)
    assert of(certificates["one-reply"], "answers").said == "sample 1 has 5 failed requests"


def campaign_file(folder: Path, legs: dict[str, dict[str, Any]], count: int = N, **certify: Any) -> Path:
    """A campaign as a file, one question at a time."""
    lines = ['name = "sums"', f"base = {json.dumps(next(iter(legs)))}", "repeats = 1", "[task]"]
    lines += [f"data = {json.dumps(str(data(folder, count)))}", "shots = 2", "max_tokens = 32"]
    lines += ["[client]", "concurrency = 1", "[certify]", "probe = 0"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in {"index_topk": 0, **certify}.items()]
    for leg, fields in legs.items():
        lines += [f"[legs.{leg}]", 'model = "stub"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    file = folder / "c.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def run(folder: Path, file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """(exit code, output) of ``legs run``."""
    code = cli.main(["legs", "run", str(file), "--dir", str(folder / "out"), *more])
    return code, capsys.readouterr().out


CUT = Script(default={"text": " 205 and", "finish_reason": "length"})


def test_a_run_ends_with_the_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 4 and the leg named when one that should be is not certified; the figures are in the folder."""
    with Stub() as good, Stub(CUT) as bad:
        file = campaign_file(tmp_path, {"a": {"base_url": good.url}, "b": {"base_url": bad.url}})
        code, out = run(tmp_path, file, capsys)
        assert code == exits.UNPROVEN
        assert "exit 4: 1 of 2 legs is not certified: b (not measured)" in out
        assert "6 of 6 replies of sample 1 are truncated (100.00 %, allowed 0.00 %)" in " ".join(out.split())
        code, out = run(tmp_path, file, capsys, "--leg", "a")
        assert code == exits.AGREE
        assert "exit 0: 1 leg is certified except path\n" in out
    written = json.loads((tmp_path / "out" / "certificates.json").read_text(encoding="utf-8"))
    assert {one["leg"]: one["word"] for one in written["certificates"]} == {
        "a": "certified except path", "b": "not measured",
    }  # fmt: skip


def test_a_bad_control_need_not_be_certified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is there to fail: exit 0, and the control was seen."""
    with Stub() as good, Stub(CUT) as bad:
        legs: dict[str, dict[str, Any]] = {
            "a": {"base_url": good.url},
            "bad": {"base_url": bad.url, "known_bad": True},
        }
        code, out = run(tmp_path, campaign_file(tmp_path, legs), capsys)
    assert code == exits.AGREE
    assert "a leg that is known to be bad was seen: bad is not measured" in " ".join(out.split())


def test_the_servers_log_says_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One leg says FP4, the other that it fell back."""
    legs = {
        "a": process(tmp_path, "a", Script(say=["indexer: fp4"])),
        "b": process(tmp_path, "b", Script(say=["indexer: fp4", "Falling back to the FP8 indexer."])),
    }
    asks: dict[str, Any] = {"required": ["indexer: fp4"], "forbidden": ["(?i)falling back"]}
    code, out = run(tmp_path, campaign_file(tmp_path, legs, **asks), capsys)
    assert code == exits.UNPROVEN
    said = " ".join(out.split())
    assert "1 of 1 required patterns are in the log, 0 of 1 forbidden ones are (1 sample)" in said
    assert "forbidden '(?i)falling back' is in 1 line of the log of sample 1" in said
    assert "exit 4: 1 of 2 legs is not certified: b (not measured)" in said


def test_a_server_that_dies_at_request_36_of_1319_is_no_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, whatever else the certificates say; pooling names the crash and compares nothing."""
    leg = process(tmp_path, "a", Script(die_at=36, die_with=["fatal: fault"]))
    assert run(tmp_path, campaign_file(tmp_path, {"a": leg}, 1319), capsys)[0] == exits.ERROR
    found = certify(tmp_path / "out")["a"]
    assert (found.word, found.reason) == ("not measured", "sample 1 is crashed (35 of 1319 questions)")
    assert cli.main(["legs", "pool", str(tmp_path / "out")]) == exits.UNPROVEN
    assert "a is not measured: sample 1 is crashed" in capsys.readouterr().out
