"""``harness ab`` as a command: two trees, two processes, one answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness import cli
from harness.ab.order import Order, kind_of
from harness.exits import AGREE, DIFFER, USAGE, InputError
from suites.self.fake_aiter import FLAT_SOURCE, plant

CHANGED = FLAT_SOURCE.replace("clean_logits=True", "clean_logits=False").replace(
    "    return logits", "    logits.view(torch.int32)[-1, int(cu_starts[-1])] ^= 1\n    return logits"
)


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be left in it."""
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr(tempfile, "tempdir", None)


def ab(base: Path, head: Path, *more: str) -> int:
    return cli.main(["ab", "--base", str(base), "--head", str(head), "--suite", "fp8", *more])


def test_a_tree_is_the_same_as_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, counts of what was compared, and an empty temporary folder."""
    root = plant(tmp_path / "tree")
    assert ab(root, root, "--json", str(tmp_path / "ab.json")) == AGREE
    out = capsys.readouterr().out
    assert "path aiter" in out and "no changes" in out and "a HIP source, is not in this tree" in out
    document = json.loads((tmp_path / "ab.json").read_text())
    statuses = [record["status"] for record in document["records"] if record["kind"] == "case"]
    assert document["complete"] and statuses.count("same") == 5 and set(statuses) == {"same", "unsupported"}
    assert not list((tmp_path / "temporary").iterdir())


def test_a_byte_and_a_default_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1; the cell is named with both patterns, the default with both values."""
    base, head = plant(tmp_path / "base"), plant(tmp_path / "head", flat=CHANGED)
    assert ab(base, head, "--json", str(tmp_path / "ab.json")) == DIFFER
    out = capsys.readouterr().out
    assert "signature of fp8_mqa_logits: default of clean_logits was True, is False" in out
    assert "value float32 [8, 364]: 1 of 2912 cells differ, first at [" in out
    records = json.loads((tmp_path / "ab.json").read_text())["records"]
    changed = [record for record in records if record["kind"] == "case" and record["status"] == "differs"]
    assert len(changed) == 5 and all(record["changes"][0]["count"] == 1 for record in changed)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: None, "does not exist"),
        (lambda root: root.write_text(""), "is a file"),
        (lambda root: root.mkdir(), "is no source tree that is known"),
    ],
)
def test_what_is_no_tree_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object, says: str
) -> None:
    """Exit 2 with one sentence that names the option."""
    root = tmp_path / "none"
    make(root)  # type: ignore[operator]
    assert ab(root, root) == USAGE
    said = capsys.readouterr().err
    assert said.startswith("harness: --base") and says in said and said.count("\n") == 1


def test_trees_of_two_kinds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "atom" / "atom" / "model_ops").mkdir(parents=True)
    assert kind_of("--base", tmp_path / "atom") == "atom"
    assert ab(tmp_path / "atom", plant(tmp_path / "aiter")) == USAGE
    assert "allowed is one kind" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--suite", "fp9"), "--suite is 'fp9'"),
        (("--json", "/nowhere/x.json"), "--json"),
        (("--aiter", "."), "--aiter . means nothing to trees of aiter"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], says: str
) -> None:
    root = plant(tmp_path / "tree")
    assert ab(root, root, *more) == USAGE
    assert says in capsys.readouterr().err


def test_an_order_survives_its_file(tmp_path: Path) -> None:
    order = Order("aiter", "/t", None, ("fp8", "decode"), "smoke", "/f")
    order.write(tmp_path / "order.json")
    assert Order.read(tmp_path / "order.json") == order
    with pytest.raises(InputError, match="--head"):
        kind_of("--head", tmp_path / "absent")


def test_a_killed_command_leaves_nothing(tmp_path: Path) -> None:
    """Killed outright, its sides notice, delete the folder and end."""
    root = plant(tmp_path / "tree")
    home = tmp_path / "temporary"
    line = [sys.executable, "-m", "harness", "ab", "--base", str(root), "--head", str(root), "--suite", "fp8"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(home)})
    until = time.monotonic() + 30
    while len(list(home.glob("*/*/order.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while list(home.glob("harness-ab-*")) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(home.glob("harness-ab-*"))
