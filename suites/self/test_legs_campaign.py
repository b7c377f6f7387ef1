"""Campaign files: each wrong field is one sentence, and the examples are whole campaigns."""

from __future__ import annotations

import base64
import copy
import math
import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.exits import InputError
from harness.legs import campaign, credentials, drive, example

GOOD: dict[str, Any] = {
    "name": "x",
    "base": "a",
    "legs": {"a": {"base_url": "http://127.0.0.1:8000/v1", "model": "m"}},
}


def changed(name: str, value: object) -> dict[str, Any]:
    """GOOD with one field set; a value of None takes it out."""
    found = copy.deepcopy(GOOD)
    at, *words = found, *name.split(".")
    for word in words[:-1]:
        at = at.setdefault(word, {})
    if value is None:
        del at[words[-1]]
    else:
        at[words[-1]] = value
    return found


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("name", None, "name is missing, allowed is a name of letters"),
        ("name", "a/b", "name is 'a/b', allowed is a name of letters"),
        ("base", "b", "base is 'b', allowed are a"),
        ("repeats", 0, "repeats is 0, allowed is 1 to 1000"),
        ("order", "random", "order is 'random', allowed is one of abba, abab, blocks"),
        ("margin", 0.0, "margin is 0.0, allowed is points above 0"),
        ("task", 4, "task is 4, allowed is a table"),
        ("task.shots", -1, "task.shots is -1, allowed is a whole number of 0 or more"),
        ("task.shots", "20", "task.shots is '20', allowed is a whole number"),
        ("task.shot", 20, "task.shot is unknown, allowed are name, shots"),
        ("task.max_tokens", 9000, "task.max_tokens is 9000, allowed is less than task.max_length"),
        ("task.generation", {"stop": "x"}, "task.generation.stop is given"),
        ("task.generation", {"max_gen_toks": 5}, "task.generation.max_gen_toks is given"),
        ("task.generation", {"top_k": 1, "echo": True}, "task.generation.echo is given"),
        ("task.generation", {"do_sample": True}, "task.generation.do_sample is given"),
        ("task.generation", {"max_length": 9}, "task.generation.max_length is given"),
        ("task.generation", {"max_new_tokens": 9}, "task.generation.max_new_tokens is given"),
        ("task.data", "~nobody-of-that-name/x", "task.data is '~nobody-of-that-name/x', which has no train"),
        ("task.temperature", float("nan"), "task.temperature is nan, allowed is a number"),
        ("task.data", "/nowhere", "task.data is '/nowhere', which has no train.jsonl"),
        ("client.concurrency", True, "client.concurrency is True, allowed is 1 to 4096"),
        ("client.timeout", 0, "client.timeout is 0, allowed is seconds above 0"),
        ("legs", {}, "legs is {}, allowed is a table [legs.NAME]"),
        ("legs.a.model", None, "legs.a.model is missing"),
        ("legs.a.base_url", "nope", "legs.a.base_url is 'nope', allowed is an address"),
        ("legs.a.base_url", "http://h:99999", "legs.a.base_url is 'http://h:99999'"),
        ("legs.a.base_url", "http://a b", "legs.a.base_url is 'http://a b', allowed is an address"),
        ("legs.a.base_url", "http://a..b", "legs.a.base_url is 'http://a..b', allowed is an address"),
        ("legs.a.base_url", "http://h?x=1", "legs.a.base_url is 'http://h?x=1', allowed is an address"),
        ("legs.a.base_url", "ftp://me:word@h", "legs.a.base_url is 'ftp://h', allowed is an address"),
        ("legs.a.environment", {"A=B": "c"}, "legs.a.environment has 'A=B', allowed are names without ="),
        ("legs.a.environment", {"": "c"}, "legs.a.environment has '', allowed are names without ="),
        ("legs.a.environment", {"A\0": "c"}, "legs.a.environment has 'A\\x00', allowed are names without ="),
        ("legs.a.environment", {"A": "\0"}, "legs.a.environment.A is '\\x00', allowed is a text without NUL"),
        ("legs.a.command", ["a", "\0"], "legs.a.command.1 is '\\x00', allowed is a text without NUL"),
        ("legs.a.folder", "\0", "legs.a.folder is '\\x00', allowed is a text without NUL"),
        ("legs.a.health", "/a b", "legs.a.health is '/a b', allowed is a path"),
        ("legs.a.log_from", "end", "legs.a.log_from is 'end', allowed is one of start, now"),
        ("task.generation", {"on": date(2026, 1, 1)}, "task.generation has on datetime.date(2026, 1, 1)"),
        ("task.generation", {"x": [math.nan]}, "task.generation has x [nan], allowed is what JSON can hold"),
        ("name", "a\n", "name is 'a\\n', allowed is a name of letters"),
        ("legs", {"r.json": GOOD["legs"]["a"]}, "legs has 'r.json', allowed is a name of letters"),
        ("legs.a.command", [], "legs.a.command is empty, allowed is a list of words"),
        ("legs.a.command", "python x", "legs.a.command is 'python x', allowed is a list of words"),
        ("legs.a.comand", ["x"], "legs.a.comand is unknown, allowed are base_url, command"),
        ("legs.a.start_timeout", -1.0, "legs.a.start_timeout is -1.0, allowed is seconds above 0"),
    ],
)
def test_a_wrong_field_is_one_sentence(name: str, value: object, sentence: str) -> None:
    """It starts with the field and says what is allowed there."""
    with pytest.raises(InputError) as refused:
        campaign.parse(changed(name, value))
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_a_wrong_value_is_not_told_to_its_end() -> None:
    """Its first letters name it; what is allowed stands behind them, where it is read."""
    for name, value, sentence in (
        ("name", "a" * 10_000, f"name is '{'a' * 79}..., allowed is a name of letters"),
        ("base", "b" * 10_000, f"base is '{'b' * 79}..., allowed are a"),
        ("x" * 10_000, 1, f"{'x' * 80}... is unknown, allowed are name, base"),
        ("legs", {"a" * 10_000: GOOD["legs"]["a"]}, f"legs has '{'a' * 79}..., allowed is a name of letters"),
        ("legs.a.base_url", "h" * 10_000, f"legs.a.base_url is '{'h' * 79}..., allowed is an address"),
        ("legs.a.acceptance", "x" * 10_000, f"legs.a.acceptance is '{'x' * 79}..., allowed is a regular"),
        ("task.shots", "9" * 10_000, f"task.shots is '{'9' * 79}..., allowed is a whole number"),
        ("repeats", [[1] * 10_000], f"repeats is {str([[1] * 99])[:80]}..., allowed is 1 to 1000"),
        ("repeats", 16**5000, "repeats is a number of thousands of digits, allowed is 1 to 1000"),
    ):
        with pytest.raises(InputError) as refused:
            campaign.parse(changed(name, value))
        assert str(refused.value).startswith(sentence)
        assert len(str(refused.value)) < 400


def test_a_folder_of_nobodys_home_is_none(tmp_path: Path) -> None:
    """As in a shell: its name stands for itself, and no log or folder lies there."""
    found = campaign.parse(changed("legs.a.folder", "~nobody-of-that-name/x"), str(tmp_path / "c.toml"))
    assert found.path("~nobody-of-that-name/x") == tmp_path / "~nobody-of-that-name" / "x"
    assert found.path("~/x") == Path.home() / "x"
    with pytest.raises(InputError, match=r"legs\.a\.folder is '~nobody-of-that-name/x', allowed is a folder"):
        drive.check_folders(found, ["a"])


def test_every_wrong_field_is_told_at_once() -> None:
    """Two mistakes, two sentences."""
    found = changed("repeats", 0)
    found["legs"]["a"]["model"] = 3
    with pytest.raises(InputError) as refused:
        campaign.parse(found)
    assert len(str(refused.value).splitlines()) == 2


def test_a_login_in_an_address_is_shown_nowhere() -> None:
    """It is kept apart, for the requests; what is written or printed of the leg has neither name nor word."""
    found = campaign.parse(changed("legs.a.base_url", "http://me:wo%40rd@host:8000/v1"))
    leg = found.legs["a"]
    assert (leg.base_url, leg.login) == ("http://host:8000", "me:wo%40rd")
    assert "wo" not in found.model_dump_json() + repr(found)
    sent = credentials.header(leg.login)["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent) == b"me:wo@rd"
    assert credentials.header("") == {}
    with pytest.raises(InputError) as refused:
        campaign.parse(changed("legs.a.base_url", "http://me:word@h:99999"))
    assert "word" not in str(refused.value)


def test_addresses_are_one_form() -> None:
    """With or without /v1, the same server."""
    assert campaign.parse(GOOD).legs["a"].base_url == "http://127.0.0.1:8000"


def test_an_unknown_base_is_told_beside_what_else_is_wrong() -> None:
    """Each once, whether or not another field keeps the campaign from being read."""
    for more, count in (({"base": "q"}, 1), ({"base": "q", "margin": 0.0}, 2)):
        with pytest.raises(InputError) as refused:
            campaign.parse({**GOOD, **more})
        lines = str(refused.value).splitlines()
        assert len(lines) == count
        assert lines[-1].endswith("base is 'q', allowed are a")


@pytest.mark.parametrize("field", ["strict", "flexible"])
def test_an_unknown_filter_is_told_before_data_are_looked_for(field: str, tmp_path: Path) -> None:
    """With those that the task has; no hub is asked for data of a campaign that cannot be measured."""
    found = campaign.parse(changed(f"task.{field}", "q"))
    with pytest.raises(InputError) as refused:
        drive.plan(found, tmp_path / "out")
    allowed = "allowed are strict-match, flexible-extract (the filters of gsm8k)"
    assert str(refused.value) == f"task.{field} is 'q', {allowed}"


@pytest.mark.parametrize("kind", ["atom", "local"])
def test_examples_are_whole_campaigns(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What init writes loads as it is; a file that exists is never replaced."""
    file = tmp_path / "c.toml"
    assert cli.main(["legs", "init", f"--{kind}", str(file)]) == exits.AGREE
    found = campaign.load(file)
    assert len(found.legs) >= 2
    assert file.read_text(encoding="utf-8").count("#") > 10
    if kind == "atom":
        legs = ("fp8", "fp4", "fp8-dcp4", "fp4-dcp4")
        words = [found.legs[leg].command or () for leg in legs]
        dtypes = [one[one.index("--index_cache_dtype") + 1] for one in words]
        assert dtypes == ["fp8", "fp4", "fp8", "fp4"]
        assert ["-dcp" in one for one in words] == [False, False, True, True]
        assert [len(found.forbidden(leg)) for leg in legs] == [1, 2, 2, 3]
    assert {found.index_topk(leg) for leg in found.legs} == {{"atom": 2048, "local": 0}[kind]}
    assert cli.main(["legs", "init", str(file)]) == exits.USAGE
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("[atom 10:11:12] Server started successfully and ready to accept requests", "required"),
        ("bf16 KV cache", None),
        ("got 'gfx942'. Falling back to a bf16 KV cache.", "forbidden"),
        ("indexer is unsupported on 'gfx942'. Falling back to the FP8 indexer.", "forbidden"),
        ("MLA kernel (128); falling back to the folded kernel, which is incorrect for MTP", "forbidden"),
        ("uvloop not installed; falling back to the default asyncio loop.", None),
        ("[MTP Stats Interval] Average toks/fwd: 2.41, Accepted/Total Draft tokens: 141/300", "acceptance"),
        ("[MTP Stats         ] Average toks/fwd: 2.40, Accepted/Total Draft tokens: 900/1900", None),
    ],
)
def test_the_patterns_for_atom_match_what_it_logs(line: str, pattern: str | None) -> None:
    """Each line is taken for what it says by the leg that asks most; a fallback of something else is none."""
    text = example.atom("c.toml")
    found = campaign.parse(tomllib.loads(text.replace("# acceptance =", "acceptance =")))
    leg = found.legs["fp4-dcp4"]
    assert leg.acceptance is not None
    kinds = {
        "required": found.required("fp4-dcp4"),
        "forbidden": found.forbidden("fp4-dcp4"),
        "acceptance": (leg.acceptance,),
    }
    taken = [kind for kind, ones in kinds.items() if any(re.search(one, line) for one in ones)]
    assert taken == ([pattern] if pattern else [])


def test_a_bad_control_is_no_base() -> None:
    """All others would be held against what is wrong on purpose."""
    with pytest.raises(InputError, match="base is 'a', allowed is a leg that is not known_bad"):
        campaign.parse(changed("legs.a.known_bad", True))


def test_a_file_that_is_no_campaign_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Absent, no TOML, and a wrong field: exit code 2 and a sentence."""
    file = tmp_path / "c.toml"
    for text, sentence in (
        (None, "cannot be read"),
        ("x = ", "is no TOML"),
        ("x = " + "[" * 9999, "is no TOML"),
        ("x = 1", "x is unknown"),
        (f"repeats = {'1' * 5000}", "is no TOML"),
        (f"repeats = 0x{'f' * 5000}", "is no TOML: repeats has more than 64 bits"),
    ):
        if text is not None:
            file.write_text(text, encoding="utf-8")
        assert cli.main(["legs", "run", str(file), "--dir", str(tmp_path / "out")]) == exits.USAGE
        said = capsys.readouterr().err
        assert sentence in said
        assert "Traceback" not in said
