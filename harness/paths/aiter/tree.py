"""The one door to aiter: imports single modules of it without running the package's ``__init__``.

``import aiter`` wants ROCm at import time. The modules under test do not, so the parent
packages are entered into ``sys.modules`` as empty packages whose ``__path__`` points into the
tree, and the modules are then imported as they stand. Two trees in one process would mix
silently, so a second tree is refused.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.paths.base import Unsupported

PACKAGE = "aiter"
_PLACE = re.compile(r" \((?:/|[A-Za-z]:)[^()]*\)")


def locate(tree: Path | None) -> Path:
    """Directory that holds the ``aiter`` package: ``tree``, or where an installed aiter lies.

    Raises `Unsupported` when there is none.
    """
    if tree is not None:
        return tree.resolve()
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Unsupported("no aiter is installed and no --aiter DIR was given")
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def find(root: Path, name: str, homes: Sequence[str]) -> str:
    """Dotted name of the first of the packages ``homes`` that holds a module ``name``.

    Raises `Unsupported` naming the newest home when none does.
    """
    for home in homes:
        if (root / Path(*home.split(".")) / f"{name}.py").is_file():
            return f"{home}.{name}"
    raise Unsupported(f"this aiter has no {homes[0].replace('.', '/')}/{name}.py")


def file_of(module: str) -> str:
    """The file of ``module`` (dotted) in a tree."""
    return f"{module.replace('.', '/')}.py"


def whence(function: Callable[..., Any]) -> dict[str, str]:
    """Facts on a function of a tree: its name and its file."""
    return {"function": function.__name__, "source": file_of(function.__module__)}


def load(root: Path, module: str) -> types.ModuleType:
    """Import ``module`` (dotted, inside aiter) from ``root``. Raises `Unsupported` with one sentence."""
    file = root / Path(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise Unsupported(f"this aiter has no {file.relative_to(root).as_posix()}")
    parent = module.rpartition(".")[0]
    parts = parent.split(".")
    for depth in range(1, len(parts) + 1):
        _seed(root, ".".join(parts[:depth]))
    try:
        return importlib.import_module(module)
    except Exception as problem:  # anything a foreign module does at import is a version skew
        # No directory of this machine in a record: not the tree's, nor the one Python adds in brackets.
        text = _PLACE.sub("", first_line(problem)).replace(str(root), PACKAGE)
        raise Unsupported(
            f"{file.relative_to(root).as_posix()} of this aiter does not import: {text}"
        ) from problem


def first_line(problem: BaseException) -> str:
    """The first line of an exception's message, or its type when it has none."""
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _seed(root: Path, package: str) -> None:
    path = str(root / Path(*package.split(".")))
    known = sys.modules.get(package)
    if known is None:
        # With a spec of its own, so that `locate` finds an installed aiter again afterwards.
        spec = importlib.machinery.ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [path]
        sys.modules[package] = importlib.util.module_from_spec(spec)
    elif path not in [str(Path(entry).resolve()) for entry in getattr(known, "__path__", ())]:
        raise Unsupported(f"{package} was already imported from another directory in this process")


def function(module: types.ModuleType, name: str, parameters: Sequence[str]) -> Callable[..., Any]:
    """The function ``name`` of ``module``, which must accept all of ``parameters`` by name.

    Raises `Unsupported` naming what is missing.
    """
    found = getattr(module, name, None)
    if not callable(found):
        raise Unsupported(f"{module.__name__} of this aiter has no function {name}")
    known = inspect.signature(found).parameters
    for wanted, kind in known.items():
        if kind.default is kind.empty and wanted not in parameters and _named(kind):
            raise Unsupported(f"{name} of this aiter wants a parameter {wanted}")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return found
    for parameter in parameters:
        if parameter not in known or not _named(known[parameter]):
            raise Unsupported(f"{name} of this aiter has no parameter {parameter}")
    return found


def _named(parameter: inspect.Parameter) -> bool:
    """Whether the parameter takes an argument by name."""
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
