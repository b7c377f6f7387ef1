"""What ``import`` does inside the files of an ATOM tree.

``atom`` leads to the tree, ``aiter`` to the aiter tree if there is one, and a name that was provided
to what stands there instead; the rest is Python's. Nothing enters ``sys.modules``, so two trees can be
used in one process, and no package's ``__init__`` runs unless one of its names is wanted.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from harness.paths.atom.stubs import Absent

PACKAGE = "atom"
AITER = "aiter"


class Loads(Protocol):
    """What an importer needs of a `Space`."""

    root: Path

    def file(self, module: str) -> Path | None: ...

    def shown(self, module: str) -> str: ...

    def ensure(self, module: str, names: set[str]) -> dict[str, Any]: ...


class Importer:
    """Stands for ``__import__``. ``aiter``: root of an aiter tree. ``provided``: dotted name to object."""

    def __init__(self, space: Loads, aiter: Path | None, provided: Mapping[str, Any]) -> None:
        self.space, self.aiter, self.provided = space, aiter, provided

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
        top = name.split(".")[0]
        if top not in (PACKAGE, AITER) and not self._provides(top):
            return builtins.__import__(name, space, local, fromlist or (), 0)
        if top == PACKAGE and not self._provides(name) and not self._exists(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return Module(self, name if fromlist else top)

    def attribute(self, module: str, name: str) -> Any:
        """What ``module.name`` is to an import of it. Raises AttributeError."""
        full = f"{module}.{name}"
        if full in self.provided:
            return self.provided[full]
        if self._provides(full):
            return Module(self, full)
        top = module.split(".")[0]
        if top == AITER:
            return self._of_aiter(module, name)
        if top != PACKAGE:
            return getattr(importlib.import_module(module), name)
        if self.space.file(module) is not None:
            names = self.space.ensure(module, {name})
            if name in names:
                return names[name]
        if self._exists(full):
            return Module(self, full)
        raise AttributeError(f"{self.space.shown(module)} of this ATOM has no {name}")

    def _provides(self, name: str) -> bool:
        """Whether something below ``name`` was provided."""
        return any(known.startswith(name + ".") for known in self.provided)

    def _exists(self, module: str) -> bool:
        return self.space.file(module) is not None or self.space.root.joinpath(*module.split(".")).is_dir()

    def _of_aiter(self, module: str, name: str) -> Any:
        if self.aiter is None:
            return Absent(f"ATOM takes {name} from {module}, and no --aiter DIR was given")
        # Here, because an ATOM tree alone needs nothing of what aiter's path needs.
        from harness.paths.aiter import tree as aiter_tree

        place = self.aiter.joinpath(*module.split("."))
        if place.with_suffix(".py").is_file():
            return getattr(aiter_tree.load(self.aiter, module), name)
        if (place / name).is_dir() or (place / f"{name}.py").is_file():
            return Module(self, f"{module}.{name}")
        return Absent(f"ATOM takes {name} from {module}, whose package is never imported here")


class Module(ModuleType):
    """What ``import atom.x`` gives: a module whose names are loaded when they are read."""

    def __init__(self, importer: Importer, name: str) -> None:
        super().__init__(name)
        self.__dict__["_importer"] = importer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self.__dict__["_importer"].attribute(self.__name__, name)
