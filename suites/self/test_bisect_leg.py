"""`harness bisect --leg`: over commits that serve a stub, whose answers are right now and then."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import cli, exits
from harness.bisect.leg import leg_of, of_tree
from harness.exits import InputError
from harness.legs import campaign
from suites.self import legs_world, stub_server
from suites.self.bisect_history import History
from suites.self.planted import ROOT

QUESTIONS = 40
SERVER = f"""
import pathlib, random, sys

sys.path.insert(0, {str(ROOT)!r})
from suites.self.stub_server import Listening, Script

here = pathlib.Path(__file__).parent
count = pathlib.Path(sys.argv[2])
count.write_text(str(int(count.read_text()) + 1))
wrong = (here / "wrong").read_text().strip()
if wrong == "crash":
    sys.exit("no such kernel")
draw = random.Random(int(count.read_text()))
script = Script(questions={{
    f"What is {{100 + number}} plus": {{"text": " I do not know.\\n#### 0"}}
    for number in range({QUESTIONS}) if draw.random() < float(wrong)
}})
Listening(int(sys.argv[1]), script).serve_forever()
"""
CAMPAIGN = """
name = "sums"
base = "a"
task = {{ data = "{data}", shots = 2, max_tokens = 32, max_length = 512 }}
client = {{ concurrency = 8, retries = 0, backoff = 0.0 }}
server = {{ start_timeout = 60.0, stop_timeout = 5.0 }}
certify = {{ probe = 0, index_topk = {topk} }}
[legs.a]
model = "stub"
base_url = "http://127.0.0.1:{port}"
command = ["{python}", "{{tree}}/server.py", "{port}", "{count}"]
[legs.other]
model = "stub"
base_url = "http://127.0.0.1:9"
"""


def history(folder: Path, wrong: list[str]) -> History:
    """A commit for each share of wrong answers, or ``crash``."""
    (folder / "tree").mkdir()
    (folder / "tree" / "server.py").write_text(SERVER, encoding="utf-8")
    (folder / "count").write_text("0", encoding="utf-8")
    made = History(folder / "tree", [])
    made.git("init", "-q", "-b", "main")
    for number, share in enumerate(wrong):
        (made.folder / "wrong").write_text(f"{share}\n", encoding="utf-8")
        (made.folder / "number").write_text(f"{number}\n", encoding="utf-8")
        made.git("add", "--all")
        made.git("commit", "-q", "-m", f"commit {number}")
        made.hashes.append(made.git("rev-parse", "HEAD"))
    return made


def campaign_file(folder: Path, topk: int = 0) -> Path:
    file = folder / "campaign.toml"
    data = legs_world.data(folder, QUESTIONS)
    words = {"python": sys.executable, "port": stub_server.free_port(), "count": folder / "count"}
    file.write_text(CAMPAIGN.format(data=data, topk=topk, **words), encoding="utf-8")
    return file


def bisect(made: History, file: Path, *more: str) -> int:
    ends = ["--good", f"HEAD~{len(made.hashes) - 1}", "--bad", "HEAD"]
    line = ["bisect", "--repo", str(made.folder), *ends, "--leg", str(file), "--margin", "10"]
    return cli.main([*line, "--dir", str(made.folder.parent / "kept"), *more])


def count(made: History) -> int:
    """Servers started so far."""
    return int((made.folder.parent / "count").read_text(encoding="utf-8"))


def test_the_commit_that_made_it_worse_is_named_and_nothing_is_measured_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five commits, one that crashes, the fourth loses most answers; a second search starts no server."""
    made, file = history(tmp_path, ["0.1", "crash", "0.1", "0.7", "0.7"]), campaign_file(tmp_path)
    files = ["--json", str(tmp_path / "f.json"), "--markdown", str(tmp_path / "f.md")]
    code = bisect(made, file, *files)
    said = capsys.readouterr().out
    assert f"first bad commit {made.hashes[3]}" in said, said
    assert code == exits.AGREE
    about = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert about["provenance"]["candidates"] == [made.hashes[3]]
    assert about["provenance"]["probability"] >= 0.95
    records: list[dict[str, Any]] = about["records"]
    each = [sum(one["commit"] == commit for one in records) for commit in made.hashes]
    assert each[0] >= 2 and each[4] >= 2
    assert len(records) == count(made) <= 14
    text = (tmp_path / "f.md").read_text(encoding="utf-8")
    assert "| commit 3 |" in text and "- `M wrong`" in text
    before = count(made)
    crashed = each[1]
    assert bisect(made, file) == exits.AGREE
    assert count(made) - before == crashed  # only what has no answer is asked again
    assert made.git("worktree", "list").count("\n") == 0


def test_a_leg_that_is_not_certified_tells_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prompts that are shorter than index_topk: the indexer had nothing to select."""
    made, file = history(tmp_path, ["0.1", "0.7"]), campaign_file(tmp_path, topk=2048)
    assert bisect(made, file) == exits.ERROR
    assert "--good HEAD~1 cannot be told: the leg is not measured: " in capsys.readouterr().err
    assert count(made) == 1


def test_one_leg_has_to_name_the_tree(tmp_path: Path) -> None:
    """It is served from there, alone; what it is called otherwise stays."""
    found = campaign.load(campaign_file(tmp_path))
    assert leg_of(found) == "a"
    filled = of_tree(found, "a", Path("/t"), 3)
    assert (list(filled.legs), filled.base, filled.repeats) == (["a"], "a", 3)
    command = filled.legs["a"].command
    assert command is not None and command[1] == "/t/server.py" and command[0] == sys.executable
    none = found.model_copy(update={"legs": {"other": found.legs["other"]}})
    with pytest.raises(InputError, match=r"legs that name \{tree\} are none, allowed is one"):
        leg_of(none)
    twice = found.model_copy(update={"legs": {"a": found.legs["a"], "b": found.legs["a"]}})
    with pytest.raises(InputError, match=r"legs that name \{tree\} are a, b, allowed is one"):
        leg_of(twice)


def test_bad_input_of_a_leg_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, file = history(tmp_path, ["0.1", "0.7"]), campaign_file(tmp_path)
    for more, sentence in [
        (["--confidence", "0.4"], "--confidence is 0.4, allowed is above 0.5"),
        (["--margin", "0"], "--margin is 0, allowed are points above 0"),
        (["--samples", "0"], "--samples is 0"),
        (["--path", "aiter"], "--path means nothing beside --leg"),
        (["--explain", "-1"], "--explain is -1"),
    ]:
        assert bisect(made, file, *more) == exits.USAGE
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1
    assert count(made) == 0
