"""One file of a source tree as a table: which top-level statements bind or change which name.

Nothing is executed here. How it would fail silently: a statement that changes a table after it was
made (``TABLE["x"] = 1``, a decorator that registers) left out, so that the function under test reads
half a table; such statements therefore belong to the name they change, unless that is an imported module's: a
process-wide setting of torch is not ATOM's to make here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

FILLING = {"add", "append", "extend", "insert", "pop", "register", "setdefault", "update"}
"""Methods by which a container is filled; ``logger.info`` fills none."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass
class Source:
    """A parsed file. ``bound``: name to the indices into ``statements`` that bind or change it."""

    file: Path
    statements: list[ast.stmt] = field(default_factory=list)
    bound: dict[str, list[int]] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    postponed: bool = False

    def closure(self, names: set[str], given: set[str]) -> list[int]:
        """Indices of the statements that ``names`` need, directly or through others, in file order.

        ``given`` names are there already: nothing is needed for them.
        """
        wanted: set[int] = set()
        todo, seen = list(names - given), names | given
        while todo:
            for index in self.bound.get(todo.pop(), ()):
                if index not in wanted:
                    wanted.add(index)
                    fresh = uses(self.statements[index]) - seen
                    seen |= fresh
                    todo += fresh
        return sorted(wanted)

    def method(self, owner: str, name: str) -> ast.FunctionDef | None:
        """The last definition of method ``name`` in class ``owner``, also inside an ``if`` of its body."""
        found = None
        for index in self.bound.get(owner, ()):
            for node in _flat([self.statements[index]], into_classes=owner):
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    found = node
        return found


@lru_cache(maxsize=256)
def _read(file: Path, _changed: int) -> Source:
    source = Source(file)
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    for statement in _single(tree.body):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            source.postponed |= any(alias.name == "annotations" for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            source.stars.append(statement)
        else:
            source.statements.append(statement)
    for index, statement in enumerate(source.statements):
        for name in binds(statement):
            source.bound.setdefault(name, []).append(index)
    imports = ast.Import | ast.ImportFrom
    made = {
        name
        for name, places in source.bound.items()
        if not all(isinstance(source.statements[index], imports) for index in places)
    }
    registers = {
        node.name: changed
        for node in source.statements
        if isinstance(node, ast.FunctionDef) and (changed := _changed_inside(node) & made)
    }
    for index, statement in enumerate(source.statements):
        called = {name for name in _calls(statement) if name in registers}
        for name in (_changes(statement) & made).union(*(registers[name] for name in called)):
            if index not in source.bound[name]:
                source.bound[name].append(index)
    return source


def read(file: Path) -> Source:
    """The table of ``file``; read again when the file has changed. Raises SyntaxError, OSError."""
    return _read(file, file.stat().st_mtime_ns)


def uses(node: ast.AST) -> set[str]:
    """Every name that occurs in ``node``: more than it needs, which does no harm."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def binds(statement: ast.stmt) -> set[str]:
    """The module-level names that ``statement`` may bind."""
    names: set[str] = set()
    for node in _flat([statement]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def _changes(statement: ast.stmt) -> set[str]:
    """Names whose object a plain statement changes: ``n[...] = ``, ``n.x = ``, ``n.update(...)``."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        targets = [statement.value.func] if isinstance(statement.value.func, ast.Attribute) else []
    names = set()
    for target in targets:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            names.add(target.id)
    return names


def _calls(statement: ast.stmt) -> set[str]:
    """Names of the functions that a statement calls by itself, and of its decorators."""
    calls: list[ast.expr] = []
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        calls = statement.decorator_list
    elif isinstance(statement, ast.Expr):
        calls = [statement.value]
    targets = (call.func if isinstance(call, ast.Call) else call for call in calls)
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _changed_inside(function: ast.FunctionDef) -> set[str]:
    """Names that a call of ``function`` may change: a registry that its decorator or call fills."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            names.update(node.names)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            method = node.value.func
            if isinstance(method, ast.Attribute) and method.attr in FILLING:
                names |= _changes(node)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            names |= _changes(node)
    return names


def _single(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """``body`` with one import a statement, so that one that fails takes no other with it."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and len(statement.names) > 1:
            for alias in statement.names:
                one = (
                    ast.Import([alias])
                    if isinstance(statement, ast.Import)
                    else ast.ImportFrom(statement.module, [alias], statement.level)
                )
                yield ast.copy_location(one, statement)
        else:
            yield statement


def _flat(nodes: list[ast.AST] | list[ast.stmt], into_classes: str = "") -> Iterator[ast.AST]:
    """Every node that belongs to the scope of ``nodes`` (and of the class ``into_classes``)."""
    for node in nodes:
        yield node
        if isinstance(node, SCOPES) and not (isinstance(node, ast.ClassDef) and node.name == into_classes):
            continue
        yield from _flat(list(ast.iter_child_nodes(node)), into_classes)
