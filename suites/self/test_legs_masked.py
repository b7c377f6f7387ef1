"""Keys are nowhere in what a campaign stores or prints, and what is no key is everywhere as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli, exits
from harness.legs import masked
from suites.self import legs_world
from suites.self.stub_server import Script

KEY = "sk-WORDWORDWORDWORD99"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"started with --api-key {KEY} on port 1", "started with --api-key *** on port 1"),
        (f"args: Namespace(api_key='{KEY}', tp=4)", "args: Namespace(api_key='***', tp=4)"),
        ('{"hf_token": "word", "n": 1}', '{"hf_token": "***", "n": 1}'),
        ("Authorization: Bearer word-1 was refused", "Authorization: Bearer *** was refused"),
        ("OPENAI_API_KEY=word python x", "OPENAI_API_KEY=*** python x"),
        (f"Incorrect API key provided: {KEY}.", "Incorrect API key provided: ***."),
        ("no VALUE-OF-A-VARIABLE here", "no *** here"),
        ("KeyError: 'model.layers.3'", "KeyError: 'model.layers.3'"),
        ("key: 5, cache key=(1, 2), tokens: 17", "key: 5, cache key=(1, 2), tokens: 17"),
        ("--max-num-batched-tokens 8192 --tokenizer t", "--max-num-batched-tokens 8192 --tokenizer t"),
        ("the secret of task-based work", "the secret of task-based work"),
    ],
)
def test_free_text_loses_keys_and_nothing_else(said: str, shown: str) -> None:
    """By how they are spelled, and by the values that are known."""
    assert masked.text(said, ["VALUE-OF-A-VARIABLE"]) == shown


def test_words_of_a_command_keep_two_secrets_apart() -> None:
    """As digests, since a command is part of an identity; what is none stays."""
    line = ["serve", "--api-key", "one", "--hf-token=two", "A_KEY=three", "-tp", "4", "--max-tokens", "512",
            "--kv_cache_dtype", "fp8", "--tokenizer", "t", f"sh --api-key {KEY}"]  # fmt: skip
    made = masked.words(line)
    assert made == [
        "serve", "--api-key", masked.digest("one"), f"--hf-token={masked.digest('two')}",
        f"A_KEY={masked.digest('three')}", "-tp", "4", "--max-tokens", "512", "--kv_cache_dtype", "fp8",
        "--tokenizer", "t", f"sh --api-key {masked.digest(KEY)}",
    ]  # fmt: skip
    assert masked.words(["--api-key", "other"]) != masked.words(["--api-key", "one"])
    assert masked.words(made) != line
    assert masked.words(["--api-key", "--verbose"]) == ["--api-key", "--verbose"]


def test_a_log_keeps_its_places(tmp_path: Path) -> None:
    """Byte for byte, so that segments and marks of it stay what they were; bytes of no encoding too."""
    file = tmp_path / "server.log"
    before = f"ready\n--api-key {KEY} \xfc\nKeyError: 'a'\n".encode("latin-1") + "héllo-wörld done\n".encode()
    file.write_bytes(before)
    masked.log(file, ["héllo-wörld"])
    after = file.read_bytes()
    assert len(after) == len(before)
    assert after == before.replace(KEY.encode(), b"*" * len(KEY)).replace(
        "héllo-wörld".encode(), b"*" * len("héllo-wörld".encode())
    )
    masked.log(tmp_path / "absent", [])


def test_values_of_variables_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the server and of this process; short ones and paths stand for too much else."""
    monkeypatch.setenv("MY_API_KEY", "value-of-mine")
    found = masked.known(
        {"HF_TOKEN": "value-of-server", "KEY": "short", "KEY_FILE": "/a/path/of/it", "A": "x" * 9}
    )
    assert {"value-of-mine", "value-of-server"} <= set(found)
    assert not {"short", "/a/path/of/it", "x" * 9} & set(found)


def test_a_key_is_nowhere_in_a_campaign(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given to the server in its command and environment, said by it at start, when it dies, and in a reply.

    Neither in the folder, nor on the console, nor on the page.
    """
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    script = Script(
        say=[f"api_key={KEY}"], die_at=6, die_with=[f"RuntimeError: {KEY} is used up"],
        questions={"What is 102": {"status": 400, "raw": f"no such key: {KEY}"}},
    )  # fmt: skip
    leg = legs_world.process(tmp_path, "a", script)
    legs_world.data(tmp_path)
    words = ", ".join(f'"{word}"' for word in [*leg["command"], "--api-key", KEY])
    file = tmp_path / "c.toml"
    file.write_text(
        'name = "c"\nbase = "a"\nrepeats = 1\n[task]\ndata = "data"\nshots = 2\nmax_tokens = 32\n'
        "max_length = 512\n[client]\nretries = 0\nconcurrency = 1\n[certify]\nprobe = 0\n[legs.a]\n"
        f'model = "m"\nbase_url = "{leg["base_url"]}"\ncommand = [{words}]\n'
        f'version = ["echo", "{KEY}"]\nenvironment = {{ SERVER_TOKEN = "{KEY}" }}\n',
        encoding="utf-8",
    )
    out = tmp_path / "out"
    assert cli.main(["legs", "run", str(file), "--dir", str(out)]) == exits.ERROR
    for command, *more in (("status",), ("certify",), ("pool", "--write", str(out / "w")),
                           ("report", "--html", str(out / "page.html"))):  # fmt: skip
        cli.main(["legs", command, str(out), *more])
    said = "".join(capfd.readouterr())
    assert "crashed" in said
    assert KEY not in said
    files = [one for one in out.rglob("*") if one.is_file()]
    assert {"server.log", "manifest.json", "samples.jsonl", "campaign.json", "page.html"} <= {
        one.name for one in files
    }
    assert [one.name for one in files if KEY.encode() in one.read_bytes()] == []
    assert b"api_key=" in (out / "a" / "1" / "server.log").read_bytes()


@pytest.mark.parametrize("value", ["5", "[1]"])
def test_a_wrong_secret_is_not_repeated(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its name, and what is allowed; the same for an address with a key in it."""
    file = tmp_path / "c.toml"
    leg = '[legs.a]\nmodel = "m"\nbase_url = "http://127.0.0.1:1/?api_key=word"\n'
    file.write_text(f'name = "c"\nbase = "a"\n{leg}environment = {{ API_KEY = {value} }}\n', encoding="utf-8")
    assert cli.main(["legs", "run", str(file)]) == exits.USAGE
    said = capsys.readouterr().err
    assert "word" not in said
    assert "legs.a.environment.API_KEY is a value that is not shown, allowed is" in said
