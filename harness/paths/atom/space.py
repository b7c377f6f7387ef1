"""Runs the statements of ATOM's files that a function needs, and no others.

Each file gets a namespace of its own that is filled name by name, with the file's own lines and with
imports under control. How it would fail silently: a statement that fails while it is loaded could
leave a name out, or an older value in it; its names are therefore `Absent`, which says why on use.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.paths.atom import source as files
from harness.paths.atom.importing import PACKAGE, Importer
from harness.paths.atom.source import Source
from harness.paths.atom.stubs import Absent
from harness.paths.base import Unsupported


class Space:
    """What has been loaded of one tree.

    ``root``: the checkout. ``aiter``: root of an aiter tree, or None. ``provided``: dotted name
    (``aiter.jit.utils.chip_info.get_gfx``, ``atom.x.y``) to the object that stands there instead.
    """

    def __init__(self, root: Path, aiter: Path | None = None, provided: Mapping[str, Any] | None = None):
        self.root, self.provided = root, dict(provided or {})
        self._import = Importer(self, aiter, self.provided)
        self._spaces: dict[str, dict[str, Any]] = {}
        self._done: dict[str, set[int]] = {}

    def file(self, module: str) -> Path | None:
        """The file of a dotted module of the tree, or None."""
        place = self.root.joinpath(*module.split("."))
        return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)

    def shown(self, module: str) -> str:
        """The file of ``module`` as it is written in sentences."""
        file = self.file(module)
        return module if file is None else file.relative_to(self.root).as_posix()

    def source(self, module: str) -> Source:
        """The parsed file of ``module``. Raises ModuleNotFoundError, or `Unsupported`: it does not parse."""
        file = self.file(module)
        if file is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        try:
            return files.read(file)
        except SyntaxError as problem:
            raise Unsupported(f"{self.shown(module)} of this ATOM does not parse: {problem.msg}") from problem

    def ensure(self, module: str, names: set[str]) -> dict[str, Any]:
        """The namespace of ``module`` with ``names`` and all they need in it, so far as it can be had."""
        table, space = self.source(module), self._namespace(module)
        given = {name for name in table.bound if f"{module}.{name}" in self.provided}
        space.update((name, self.provided[f"{module}.{name}"]) for name in given)
        needed = table.closure(names, given)
        for index in needed:
            if index not in self._done[module]:
                self._done[module].add(index)
                self._execute(table, module, table.statements[index])
        if table.stars:
            used = names.union(*(files.uses(table.statements[index]) for index in needed))
            self._from_stars(table, module, used - set(space) - set(vars(builtins)))
        return space

    def method(self, module: str, owner: str, name: str) -> Any:
        """Method ``name`` of class ``owner`` or None, without the class: its bases may want a GPU."""
        table = self.source(module)
        found = table.method(owner, name)
        if found is None:
            return None
        space = self.ensure(module, files.uses(found))
        shell = ast.ClassDef(name=owner, bases=[], keywords=[], body=[found], decorator_list=[])
        scope: dict[str, Any] = {}
        self._run(table, ast.copy_location(shell, found), space, scope)
        return vars(scope[owner])[name]

    def _namespace(self, module: str) -> dict[str, Any]:
        if module not in self._spaces:
            file = self.file(module)
            package = module if file and file.name == "__init__.py" else module.rpartition(".")[0]
            self._spaces[module] = {
                "__name__": module,
                "__package__": package,
                "__file__": str(file),
                "__builtins__": {**vars(builtins), "__import__": self._import},
            }
            self._done[module] = set()
        return self._spaces[module]

    def _from_stars(self, table: Source, module: str, names: set[str]) -> None:
        """Bind those of ``names`` that ``from x import *`` brings in from the tree."""
        space = self._namespace(module)
        for statement in table.stars:
            if statement.level == 0 and (statement.module or "").split(".")[0] != PACKAGE:
                continue
            origin = self._import(statement.module or "", space, None, ("*",), statement.level)
            space.update((name, getattr(origin, name)) for name in sorted(names) if hasattr(origin, name))

    def _execute(self, table: Source, module: str, statement: ast.stmt) -> None:
        """Run one top-level statement; the names that it was to bind are absent when it fails."""
        space = self._spaces[module]
        try:
            with _known_as(module, space, isinstance(statement, ast.ClassDef)):
                self._run(table, statement, space, space)
        except Exception as problem:  # whatever foreign code raises while it is loaded
            for name in files.binds(statement):
                space[name] = Absent(self._why(module, name, problem))

    def _run(self, table: Source, statement: ast.stmt, space: dict[str, Any], local: dict[str, Any]) -> None:
        defines = isinstance(statement, ast.FunctionDef | ast.ClassDef)
        postponed = (table.postponed, True) if defines else (table.postponed,)
        for attempt, later in enumerate(postponed, start=1):
            flags = __future__.annotations.compiler_flag if later else 0
            code = compile(ast.Module([statement], []), str(table.file), "exec", flags, dont_inherit=True)
            try:
                exec(code, space, local)
                return
            except Unsupported:
                # An absent type is in a function's way only as long as its annotations are computed.
                if attempt == len(postponed):
                    raise

    def _why(self, module: str, name: str, problem: Exception) -> str:
        text = str(problem).partition("\n")[0].replace(str(self.root), "ATOM")
        if not isinstance(problem, Unsupported):
            text = f"{type(problem).__name__}: {text}"
        return f"{name} of {self.shown(module)} cannot be had here: {text}"


@contextmanager
def _known_as(module: str, space: dict[str, Any], needed: bool) -> Iterator[None]:
    """``sys.modules[module]`` is ``space`` meanwhile, if ``needed``: dataclasses look their module up."""
    if not needed:
        yield
        return
    before = sys.modules.get(module)
    shown = ModuleType(module)
    shown.__dict__.update(space)
    sys.modules[module] = shown
    try:
        yield
    finally:
        sys.modules.pop(module)
        if before is not None:
            sys.modules[module] = before
