"""Provenance: a commit is given only to what git tracks, and everything unknown says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.paths import registry
from harness.record import provenance

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *IDENTITY, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "kernel.py").write_text("a = 1\n", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_clean_checkout_has_its_commit(checkout: Path) -> None:
    """The commit is the one that is checked out."""
    assert provenance.commit_of(checkout) == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False}


def test_a_changed_file_makes_it_dirty(checkout: Path) -> None:
    """A fault planted in a checkout is seen in the record."""
    (checkout / "kernel.py").write_text("a = 2\n", encoding="utf-8")
    assert provenance.commit_of(checkout)["dirty"] is True


def test_a_new_file_makes_it_dirty(checkout: Path) -> None:
    """A file that git does not know yet may well be imported."""
    (checkout / "other.py").write_text("", encoding="utf-8")
    assert provenance.commit_of(checkout)["dirty"] is True


def test_an_untracked_copy_inside_a_checkout_has_no_commit(checkout: Path) -> None:
    """A package installed below somebody's work tree is not given that tree's commit."""
    installed = checkout / "venv" / "package.py"
    installed.parent.mkdir()
    installed.write_text("", encoding="utf-8")
    assert provenance.commit_of(installed) == {"commit": "unknown", "dirty": "unknown"}


def test_a_plain_folder_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git, no guess."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.commit_of(tmp_path)["commit"] == "unknown"


def test_a_record_names_every_part(checkout: Path) -> None:
    """Versions, commits, machine and the arguments in effect are all there."""
    about = provenance.collect([registry.Choice("aiter", registry.Trees(aiter=checkout))], {"cases": "full"})
    for part in ("project", "aiter", "flydsl", "triton", "torch"):
        assert set(about[part]) >= {"version", "commit", "dirty"}
    assert about["aiter"]["commit"] == git(checkout, "rev-parse", "HEAD")
    assert about["arguments"] == {"cases": "full"}
    assert about["machine"]["cores"] >= 1
    assert about["torch"]["version"] != "unknown"


def test_a_distribution_that_is_absent_is_unknown() -> None:
    """An absent package is said to be unknown and is not an error."""
    assert provenance.version("no-such-distribution-here") == "unknown"
