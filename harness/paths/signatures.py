"""Whether a foreign function takes what it is about to be given, by name.

Nothing foreign is called by position: a reordered signature would swap two tensors silently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.paths.base import Unsupported


def taken(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of ``function`` by name."""
    return inspect.signature(function).parameters


def check(found: Callable[..., Any], name: str, parameters: Sequence[str], owner: str) -> None:
    """Raise `Unsupported` unless ``found`` takes all of ``parameters`` by name and wants no other.

    ``name`` and ``owner`` (``this ATOM``) are for the sentence, which names the parameter.
    """
    known = taken(found)
    for wanted, kind in known.items():
        if kind.default is kind.empty and wanted not in parameters and _named(kind):
            raise Unsupported(f"{name} of {owner} wants a parameter {wanted}")
    if any(kind.kind is kind.VAR_KEYWORD for kind in known.values()):
        return
    for parameter in parameters:
        if parameter not in known or not _named(known[parameter]):
            raise Unsupported(f"{name} of {owner} has no parameter {parameter}")


def _named(parameter: inspect.Parameter) -> bool:
    """Whether the parameter takes an argument by name."""
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
