"""Attention backends of an ATOM tree, read from its source: which answer the publish call, which act.

Nothing is imported. A class is a backend when a builder of `FOLDER` stands above it; it answers when it
or a class above it defines the call, nearest first, and acts when that definition does anything at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "atom/model_ops/attentions"
CALL = "_publish_indexer_fp4_decode_schedule"
ROOT = "CommonAttentionBuilder"
"""The class above every backend."""
ACTING = "AiterMLAMetadataBuilder"
"""The backend that scores FP4, and those beneath it."""


@dataclass(frozen=True)
class Found:
    """One backend; ``scores_fp4``: it is, or derives from, the one that has an FP4 indexer."""

    name: str
    answers: bool
    acts: bool
    scores_fp4: bool


def read(root: Path) -> list[Found]:
    """The backends of the tree at ``root``, by name."""
    classes = dict(_classes(root / FOLDER))
    found = []
    for name in sorted(classes):
        above = list(_above(name, classes))
        if ROOT in above:
            call = next(
                (method for each in above if (method := _method(classes.get(each))) is not None), None
            )
            found.append(Found(name, call is not None, call is not None and _acts(call), ACTING in above))
    return found


def _classes(folder: Path) -> Iterator[tuple[str, ast.ClassDef]]:
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            if isinstance(node, ast.ClassDef):
                yield node.name, node


def _above(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """``name`` and the names of the classes above it, nearest first, each once."""
    seen, todo = set(), [name]
    while todo:
        one = todo.pop(0)
        if one in seen:
            continue
        seen.add(one)
        yield one
        known = classes.get(one)
        todo += [base for node in known.bases if (base := _name(node))] if known else []


def _name(node: ast.expr) -> str:
    """The class that a base names, without module and parameters."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _method(owner: ast.ClassDef | None) -> ast.FunctionDef | None:
    body = owner.body if owner else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == CALL), None)


def _acts(method: ast.FunctionDef) -> bool:
    """Whether a definition does more than return nothing."""
    return not all(_idle(statement) for statement in method.body)


def _idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Return):
        return statement.value is None or (
            isinstance(statement.value, ast.Constant) and statement.value.value is None
        )
    return False
