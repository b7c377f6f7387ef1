"""Lines of a server's log are counted over the sample, and never as absent when nobody can tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.legs import crash, journal, logs
from suites.self.legs_world import asked, driven, process
from suites.self.stub_server import Script, Stub

SAID = ["indexer: fp4", "accept length: 2.5", "WARNING falling back to dense", "accept length: 3.5"]
LENGTH = r"accept length: ([\d.]+)"


def log(folder: Path, text: str | bytes) -> Path:
    file = folder / "server.log"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def counted(file: Path, *patterns: str) -> dict[str, int]:
    """Counts over the whole file."""
    found = logs.read(file, [{"from": 0, "to": None, "mark": None}], patterns)
    assert found is not None
    return found[0]


def manifest(folder: Path, leg: str = "a", sample: int = 1) -> dict[str, Any]:
    return journal.place(folder / "out", leg, sample).manifest()


def test_each_line_counts_once_for_each_pattern(tmp_path: Path) -> None:
    """Twice in a line is one line; anchors are those of lines; an unended last line is one too."""
    file = log(tmp_path, "one one\ntwo\nxone\ntwo one")
    assert counted(file, "one", "^one", "one$", "two", "three") == {
        "one": 3, "^one": 1, "one$": 3, "two": 2, "three": 0,
    }  # fmt: skip


def test_a_progress_bar_hides_nothing(tmp_path: Path) -> None:
    """Carriage returns end lines, and bytes that are no text harm none."""
    file = log(
        tmp_path, b"10%\r20%\rWARNING: fallback\r\n\xff\xfe fallback\n" + b"50%\r" * 9000 + b"fallback"
    )
    assert counted(file, "fallback$", "^WARNING", "%$") == {"fallback$": 3, "^WARNING": 1, "%$": 9002}


@pytest.mark.parametrize("place", [0, 3830, 3836, 3840, 4090, 7675, 7680, 100_000])
def test_a_long_line_is_looked_at_to_its_end(place: int, tmp_path: Path) -> None:
    """In pieces that overlap, so that a match across a cut is seen, and still counts once."""
    text = "x" * place + "fallback" + "y" * 5000
    assert counted(log(tmp_path, f"{text}\n{text}\nfallback\n"), "fallback", "xfallbackz") == {
        "fallback": 3, "xfallbackz": 0,
    }  # fmt: skip


def test_no_pattern_sees_more_than_a_piece(tmp_path: Path) -> None:
    """What bounds a slow pattern: no piece is longer than is documented, and none of the line is left out."""
    file = log(tmp_path, "ab" * 50_000 + "\n")
    with open(file, "rb") as stream:
        (pieces,) = logs.lines(stream, 0, file.stat().st_size)
    assert max(map(len, pieces)) == logs.LONGEST
    assert pieces[0] + "".join(piece[logs.OVERLAP :] for piece in pieces[1:]) == "ab" * 50_000


def test_only_the_segments_are_read(tmp_path: Path) -> None:
    """Not what another sample wrote between; one that a kill left open ends where the next begins."""
    file = log(tmp_path, "hit 1\n")
    first = logs.segment(file)
    log(tmp_path, "hit 1\nhit 2\n")
    first["to"] = file.stat().st_size
    log(tmp_path, "hit 1\nhit 2\nhit 3\nhit 3\n")
    second = logs.segment(file)
    log(tmp_path, "hit 1\nhit 2\nhit 3\nhit 3\nhit 4\n")
    third = logs.segment(file)
    log(tmp_path, "hit 1\nhit 2\nhit 3\nhit 3\nhit 4\nhit 5\n")
    names = tuple(f"hit {number}" for number in range(1, 6))
    assert logs.read(file, [first, second, third], names) == (
        {"hit 1": 0, "hit 2": 1, "hit 3": 0, "hit 4": 1, "hit 5": 1}, [],
    )  # fmt: skip


@pytest.mark.parametrize("after", ["", "old", "new start, long since past where the segment began\nhit\n"])
def test_a_log_begun_anew_tells_nothing(after: str, tmp_path: Path) -> None:
    """Shorter than the start, or other bytes before it: its counts are none, not zero."""
    file = log(tmp_path, "old lines\n")
    segment = logs.segment(file)
    assert logs.read(file, [segment], ["hit"]) == ({"hit": 0}, [])
    log(tmp_path, after)
    assert logs.read(file, [segment], ["hit"]) is None
    assert logs.read(tmp_path / "absent.log", [segment], ["hit"]) is None
    assert logs.read(file, [{"from": 0, "to": 10_000, "mark": None}], ["hit"]) is None


def test_a_crash_in_a_log_begun_anew_has_its_lines(tmp_path: Path) -> None:
    """The tail is that of the new log."""
    assert crash.tail(log(tmp_path, "short\n"), 5000) == ["short"]
    assert crash.tail(log(tmp_path, "before\nafter\n"), 7) == ["after"]


def test_values_are_numbers(tmp_path: Path) -> None:
    """The first match of a line; what is no finite number is left out."""
    file = log(tmp_path, "a=1.5 a=9\na=x\na=inf\na=nan\nb=1\na=2.5\n")
    found = logs.read(file, [{"from": 0, "to": None, "mark": None}], (), r"a=(\S+)")
    assert found == ({}, [1.5, 2.5])
    file = log(tmp_path, f"a=1.5{' ' * 9000}a=9\n{' ' * 9000}a=2.5{' ' * 9000}a=9\n")
    found = logs.read(file, [{"from": 0, "to": None, "mark": None}], (), r"a=(\S+)")
    assert found == ({}, [1.5, 2.5])


def test_the_manifest_has_counts_and_acceptance(tmp_path: Path) -> None:
    """Of the campaign's patterns and of the leg's own, over the captured log."""
    leg = {**process(tmp_path, "a", Script(say=SAID)), "forbidden": ["out of slots"], "acceptance": LENGTH}
    certify = {"required": ["indexer: fp4", "indexer: fp8"], "forbidden": ["(?i)warning.*falling back"]}
    driven(tmp_path, asked(tmp_path, {"a": leg}, certify=certify))
    assert manifest(tmp_path)["patterns"] == {
        "required": {"indexer: fp4": 1, "indexer: fp8": 0},
        "forbidden": {"(?i)warning.*falling back": 1, "out of slots": 0},
        "log": True,
    }
    assert manifest(tmp_path)["acceptance"] == 3.0


def test_all_attempts_of_a_sample_are_counted(tmp_path: Path) -> None:
    """A warning before the crash is a warning of the sample, though its second server gave none."""
    leg = process(tmp_path, "a", Script(say=["ready"], die_at=4, die_with=["WARNING: slow path"]))
    one = {"concurrency": 1}
    found = asked(
        tmp_path, {"a": leg}, certify={"required": ["ready"], "forbidden": ["slow path"]}, client=one
    )
    assert driven(tmp_path, found) == {"a/1": "crashed"}
    assert manifest(tmp_path)["patterns"]["forbidden"] == {"slow path": 1}
    assert driven(tmp_path, found) == {"a/1": "finished"}
    assert manifest(tmp_path)["patterns"] == {
        "required": {"ready": 2}, "forbidden": {"slow path": 1}, "log": True,
    }  # fmt: skip


def test_without_a_log_nobody_can_tell(tmp_path: Path) -> None:
    """A leg that names none of a server that runs already; one that is named is read from its start, or from
    where it was."""
    (tmp_path / "own.log").write_text("fallback of another day\n", encoding="utf-8")
    with Stub() as stub:
        own = {"base_url": stub.url, "log": "own.log"}
        legs = {"a": {"base_url": stub.url}, "b": {**own, "log_from": "now"}, "c": own}
        driven(tmp_path, asked(tmp_path, legs, certify={"forbidden": ["fallback"]}))
    nothing = {"required": {}, "forbidden": {"fallback": 0}}
    assert manifest(tmp_path)["patterns"] == {**nothing, "log": False}
    assert manifest(tmp_path, "b")["patterns"] == {**nothing, "log": True}
    assert manifest(tmp_path, "c")["patterns"] == {"required": {}, "forbidden": {"fallback": 1}, "log": True}
    assert manifest(tmp_path)["acceptance"] is None


def test_a_server_that_begins_its_log_anew_is_not_looked_at(tmp_path: Path) -> None:
    """Its own file, longer by now than where the segment began: what it held is not known."""
    leg = process(tmp_path, "a", Script())
    script = "import sys; open(sys.argv[1], 'w').write('WARNING: fallback\\n' * 9); exec(sys.argv[2])"
    rest = (
        f"import runpy; sys.argv = {leg['command'][1:]!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    leg["command"] = [sys.executable, "-c", script, str(tmp_path / "own.log"), rest]
    (tmp_path / "own.log").write_text("another day\n", encoding="utf-8")
    driven(tmp_path, asked(tmp_path, {"a": {**leg, "log": "own.log"}}, certify={"forbidden": ["fallback"]}))
    assert manifest(tmp_path)["patterns"] == {"required": {}, "forbidden": {"fallback": 0}, "log": False}


def test_acceptance_stands_beside_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over samples that told, in the pooled table; a leg that told none has a dash."""
    monkeypatch.setenv("COLUMNS", "200")
    leg = {**process(tmp_path, "a", Script(say=SAID)), "acceptance": LENGTH}
    with Stub() as stub:
        legs = {"a": leg, "b": {"base_url": stub.url}}
        driven(tmp_path, asked(tmp_path, legs, repeats=2, certify={"index_topk": 0}))
    journal.place(tmp_path / "out", "a", 2).update(acceptance=2.5)
    assert logs.acceptance(tmp_path / "out") == {"a": 2.75}
    cli.main(["legs", "pool", str(tmp_path / "out"), "--json", str(tmp_path / "pooled.json")])
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    shown = [(row[0], row[1], row[-1]) for row in rows if "6/6 6/6" in row]
    assert shown == [
        ("a", "strict", "2.75"), ("a", "flexible", "2.75"), ("b", "strict", "-"), ("b", "flexible", "-"),
    ]  # fmt: skip
    content = json.loads((tmp_path / "pooled.json").read_text(encoding="utf-8"))
    assert content["acceptance_length"] == {"a": 2.75}
