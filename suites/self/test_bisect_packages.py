"""Versions of a package: from a little index of wheels, each in a folder of its own, the right one named."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from harness import cli, exits
from harness.bisect import subject
from harness.bisect.packages import Package
from suites.self import bisect_history
from suites.self.bisect_history import CASE

NAME = "tinyfault"
VERSIONS = {
    "0.9": "agree",
    "0.10": "agree",
    "1.0": "broken",
    "1.1": "agree",
    "1.2": "differ",
    "1.10": "differ",
}
"""Version to what the case is there; ``broken``: it does not import."""
READ = f'import {NAME}; lines = [[words[1], {NAME}.STATUS, "1"]]'


def wheel(folder: Path, version: str, status: str) -> None:
    """A wheel of ``NAME`` by hand."""
    code = "import no_such_module" if status == "broken" else f"STATUS = {status!r}"
    about = f"{NAME}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{NAME}-{version}-py3-none-any.whl", "w") as made:
        made.writestr(f"{NAME}/__init__.py", f"{code}\n")
        made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the only index, and a tiny harness that reads the status in the package."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version, status in VERSIONS.items():
        wheel(folder, version, status)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    made = bisect_history.new(tmp_path, monkeypatch)
    main = made.folder / "harness" / "__main__.py"
    text = main.read_text(encoding="utf-8")
    read = next(line for line in text.splitlines() if line.startswith("lines ="))
    main.write_text(text.replace(read, READ), encoding="utf-8")
    monkeypatch.setattr(subject, "HOME", made.folder)
    return folder


def bisect(folder: Path, good: str, bad: str, *more: str) -> int:
    ends = ["--good", good, "--bad", bad]
    line = ["bisect", "--package", NAME, *ends, "--case", CASE, "--path", "oracle"]
    return cli.main([*line, "--dir", str(folder / "kept"), *more])


def test_the_first_bad_version_is_named(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions go by their order and not by their letters; one that does not import is skipped."""
    files = ["--json", str(tmp_path / "f.json"), "--markdown", str(tmp_path / "f.md")]
    assert bisect(tmp_path, "0.9", "1.10", *files) == exits.AGREE
    said = capsys.readouterr().out
    assert f"first bad version {NAME}==1.2\n" in said
    assert f"skip  {NAME}==1.0" in said and "does not import: ModuleNotFoundError" in said
    assert f"PYTHONPATH={tmp_path}/kept/packages/{NAME}-1.2 python -m harness check {CASE}" in said
    assert f"reduce\n  smallest  {CASE}" in said
    kept = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))["provenance"]
    assert kept["candidates"] == [f"{NAME}==1.2"]
    text = (tmp_path / "f.md").read_text(encoding="utf-8")
    assert text.startswith(f"# First bad version\n\n`{NAME}==1.2`\n") and "## harness diagnose" in text
    asked = (tmp_path / "asked.log").read_text(encoding="utf-8")
    assert bisect(tmp_path, "0.9", "1.10") == exits.AGREE
    assert (tmp_path / "asked.log").read_text(encoding="utf-8") == asked


def test_an_end_that_does_not_import_cannot_be_told(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bisect(tmp_path, "1.0", "1.10") == exits.ERROR
    assert "--good 1.0 cannot be told: tinyfault==1.0 does not import" in capsys.readouterr().err


def test_versions_that_are_none_are_refused(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, with those that there are."""
    for good, bad, more, sentence in [
        ("0.9", "2.0", [], "--bad is 2.0, allowed are 0.9, 0.10, 1.0, 1.1, 1.2, 1.10"),
        ("x y", "1.2", [], "--good is 'x y', allowed is a version of tinyfault"),
        ("1.2", "0.9", [], "--good 1.2 is not older than --bad 0.9"),
        ("0.9", "1.2", ["--only", "x"], "--only means nothing beside --package"),
    ]:
        assert bisect(tmp_path, good, bad, *more) == exits.USAGE
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


def test_a_folder_that_holds_another_version_is_not_believed(index: Path, tmp_path: Path) -> None:
    """What is imported has to be the version that was asked for, out of its folder."""
    package = Package(NAME, tmp_path / "packages")
    assert package.lacks("0.9") == ""
    package.folder("0.9").rename(package.folder("0.10"))
    assert package.lacks("0.10") == "tinyfault==0.10 was installed, but tinyfault 0.9 is imported"
    assert "cannot be installed" in package.lacks("7.0")
    assert not list((tmp_path / "packages").glob("install-*"))
