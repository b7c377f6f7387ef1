"""Signatures of the production functions that are called, and of those that a GPU is needed to call.

While a path runs, whatever its adapters look up is noted with its parameters and defaults. Functions
that no CPU runs are read from the source without importing it. How it would fail silently: a default
that prints as an address differs every time, so addresses are left out; one that is computed at import
is seen as its text in the source where the module cannot be imported.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.paths import signatures
from harness.paths.aiter import tree

Parameters = list[dict[str, str]]
"""Of each parameter in order: name, kind, default (absent where there is none)."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
CACHE, PAGED = "aiter/ops/cache.py", "aiter/ops/triton/attention/pa_mqa_logits.py"
TOPK = "aiter/ops/topk.py"
WATCHED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "aiter": {
        "fp8": (
            f"{CACHE}:indexer_k_quant_and_cache",
            f"{CACHE}:indexer_qk_rope_quant_and_cache",
            f"{CACHE}:cp_gather_indexer_k_quant_cache",
            f"{PAGED}:deepgemm_fp8_paged_mqa_logits",
            f"{PAGED}:deepgemm_fp8_paged_mqa_logits_schedule",
            "aiter/ops/triton/attention/fp8_mqa_logits.py:fp8_mqa_logits",
        ),
        "writer": (f"{CACHE}:indexer_qk_rope_quant_and_cache",),
        "topk": (f"{TOPK}:top_k_per_row_prefill", f"{TOPK}:top_k_per_row_decode"),
    },
}
"""File and function that a server calls, by path and suite; read from the source."""


@contextmanager
def noting(functions: dict[str, Parameters]) -> Iterator[None]:
    """Enter every function that an adapter looks up into ``functions``, until the block ends."""
    check, function = signatures.check, tree.function

    def noted_check(found: Callable[..., Any], name: str, *rest: Any) -> None:
        functions[name] = parameters_of(found)
        check(found, name, *rest)

    def noted_function(module: Any, name: str, *rest: Any) -> Callable[..., Any]:
        found = getattr(module, name, None)
        if callable(found):
            functions[name] = parameters_of(found)
        return function(module, name, *rest)

    # One process a tree, and no other thread in it looks functions up.
    setattr(signatures, "check", noted_check)  # noqa: B010 - an assignment would want the same signature
    setattr(tree, "function", noted_function)  # noqa: B010
    try:
        yield
    finally:
        signatures.check, tree.function = check, function


def parameters_of(found: Callable[..., Any]) -> Parameters:
    """Name, kind and default of each parameter of ``found``; defaults as they print, without addresses."""
    made = []
    for name, parameter in inspect.signature(found).parameters.items():
        entry = {"name": name, "kind": parameter.kind.description}
        if parameter.default is not parameter.empty:
            entry["default"] = _ADDRESS.sub("", repr(parameter.default))
        made.append(entry)
    return made


def watched(root: Path, path: str, suites: Iterable[str]) -> dict[str, Parameters]:
    """Parameters of `WATCHED` functions of the tree, as its source has them; those it lacks are left out."""
    found = {}
    for suite in suites:
        for place in WATCHED.get(path, {}).get(suite, ()):
            file, name = place.split(":")
            parameters = read(root / file, name)
            if parameters is not None:
                found[f"{name} (source)"] = parameters
    return found


def read(file: Path, name: str) -> Parameters | None:
    """Parameters of the function ``name`` in ``file``, from its text; None when there is none."""
    if not file.is_file():
        return None
    try:
        module = ast.parse(file.read_text())
    except SyntaxError:
        return None
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return _from_source(node.args)
    return None


def _from_source(arguments: ast.arguments) -> Parameters:
    positional = [*arguments.posonlyargs, *arguments.args]
    bare = len(positional) - len(arguments.defaults)
    made = [
        _entry(argument, "positional or keyword", None if place < bare else arguments.defaults[place - bare])
        for place, argument in enumerate(positional)
    ]
    if arguments.vararg:
        made.append(_entry(arguments.vararg, "variadic positional", None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        made.append(_entry(argument, "keyword-only", default))
    if arguments.kwarg:
        made.append(_entry(arguments.kwarg, "variadic keyword", None))
    return made


def _entry(argument: ast.arg, kind: str, default: ast.expr | None) -> dict[str, str]:
    entry = {"name": argument.arg, "kind": kind}
    return entry if default is None else {**entry, "default": ast.unparse(default)}
