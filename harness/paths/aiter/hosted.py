"""Runs an aiter host module as it stands, with what its imports cannot have here standing in.

Host functions of Triton kernels live in modules that also import Gluon kernels, chip tables and the
package itself. The file is executed in a namespace of its own; ``aiter`` imports inside it go to the
tree (one module at a time, without the package's ``__init__``), to ``provided``, or to an `Absent` that
raises `Unsupported` with its reason when it is used. Nothing is left in ``sys.modules`` but the modules
that really import. A stand-in that answered quietly would make up what the host computes.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.paths.aiter import tree
from harness.paths.atom.stubs import Absent
from harness.paths.base import Unsupported


def load(root: Path, module: str, provided: Mapping[str, Any]) -> ModuleType:
    """Module ``module`` (dotted) of the tree at ``root``; ``provided``: dotted name to what stands there.

    Raises `Unsupported` when the file is missing or does not execute.
    """
    file = root / Path(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise Unsupported(f"this aiter has no {file.relative_to(root).as_posix()}")
    made = ModuleType(module)
    importer = _Importer(root, provided)
    made.__dict__.update(
        __file__=str(file),
        __package__=module.rpartition(".")[0],
        __builtins__={**vars(builtins), "__import__": importer},
    )
    try:
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), made.__dict__)
    except Exception as problem:  # anything a foreign module does at import is a version skew
        text = tree.first_line(problem).replace(str(root), tree.PACKAGE)
        name = file.relative_to(root).as_posix()
        raise Unsupported(f"{name} of this aiter does not execute: {text}") from problem
    return made


class _Importer:
    """Stands for ``__import__`` in a host module."""

    def __init__(self, root: Path, provided: Mapping[str, Any]) -> None:
        self.root, self.provided = root, provided

    def __call__(
        self,
        name: str,
        space: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level:
            name = util.resolve_name("." * level + name, str((space or {})["__package__"]))
        if name.split(".")[0] != tree.PACKAGE:
            return builtins.__import__(name, space, local, fromlist or (), 0)
        return _Lazy(self, name if fromlist else tree.PACKAGE)

    def attribute(self, module: str, name: str) -> Any:
        """What ``module.name`` is to an import of it."""
        full = f"{module}.{name}"
        if full in self.provided:
            return self.provided[full]
        place = self.root.joinpath(*module.split("."))
        if any(known.startswith(f"{full}.") for known in self.provided):
            return _Lazy(self, full)
        if (place / name).is_dir() or (place / f"{name}.py").is_file():
            return _Lazy(self, full)
        if place.is_dir():
            return Absent(f"{full} belongs to a package of aiter that is never imported here")
        try:
            return getattr(tree.load(self.root, module), name)
        except (Unsupported, AttributeError) as problem:
            return Absent(f"{full} cannot be had here: {tree.first_line(problem)}")


class _Lazy(ModuleType):
    """A module of aiter whose names are looked up when they are read."""

    def __init__(self, importer: _Importer, name: str) -> None:
        super().__init__(name)
        self.__dict__["_importer"] = importer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self.__dict__["_importer"].attribute(self.__name__, name)
