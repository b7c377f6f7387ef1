"""Modules of an aiter tree are imported without its package, and what does not fit is one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from harness.paths.aiter import AiterPath
from harness.paths.aiter import tree as aiter_tree
from harness.paths.base import Unsupported
from harness.paths.requests.scoring import DecodeSchedule

MODULE = "aiter.ops.kernels.scorer"
FILE = "aiter/ops/kernels/scorer.py"
SOURCE = """
from .sibling import FACTOR
from aiter.ops import other

def score(q, k, *, scale=1.0):
    return q * k * scale * FACTOR + other.BIAS
"""


@pytest.fixture(autouse=True)
def _no_aiter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts in a process that never imported any aiter; modules and path are put back."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "aiter"}
    path = [entry for entry in sys.path if not (Path(entry) / "aiter").is_dir()]
    monkeypatch.setattr(sys, "path", path)
    for name in kept:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "aiter"]:
        del sys.modules[name]
    sys.modules.update(kept)


def plant(root: Path, source: str = SOURCE) -> Path:
    """A tree with one scorer, its two neighbours, and package files that must never run."""
    home = root / "aiter" / "ops" / "kernels"
    home.mkdir(parents=True)
    for package in (home.parent.parent, home.parent, home):
        (package / "__init__.py").write_text("raise ImportError('this package wants a GPU')\n")
    (home / "scorer.py").write_text(source)
    (home / "sibling.py").write_text("FACTOR = 10\n")
    (home.parent / "other.py").write_text("BIAS = 3\n")
    return root


def load(root: Path) -> ModuleType:
    return aiter_tree.load(root, MODULE)


# finding and importing


def test_a_module_and_what_it_imports_come_from_the_tree(tmp_path: Path) -> None:
    """Relative and absolute imports inside aiter work, though no package of it may be imported."""
    module = load(plant(tmp_path))
    assert module.score(2, 3) == 63
    assert Path(str(module.__file__)).is_relative_to(tmp_path)
    assert load(tmp_path) is module


def test_a_tree_is_located_where_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative directory, and one reached through a link, are the directory itself."""
    plant(tmp_path / "tree")
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    monkeypatch.chdir(tmp_path)
    assert aiter_tree.locate(Path("tree")) == aiter_tree.locate(Path("link")) == (tmp_path / "tree").resolve()
    first = load(aiter_tree.locate(Path("tree")))
    assert load(aiter_tree.locate(Path("link"))) is first


def test_an_installed_aiter_is_found_before_and_after_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(2):
        assert aiter_tree.locate(None) == tmp_path.resolve()
        assert load(aiter_tree.locate(None)).score(1, 1) == 13


def test_no_aiter_at_all_is_said() -> None:
    with pytest.raises(Unsupported, match=r"^no aiter is installed and no --aiter DIR was given$"):
        aiter_tree.locate(None)


def test_a_missing_module_is_named_by_its_file(tmp_path: Path) -> None:
    """An older aiter, and a directory that is none; nothing is entered into sys.modules."""
    plant(tmp_path / "old")
    (tmp_path / "old" / FILE).unlink()
    (tmp_path / "none").mkdir()
    for root in ("old", "none", "not-even-there"):
        with pytest.raises(Unsupported, match=rf"^this aiter has no {FILE}$"):
            load(tmp_path / root)
    assert "aiter" not in sys.modules


def test_the_newest_home_of_a_module_is_preferred(tmp_path: Path) -> None:
    plant(tmp_path)
    homes = ("aiter.ops.kernels.moved", "aiter.ops.kernels")
    assert aiter_tree.find(tmp_path, "scorer", homes) == MODULE
    (tmp_path / "aiter/ops/kernels/moved").mkdir()
    (tmp_path / "aiter/ops/kernels/moved/scorer.py").write_text("")
    assert aiter_tree.find(tmp_path, "scorer", homes) == "aiter.ops.kernels.moved.scorer"
    with pytest.raises(Unsupported, match=r"^this aiter has no aiter/ops/kernels/moved/absent\.py$"):
        aiter_tree.find(tmp_path, "absent", homes)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package_anywhere", "No module named 'no_such_package_anywhere'"),
        ("from aiter.ops import gone", "cannot import name 'gone' from 'aiter.ops'"),
        ("from json import gone", "cannot import name 'gone' from 'json'$"),
        ("import aiter.gone", "No module named 'aiter.gone'"),
        ("raise RuntimeError('no GPU here\\nand a second line')", "no GPU here$"),
        ("raise KeyError", "KeyError$"),
        ("def broken(:", "invalid syntax"),
        ("from .sibling import ABSENT", "cannot import name 'ABSENT' from 'aiter.ops.kernels.sibling'"),
    ],
)
def test_a_module_that_does_not_import_says_why(tmp_path: Path, source: str, reason: str) -> None:
    """One line, with the file, and without this machine's directories."""
    with pytest.raises(Unsupported, match=rf"^{FILE} of this aiter does not import: {reason}") as refusal:
        load(plant(tmp_path, source))
    assert "\n" not in str(refusal.value) and str(tmp_path) not in str(refusal.value)


def test_a_failed_import_does_not_stand_in_the_way(tmp_path: Path) -> None:
    """Another module of the same tree still loads, and so does the same one once it is mended."""
    plant(tmp_path, "import no_such_package_anywhere")
    with pytest.raises(Unsupported):
        load(tmp_path)
    assert aiter_tree.load(tmp_path, "aiter.ops.other").BIAS == 3
    (tmp_path / FILE).write_text(SOURCE)
    assert load(tmp_path).score(1, 1) == 13


def test_a_second_tree_in_one_process_is_refused(tmp_path: Path) -> None:
    """Two versions would mix silently: modules of one would import the other's."""
    load(plant(tmp_path / "one"))
    plant(tmp_path / "two", SOURCE.replace("scale=1.0", "scale=2.0"))
    with pytest.raises(
        Unsupported, match=r"^aiter was already imported from another directory in this process$"
    ):
        load(tmp_path / "two")
    assert load(tmp_path / "one").score(1, 1) == 13


# signatures


def function(source: str, *parameters: str) -> object:
    module = ModuleType("aiter.made_up")
    exec(source, module.__dict__)
    return aiter_tree.function(module, "f", parameters)


@pytest.mark.parametrize(
    "source",
    [
        "def f(a, b): pass",
        "def f(b, a): pass",
        "def f(*, a, b=1): pass",
        "def f(a, b, c=None, *rest): pass",
        "def f(**named): pass",
        "def f(a, **named): pass",
        "class f:\n def __init__(self, a, b): pass",
        "import functools\nf = functools.partial(lambda a, b, c: 0, c=1)",
    ],
)
def test_functions_that_take_all_parameters_by_name(source: str) -> None:
    assert callable(function(source, "a", "b"))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("g = 1", "aiter.made_up of this aiter has no function f"),
        ("f = 3", "aiter.made_up of this aiter has no function f"),
        ("def f(a): pass", "f of this aiter has no parameter b"),
        ("def f(a, *b): pass", "f of this aiter has no parameter b"),
        ("def f(a, b, /): pass", "f of this aiter has no parameter a"),
        ("def f(a, b, mode): pass", "f of this aiter wants a parameter mode"),
        ("def f(a, b, *, mode): pass", "f of this aiter wants a parameter mode"),
        ("def f(mode, **named): pass", "f of this aiter wants a parameter mode"),
    ],
)
def test_a_changed_signature_is_one_sentence(source: str, reason: str) -> None:
    """A missing function or parameter, one that takes no name any more, and one that is newly required."""
    with pytest.raises(Unsupported) as refusal:
        function(source, "a", "b")
    assert str(refusal.value) == reason


# through the path


def test_the_path_hands_the_sentence_on(tmp_path: Path) -> None:
    """A tree without the scorers is unsupported, whatever is asked of it; nothing falls back."""
    path = AiterPath(plant(tmp_path))
    request = DecodeSchedule(torch.tensor([5], dtype=torch.int32), next_n=1, units=1, max_seq_len=256)
    with pytest.raises(Unsupported, match=r"^this aiter has no aiter/ops/flydsl/.*\.py$"):
        path.run(request)
