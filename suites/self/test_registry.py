"""The registry of paths: chosen by name, checked before anything is imported, and refused in a sentence."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from harness.exits import CannotRun, InputError
from harness.paths import registry
from harness.record import provenance


@pytest.fixture
def no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which nobody has asked for Triton's interpreter, restored afterwards."""
    monkeypatch.setenv("TRITON_INTERPRET", "")
    monkeypatch.delitem(sys.modules, "triton", raising=False)


def checkout(folder: Path, inside: str) -> Path:
    """A directory that passes for a checkout."""
    (folder / inside).mkdir(parents=True)
    return folder


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    """The sentence lists what can be asked for."""
    with pytest.raises(InputError, match="allowed are flydsl, aiter, atom, oracle"):
        registry.choose(["nope"], registry.Trees())


def test_a_tree_means_nothing_to_a_path_without_one(tmp_path: Path) -> None:
    """A forgotten ``--path aiter`` is told instead of verifying something else."""
    with pytest.raises(InputError, match="means nothing to path oracle; add --path aiter"):
        registry.choose(["oracle"], registry.Trees(aiter=tmp_path))


def test_paths_join_with_their_trees(tmp_path: Path) -> None:
    """Without names: the in-tree path, and each path whose own tree is given; atom gets aiter beneath it."""
    trees = registry.Trees(checkout(tmp_path / "a", "aiter/ops"), checkout(tmp_path / "b", "atom/model_ops"))
    assert [choice.name for choice in registry.choose([], registry.Trees())] == ["flydsl"]
    flydsl, aiter, atom = registry.choose([], trees)
    assert (flydsl.name, aiter.name, atom.name) == ("flydsl", "aiter", "atom")
    assert flydsl.trees.given() == {}
    assert aiter.trees.given() == {"aiter": tmp_path / "a"}
    assert atom.trees == trees
    named = registry.choose(["atom"], trees)
    assert [choice.name for choice in named] == ["atom"]


def test_a_tree_that_is_none_is_told(tmp_path: Path) -> None:
    """What is missing, and of which option."""
    for directory, said in (
        (tmp_path, "is no ATOM checkout: it has no folder atom/model_ops"),
        (tmp_path / "absent", "does not exist; give the directory of an ATOM checkout"),
        (Path(__file__), "is a file"),
    ):
        with pytest.raises(InputError, match=f"--atom .* {said}"):
            registry.choose([], registry.Trees(atom=directory))
    with pytest.raises(InputError, match="--atom is missing; give the directory of an ATOM checkout"):
        registry.choose(["atom"], registry.Trees())


def test_a_package_that_is_absent_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is named, and the package."""
    absent = registry.Entry("harness.paths.none", "None", "", packages=("no_such_package_here",))
    monkeypatch.setattr(registry, "PATHS", {"absent": absent})
    with pytest.raises(CannotRun, match="path absent needs the package no_such_package_here"):
        registry.choose(["absent"], registry.Trees())


def test_a_module_that_cannot_be_imported_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that fails is no traceback."""
    monkeypatch.setattr(registry, "PATHS", {"broken": registry.Entry("harness.paths.no_such", "None", "")})
    with pytest.raises(CannotRun, match="path broken cannot be imported here"):
        registry.create(registry.Choice("broken"))


def test_the_production_path_has_its_builders_interpreted(no_interpreter: None) -> None:
    """Without a gfx950, Triton's interpreter is on before triton can be imported."""
    registry.prepare_environment("oracle")
    assert os.environ["TRITON_INTERPRET"] == ""
    registry.prepare_environment("aiter")
    assert os.environ["TRITON_INTERPRET"] == "1"


def test_a_setting_that_comes_too_late_is_refused(
    no_interpreter: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After triton's import the variable would be set and mean nothing."""
    monkeypatch.setitem(sys.modules, "triton", types.ModuleType("triton"))
    with pytest.raises(CannotRun, match="set before triton is imported"):
        registry.prepare_environment("aiter")


@pytest.mark.parametrize(("hip", "live"), [("6.4", True), (None, False)])
def test_a_gfx950_counts_only_if_torch_can_drive_it(
    hip: str | None, live: bool, no_interpreter: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chip beside a torch without HIP still means emulation."""
    monkeypatch.setattr(registry, "has_gfx950", lambda: True)
    monkeypatch.setattr(registry, "torch_setting", lambda name: hip)
    registry.prepare_environment("aiter")
    assert (os.environ["TRITON_INTERPRET"] == "") is live


@pytest.mark.parametrize(("version", "found"), [("90500", True), ("90402", False), ("905000", False)])
def test_the_chip_is_read_from_the_driver(version: str, found: bool, tmp_path: Path) -> None:
    """gfx950 is version 90500; its neighbours are not it."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "properties").write_text(
        f"simd_count 4\ngfx_target_version {version}\n", encoding="utf-8"
    )
    assert registry.has_gfx950(tmp_path) is found


def test_settings_of_torch_are_read_without_importing_it() -> None:
    """The text is the one that torch itself reports."""
    import torch

    assert provenance.torch_setting("git_version") == torch.version.git_version
    assert provenance.torch_setting("hip") == torch.version.hip
