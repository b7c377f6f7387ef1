"""Functions of an ATOM tree run as they stand, without the engine, and what is absent says so."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace, new_class
from typing import Any

import pytest

from harness.paths import base
from harness.paths.atom import AtomPath
from harness.paths.atom import tree as atom_tree
from harness.paths.atom.space import Space
from harness.paths.atom.stubs import Absent
from harness.paths.base import Outcome, OutOfScope, Unsupported

OPS = "atom/model_ops/ops.py"
SOURCE = '''"""A module as an engine has them."""
import functools
import no_such_package
from aiter import dtypes
from aiter.jit.chip import get_gfx

from .limits import TOP, missing
from atom.utils import envs

raise_if_run = no_such_package.start()
BIAS = 3
TABLE = {}
TABLE["x"] = 7


def twice(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return 2 * function(*args, **kwargs)

    return inner


@twice
def score(q, k, *, scale=1):
    return q * k * scale + BIAS + TABLE["x"]


def typed(x: dtypes.fp8) -> "missing":
    from atom.model_ops.limits import halve

    return halve(x) + TOP


def on_chip():
    return get_gfx()


def quantised(x, dtype=dtypes.fp8):
    return x


def broken(x):
    return x / 0


class Builder(dtypes.Base):
    width = 4

    def __init__(self):
        raise RuntimeError("wants a GPU")

    def publish(self, bs):
        return self.rows(bs) + self.offset + self._private()

    def rows(self, bs: dtypes.int) -> int:
        return bs * score(1, 1)

    def _private(self):
        return getattr(self, "extra", 0)

    @staticmethod
    def units(n):
        return n + BIAS
'''


def plant(root: Path, files: Mapping[str, str] | None = None) -> Path:
    """A tree whose package files must never run; ``files``: path to text."""
    place = root / "atom" / "model_ops"
    place.mkdir(parents=True)
    (root / "atom" / "__init__.py").write_text("raise RuntimeError('the engine starts')\n")
    (place / "__init__.py").write_text("raise RuntimeError('the engine starts')\n")
    (place / "ops.py").write_text(SOURCE)
    (place / "limits.py").write_text("TOP = 100\n\n\ndef halve(x):\n    return x // 2\n")
    for name, text in (files or {}).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def load(root: Path, name: str, *parameters: str, **more: Any) -> Callable[..., Any]:
    return atom_tree.load(root, (OPS,), name, parameters or None, **more)


# running what is there


def test_a_function_comes_with_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    """Decorators, constants and later changes to them; a failing statement beside them does not run."""
    assert load(plant(tmp_path), "score", "q", "k", "scale")(q=2, k=5, scale=10) == 2 * (100 + 3 + 7)


def test_source_and_traceback_are_the_files_own(tmp_path: Path) -> None:
    broken = load(plant(tmp_path), "broken")
    assert inspect.getsource(broken) == "def broken(x):\n    return x / 0\n"
    with pytest.raises(ZeroDivisionError) as caught:
        broken(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == str(tmp_path / OPS) and last.line == "return x / 0"


def test_imports_inside_a_function_lead_to_the_tree(tmp_path: Path) -> None:
    """An annotation whose type is absent is in nobody's way."""
    assert load(plant(tmp_path), "typed")(9) == 4 + 100


def test_a_name_is_found_through_a_package_and_a_star(tmp_path: Path) -> None:
    """A re-exported name is the original; a star brings what is used."""
    plant(
        tmp_path,
        {
            "atom/model_ops/v4/__init__.py": "from atom.model_ops.v4.kernel import scale\nFLOOR = 512\n",
            "atom/model_ops/v4/kernel.py": "from .deep import *\n\n\ndef scale(x):\n    return x * FACTOR\n",
            "atom/model_ops/v4/deep.py": "FACTOR = 6\n",
        },
    )
    home = ("atom/model_ops/v4/__init__.py",)
    assert atom_tree.load(tmp_path, home, "scale")(7) == 42
    assert atom_tree.value(tmp_path, home, "FLOOR") == 512


def test_dataclasses_of_the_tree_work(tmp_path: Path) -> None:
    """Also with postponed annotations, for which dataclasses look into ``sys.modules``; that is put back."""
    plant(
        tmp_path,
        {
            "atom/meta.py": "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "from typing import ClassVar\n\n\n@dataclass\nclass Meta:\n"
            "    kind: ClassVar[str] = 'm'\n    n: int = 3\n"
        },
    )
    before = set(sys.modules)
    assert atom_tree.value(tmp_path, ("atom/meta.py",), "Meta")(4).n == 4
    assert not {name for name in set(sys.modules) - before if name.startswith("atom")}


def test_two_trees_do_not_mix(tmp_path: Path) -> None:
    first, second = plant(tmp_path / "a"), plant(tmp_path / "b")
    (second / "atom/model_ops/limits.py").write_text("TOP = 200\n\n\ndef halve(x):\n    return x\n")
    assert [load(root, "typed")(8) for root in (first, second, first)] == [104, 208, 104]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert load(plant(tmp_path), "typed")(0) == 100
    limits = tmp_path / "atom/model_ops/limits.py"
    limits.write_text(limits.read_text().replace("100", "12345"))
    assert load(tmp_path, "typed")(0) == 12345


def test_one_space_keeps_objects(tmp_path: Path) -> None:
    """Without it two loads would have two classes of one name, and isinstance would be false."""
    space = Space(plant(tmp_path))
    assert load(tmp_path, "score", space=space) is load(tmp_path, "score", space=space)
    assert load(tmp_path, "score") is not load(tmp_path, "score")


REGISTRY = """
KERNELS = {}
LIMIT = [1]

def register(name):
    def keep(function):
        KERNELS[name] = function
        return function
    return keep

def raise_limit(to):
    LIMIT.append(to)

@register("a")
def first():
    return 1

@register("b")
def second():
    return 2

raise_limit(9)

if not KERNELS:
    def only_without_kernels():
        pass

def run(name):
    return KERNELS[name]() + LIMIT[-1]
"""


def test_what_fills_a_table_comes_with_the_table(tmp_path: Path) -> None:
    """Decorators that register and calls that change it; half a table would be no error."""
    plant(tmp_path, {"atom/registry.py": REGISTRY})
    run = atom_tree.load(tmp_path, ("atom/registry.py",), "run")
    assert (run("a"), run("b")) == (10, 11)


# what is not there


def test_a_name_whose_branch_is_not_taken_is_refused(tmp_path: Path) -> None:
    plant(tmp_path, {"atom/registry.py": REGISTRY})
    with pytest.raises(Unsupported, match=r"^atom/registry\.py of this ATOM does not define only_without_"):
        atom_tree.value(tmp_path, ("atom/registry.py",), "only_without_kernels")


def test_a_function_that_is_nowhere_is_named(tmp_path: Path) -> None:
    plant(tmp_path)
    with pytest.raises(
        Unsupported, match=r"^this ATOM has no gone in atom/new\.py or atom/model_ops/ops\.py$"
    ):
        atom_tree.load(tmp_path, ("atom/new.py", OPS), "gone")
    with pytest.raises(Unsupported, match=r"has no Builder\.gone in"):
        load(tmp_path, "Builder.gone")
    assert atom_tree.has(tmp_path, (OPS,), "score") and not atom_tree.has(tmp_path, (OPS,), "gone")


def test_the_newest_home_wins(tmp_path: Path) -> None:
    plant(tmp_path, {"atom/new.py": "def score(q):\n    return 'new'\n"})
    assert atom_tree.load(tmp_path, ("atom/new.py", OPS), "score")(1) == "new"


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("score", ("q", "k", "factor"), "score of this ATOM has no parameter factor"),
        ("score", ("q",), "score of this ATOM wants a parameter k"),
        ("Builder.rows", ("bs", "n"), r"Builder\.rows of this ATOM has no parameter n"),
        ("Builder.rows", (), ""),
    ],
)
def test_another_signature_is_refused(
    tmp_path: Path, name: str, parameters: tuple[str, ...], sentence: str
) -> None:
    plant(tmp_path)
    if sentence:
        with pytest.raises(Unsupported, match=sentence):
            load(tmp_path, name, *parameters)
    else:
        load(tmp_path, name, "bs")
        with pytest.raises(Unsupported, match="wants a parameter bs"):
            atom_tree.load(tmp_path, (OPS,), name, ())


def test_what_is_absent_raises_when_used_and_says_why(tmp_path: Path) -> None:
    on_chip = load(plant(tmp_path), "on_chip")
    with pytest.raises(
        Unsupported, match=r"^ATOM takes get_gfx from aiter\.jit\.chip, and no --aiter DIR was given$"
    ):
        on_chip()


def test_a_function_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """The default of a parameter is computed, and cannot be left out like an annotation."""
    with pytest.raises(
        Unsupported, match=r"^quantised of this ATOM cannot be loaded: .* takes dtypes from aiter"
    ):
        load(plant(tmp_path), "quantised")
    with pytest.raises(Unsupported, match=r"cannot be loaded: .*No module named 'no_such_package'"):
        load(tmp_path, "raise_if_run")
    with pytest.raises(Unsupported, match=r"^BIAS in atom/model_ops/ops\.py of this ATOM is no function$"):
        load(tmp_path, "BIAS")
    with pytest.raises(Unsupported, match=r"cannot import name 'missing' from 'atom\.model_ops\.limits'"):
        load(tmp_path, "missing")


def test_a_file_that_does_not_parse_is_said(tmp_path: Path) -> None:
    (plant(tmp_path) / OPS).write_text("def score(:\n")
    with pytest.raises(Unsupported, match=r"^atom/model_ops/ops\.py of this ATOM does not parse"):
        load(tmp_path, "score")


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it(),
        lambda it: it.name,
        lambda it: it[0],
        lambda it: bool(it),
        lambda it: it == 1,
        lambda it: it != 1,
        lambda it: it + 1,
        lambda it: 1 + it,
        lambda it: list(it),
        lambda it: f"{it}",
        lambda it: len(it),
        lambda it: 1 in it,
        lambda it: isinstance(1, it),
        lambda it: {it: 1},
        lambda it: setattr(it, "x", 1),
        lambda it: new_class("C", (it,)),
    ],
)
def test_no_use_of_something_absent_returns(use: Callable[[Any], Any]) -> None:
    with pytest.raises(Unsupported, match=r"^no kernel$"):
        use(Absent("no kernel"))


# methods


def test_a_method_comes_without_its_class(tmp_path: Path) -> None:
    rows = load(plant(tmp_path), "Builder.rows", "bs")
    assert rows(SimpleNamespace(), bs=3) == 3 * 22
    assert rows.__qualname__ == "Builder.rows"
    assert load(tmp_path, "Builder.units", "n")(5) == 8


def test_a_stand_in_has_the_methods_of_its_class_and_nothing_made_up(tmp_path: Path) -> None:
    above = "class Base:\n    def rows(self, bs):\n        return 1\n"
    space = Space(plant(tmp_path, {"atom/above.py": above}))
    assert atom_tree.stand_in(space, OPS, "Builder", offset=5).publish(2) == 2 * 22 + 5
    assert atom_tree.stand_in(space, OPS, "Builder", offset=5, extra=1).publish(2) == 2 * 22 + 6
    with pytest.raises(
        Unsupported, match=r"^Builder of this ATOM reads self\.offset, which is not given here$"
    ):
        atom_tree.stand_in(space, OPS, "Builder").publish(2)
    lent = atom_tree.stand_in(
        space, OPS, "Other", bases=(("atom/above.py", "Base"), (OPS, "Builder")), offset=0
    )
    assert lent.rows(9) == 1 and lent.publish(1) == 1


def test_super_in_a_stand_in_reaches_object(tmp_path: Path) -> None:
    """A constructor that starts with ``super().__init__()`` runs; its class's bases do not."""
    text = "import gpu\nclass Layer(gpu.Module):\n    def __init__(self, n):\n"
    text += "        super().__init__()\n        self.n = n + self.step()\n"
    text += "    def step(self):\n        return 1\n"
    space = Space(plant(tmp_path, {"atom/layer.py": text}))
    own = atom_tree.stand_in(space, "atom/layer.py", "Layer")
    atom_tree.method(space, "atom/layer.py", "Layer", "__init__", own)(n=2)
    assert own.n == 3
    assert atom_tree.method(space, "atom/layer.py", "Layer", "gone", own) is None


# standing in for names


def test_a_provided_name_stands_where_it_is_imported_and_where_it_is_defined(tmp_path: Path) -> None:
    plant(tmp_path)
    chip = {"aiter.jit.chip.get_gfx": lambda: "gfx950", "atom.model_ops.limits.halve": lambda x: -x}
    assert load(tmp_path, "on_chip", provided=chip)() == "gfx950"
    assert load(tmp_path, "typed", provided=chip)(9) == -9 + 100
    assert load(tmp_path, "score", provided={"atom.model_ops.ops.BIAS": 0})(1, 1) == 2 * (1 + 7)
    assert load(tmp_path, "on_chip", provided={"aiter.jit": SimpleNamespace()}) is not None


@pytest.fixture
def no_aiter() -> Iterator[None]:
    """No aiter is imported before or after."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "aiter"}
    for name in kept:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "aiter"]:
        del sys.modules[name]
    sys.modules.update(kept)


def test_aiter_comes_from_the_aiter_tree(tmp_path: Path, no_aiter: None) -> None:
    """A module is imported as it stands; the package itself never, so its own names stay absent."""
    chip = tmp_path / "aiter_tree" / "aiter" / "jit"
    chip.mkdir(parents=True)
    (chip / "chip.py").write_text("def get_gfx():\n    return 'gfx950'\n")
    root = plant(tmp_path / "atom_tree")
    assert load(root, "on_chip", aiter=tmp_path / "aiter_tree")() == "gfx950"
    with pytest.raises(Unsupported, match="takes dtypes from aiter, whose package is never imported here"):
        load(root, "quantised", aiter=tmp_path / "aiter_tree")


# the path


@dataclass(frozen=True)
class Ask:
    x: int


@dataclass(frozen=True)
class Other:
    x: int


class Under(base.Path):
    name = "under"
    executor = "emulated"

    def answers(self) -> base.Answers:
        return {Ask: lambda request: Outcome(request.x, facts={"launches": 1}), Other: lambda _: Outcome(0)}

    def tree(self, request: Any) -> str | None:
        return "decode"


def test_the_path_answers_its_own_and_passes_on_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(path: AtomPath, request: Other) -> Outcome:
        return path.outcome(path.load((OPS,), "score")(request.x, 1), "score")

    part = SimpleNamespace(answers=lambda path: {Other: partial(answer, path)})
    monkeypatch.setitem(sys.modules, "atom_test_part", part)
    monkeypatch.setattr(AtomPath, "parts", ("atom_test_part",))
    path = AtomPath(plant(tmp_path), Under())
    facts = {"subject": "atom score", "executor": "interpreted", "source": OPS}
    assert path.run(Other(1)) == Outcome(22, facts=facts)
    passed = path.run(Ask(5))
    assert passed.value == 5
    assert passed.facts == {"subject": "under", "executor": "emulated", "launches": 1}
    assert path.tree(Ask(5)) == "decode" and set(path.table) == {Ask, Other}
    alone = AtomPath(tmp_path, None)
    with pytest.raises(OutOfScope, match="path atom has no operation Ask"):
        alone.run(Ask(5))
    assert alone.tree(Ask(5)) is None and Ask not in alone.table


def test_the_path_says_what_it_is(tmp_path: Path) -> None:
    path = AtomPath(plant(tmp_path), Under())
    assert path.provenance()["atom"] == {"tree": str(tmp_path), "commit": "unknown", "dirty": "unknown"}
    assert "under" in path.provenance()
    assert path.rerun_args == ("--atom", str(tmp_path))
    assert path.has((OPS,), "score") and path.value((OPS,), "BIAS") == 3
